"""The columns of posts: names, types, meanings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.polling.columns import RowColumn, arrow_field
from airflow_provider_connect.sources._x_search.options import StreamName

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: dict[str, RowColumn] = {
    "id": RowColumn("string", "The post's id; an edited post has a new one.", required=True),
    "created_at": RowColumn("timestamp", "When it was posted, or edited for the last time (UTC).", required=True),
    "text": RowColumn("string", "Its text; of a long post the whole text."),
    "lang": RowColumn("string", "Its language, as X guesses it (BCP 47).", few_values=True),
    "author_id": RowColumn("string", "Id of its author."),
    "author_username": RowColumn("string", "The author's handle, without the @; null unless users are expanded."),
    "author_name": RowColumn("string", "The author's name; null unless users are expanded."),
    "conversation_id": RowColumn("string", "Id of the post that began the conversation."),
    "in_reply_to_user_id": RowColumn("string", "Id of the user whom it replies to."),
    "possibly_sensitive": RowColumn("boolean", "Whether it may hold sensitive content."),
    "edit_history": RowColumn("strings", "Ids of all its versions, oldest first; the last one is id."),
    "repost_count": RowColumn("bigint", "How often it was reposted, when it was read."),
    "reply_count": RowColumn("bigint", "How many replies it had, when it was read."),
    "like_count": RowColumn("bigint", "How many likes it had, when it was read."),
    "quote_count": RowColumn("bigint", "How often it was quoted, when it was read."),
    "bookmark_count": RowColumn("bigint", "How often it was bookmarked, when it was read."),
    "impression_count": RowColumn("bigint", "How often it was seen, when it was read."),
    "author": RowColumn("json", "The author as sent; null unless users are expanded."),
    "referenced": RowColumn(
        "json", "The posts that it quotes, replies to or reposts: an array of type, id and, if expanded, post."
    ),
    "users": RowColumn("json", "Other users whom it names and X has sent along: an array."),
    "media": RowColumn("json", "Its media as sent: an array; null unless media are expanded."),
    "polls": RowColumn("json", "Its polls as sent: an array; null unless polls are expanded."),
    "place": RowColumn("json", "Its place as sent; null unless places are expanded."),
    "errors": RowColumn("json", "What X could not send along with it, and why: an array of problems."),
    "post": RowColumn("json", "The whole post: its JSON text as sent.", required=True),
    "queries": RowColumn("strings", "Which of the queries have found it.", required=True),
    "record_key": RowColumn("string", "Identity of the post, 32 hex digits, made from its id.", required=True),
}

_USERS: dict[str, RowColumn] = {
    "id": RowColumn("string", "The user's id.", required=True),
    "username": RowColumn("string", "The handle, without the @."),
    "name": RowColumn("string", "The name."),
    "created_at": RowColumn("timestamp", "When the account was made (UTC)."),
    "description": RowColumn("string", "What the user says of themselves."),
    "location": RowColumn("string", "Where, as the user says."),
    "verified": RowColumn("boolean", "Whether X has verified the account."),
    "protected": RowColumn("boolean", "Whether only followers see the user's posts; ask for the field."),
    "followers_count": RowColumn("bigint", "How many follow the user, when it was read."),
    "following_count": RowColumn("bigint", "How many the user follows, when it was read."),
    "post_count": RowColumn("bigint", "How many posts the user has made, when it was read."),
    "listed_count": RowColumn("bigint", "How many lists the user is in, when it was read."),
    "user": RowColumn("json", "The whole user: the JSON text as sent.", required=True),
    "record_key": RowColumn("string", "Identity of the user, 32 hex digits, made from the id.", required=True),
}
_MEDIA: dict[str, RowColumn] = {
    "media_key": RowColumn("string", "The medium's key.", required=True),
    "type": RowColumn("string", "photo, video or animated_gif.", few_values=True),
    "url": RowColumn("string", "Where a photo is."),
    "preview_image_url": RowColumn("string", "Where the still picture of a video is."),
    "alt_text": RowColumn("string", "The description that its user gave."),
    "width": RowColumn("bigint", "In pixels."),
    "height": RowColumn("bigint", "In pixels."),
    "duration_ms": RowColumn("bigint", "Of a video, in milliseconds."),
    "media": RowColumn("json", "The whole medium: the JSON text as sent.", required=True),
    "record_key": RowColumn("string", "Identity of the medium, 32 hex digits, made from its key.", required=True),
}
_OF_SEARCH = ("errors", "queries")
_REFERENCED: dict[str, RowColumn] = {name: column for name, column in COLUMNS.items() if name not in _OF_SEARCH} | {
    "created_at": RowColumn(
        "timestamp", "When it was posted, or edited for the last time (UTC); mostly before the day."
    )
}


class XStream(NamedTuple):
    """What one stream's rows are.

    :param what: what a row is.
    :param record_name: the full name of a row's schema.
    :param key: the column that a row's key is made from.
    """

    summary: str
    record_name: str
    key: str
    columns: dict[str, RowColumn]


STREAMS: dict[StreamName, XStream] = {
    "posts": XStream("a post that the queries find", "connect.x.Post", "id", COLUMNS),
    "users": XStream(
        "a user who has written, or is named by, one of these posts or a post that it refers to",
        "connect.x.User",
        "id",
        _USERS,
    ),
    "media": XStream("a photo or video of one of these posts", "connect.x.Media", "media_key", _MEDIA),
    "referenced": XStream(
        "a post that one of these quotes, replies to or reposts", "connect.x.ReferencedPost", "id", _REFERENCED
    ),
}


def schema(stream: StreamName = "posts") -> pa.Schema:
    """Return the schema of all batches of a stream, with metadata as :meth:`.Poller.schema` defines it."""
    import pyarrow as pa

    fields = [arrow_field(name, column) for name, column in STREAMS[stream].columns.items()]
    return pa.schema(fields, {"record_name": STREAMS[stream].record_name})
