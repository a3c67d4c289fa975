"""Columns of posts, users, media and referenced posts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.polling.columns import RowColumn, arrow_field
from airflow_provider_connect.sources._x_search.options import StreamName

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: dict[str, RowColumn] = {
    "id": RowColumn("string", "Id of the post. An edited post has a new id.", required=True),
    "created_at": RowColumn("timestamp", "Time of the post, or of its last edit (UTC).", required=True),
    "text": RowColumn("string", "Its complete text, also of a long post."),
    "lang": RowColumn("string", "Its language according to X (BCP 47).", few_values=True),
    "author_id": RowColumn("string", "Id of its author."),
    "author_username": RowColumn("string", "The author's handle, without the @. Null unless users are expanded."),
    "author_name": RowColumn("string", "The author's name. Null unless users are expanded."),
    "conversation_id": RowColumn("string", "Id of the post that began the conversation."),
    "in_reply_to_user_id": RowColumn("string", "Id of the user to whom it replies."),
    "possibly_sensitive": RowColumn("boolean", "True if it may contain sensitive content."),
    "edit_history": RowColumn("strings", "Ids of all its versions, oldest first. The last is id."),
    "repost_count": RowColumn("bigint", "Number of reposts at the time of the request."),
    "reply_count": RowColumn("bigint", "Number of replies at the time of the request."),
    "like_count": RowColumn("bigint", "Number of likes at the time of the request."),
    "quote_count": RowColumn("bigint", "Number of quotes at the time of the request."),
    "bookmark_count": RowColumn("bigint", "Number of bookmarks at the time of the request."),
    "impression_count": RowColumn("bigint", "Number of views at the time of the request."),
    "author": RowColumn("json", "The author as sent. Null unless users are expanded."),
    "referenced": RowColumn(
        "json", "The posts that it quotes, replies to or reposts: an array of type, id and, if expanded, post."
    ),
    "users": RowColumn("json", "Other users that it names, as sent: an array."),
    "media": RowColumn("json", "Its media as sent: an array. Null unless media are expanded."),
    "polls": RowColumn("json", "Its polls as sent: an array. Null unless polls are expanded."),
    "place": RowColumn("json", "Its place as sent. Null unless places are expanded."),
    "errors": RowColumn("json", "Problems of objects that X could not send with it: an array."),
    "post": RowColumn("json", "The complete post: JSON text as sent.", required=True),
    "queries": RowColumn("strings", "The queries that found it.", required=True),
    "record_key": RowColumn("string", "Key of the post: 32 hex digits from its id.", required=True),
}

_USERS: dict[str, RowColumn] = {
    "id": RowColumn("string", "The user's id.", required=True),
    "username": RowColumn("string", "The handle, without the @."),
    "name": RowColumn("string", "The name."),
    "created_at": RowColumn("timestamp", "Time at which the account was created (UTC)."),
    "description": RowColumn("string", "The user's own description."),
    "location": RowColumn("string", "The user's own location."),
    "verified": RowColumn("boolean", "True if X has verified the account."),
    "protected": RowColumn("boolean", "True if only followers see the user's posts. Needs the field in user_fields."),
    "followers_count": RowColumn("bigint", "Number of followers at the time of the request."),
    "following_count": RowColumn("bigint", "Number of followed users at the time of the request."),
    "post_count": RowColumn("bigint", "Number of the user's posts at the time of the request."),
    "listed_count": RowColumn("bigint", "Number of lists with the user at the time of the request."),
    "user": RowColumn("json", "The complete user: JSON text as sent.", required=True),
    "record_key": RowColumn("string", "Key of the user: 32 hex digits from the id.", required=True),
}
_MEDIA: dict[str, RowColumn] = {
    "media_key": RowColumn("string", "The medium's key.", required=True),
    "type": RowColumn("string", "photo, video or animated_gif.", few_values=True),
    "url": RowColumn("string", "URL of a photo."),
    "preview_image_url": RowColumn("string", "URL of a video's still picture."),
    "alt_text": RowColumn("string", "Description by its author."),
    "width": RowColumn("bigint", "In pixels."),
    "height": RowColumn("bigint", "In pixels."),
    "duration_ms": RowColumn("bigint", "Duration of a video, in milliseconds."),
    "media": RowColumn("json", "The complete medium: JSON text as sent.", required=True),
    "record_key": RowColumn("string", "Key of the medium: 32 hex digits from its media_key.", required=True),
}
_OF_SEARCH = ("errors", "queries")
_REFERENCED: dict[str, RowColumn] = {name: column for name, column in COLUMNS.items() if name not in _OF_SEARCH} | {
    "created_at": RowColumn("timestamp", "Time of the post, or of its last edit (UTC), mostly before the day.")
}


class XStream(NamedTuple):
    """Definition of one stream's rows.

    :param key: column that makes ``record_key``.
    """

    summary: str
    record_name: str
    key: str
    columns: dict[str, RowColumn]


STREAMS: dict[StreamName, XStream] = {
    "posts": XStream("a post that matches the queries", "connect.x.Post", "id", COLUMNS),
    "users": XStream(
        "an author of, or a user named in, one of these posts or a post to which it refers",
        "connect.x.User",
        "id",
        _USERS,
    ),
    "media": XStream("a photo or video of one of these posts", "connect.x.Media", "media_key", _MEDIA),
    "referenced": XStream(
        "a post that one of these posts quotes, replies to or reposts", "connect.x.ReferencedPost", "id", _REFERENCED
    ),
}


def schema(stream: StreamName = "posts") -> pa.Schema:
    import pyarrow as pa

    fields = [arrow_field(name, column) for name, column in STREAMS[stream].columns.items()]
    return pa.schema(fields, {"record_name": STREAMS[stream].record_name})
