"""The columns of posts: names, types, meanings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

ColumnKind = Literal["string", "strings", "json", "timestamp", "bigint", "boolean"]


class Column(NamedTuple):
    """One column.

    :param comment: what it holds; goes to the sink with the column.
    :param required: never null.
    :param few_values: its values repeat.
    """

    kind: ColumnKind
    comment: str
    required: bool = False
    few_values: bool = False


COLUMNS: dict[str, Column] = {
    "id": Column("string", "The post's id; an edited post has a new one.", required=True),
    "created_at": Column("timestamp", "When it was posted, or edited for the last time (UTC).", required=True),
    "text": Column("string", "Its text; of a long post the whole text."),
    "lang": Column("string", "Its language, as X guesses it (BCP 47).", few_values=True),
    "author_id": Column("string", "Id of its author."),
    "author_username": Column("string", "The author's handle, without the @; null unless users are expanded."),
    "author_name": Column("string", "The author's name; null unless users are expanded."),
    "conversation_id": Column("string", "Id of the post that began the conversation."),
    "in_reply_to_user_id": Column("string", "Id of the user whom it replies to."),
    "possibly_sensitive": Column("boolean", "Whether it may hold sensitive content."),
    "edit_history": Column("strings", "Ids of all its versions, oldest first; the last one is id."),
    "repost_count": Column("bigint", "How often it was reposted, when it was read."),
    "reply_count": Column("bigint", "How many replies it had, when it was read."),
    "like_count": Column("bigint", "How many likes it had, when it was read."),
    "quote_count": Column("bigint", "How often it was quoted, when it was read."),
    "bookmark_count": Column("bigint", "How often it was bookmarked, when it was read."),
    "impression_count": Column("bigint", "How often it was seen, when it was read."),
    "author": Column("json", "The author as sent; null unless users are expanded."),
    "referenced": Column(
        "json", "The posts that it quotes, replies to or reposts: an array of type, id and, if expanded, post."
    ),
    "users": Column("json", "Other users whom it names and X has sent along: an array."),
    "media": Column("json", "Its media as sent: an array; null unless media are expanded."),
    "polls": Column("json", "Its polls as sent: an array; null unless polls are expanded."),
    "place": Column("json", "Its place as sent; null unless places are expanded."),
    "errors": Column("json", "What X could not send along with it, and why: an array of problems."),
    "post": Column("json", "The whole post: its JSON text as sent.", required=True),
    "queries": Column("strings", "Which of the queries have found it.", required=True),
    "record_key": Column("string", "Identity of the post, 32 hex digits, made from its id.", required=True),
}


def schema() -> pa.Schema:
    """Return the schema of all batches, with metadata as :meth:`.Poller.schema` defines it."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "string": pa.string(),
        "strings": pa.list_(pa.string()),
        "json": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
    }
    return pa.schema(
        [
            pa.field(
                name,
                types[column.kind],
                not column.required,
                {"comment": column.comment}
                | ({"few_values": "yes"} if column.few_values else {})
                | ({"json": "checked"} if column.kind == "json" else {}),
            )
            for name, column in COLUMNS.items()
        ],
        {"record_name": "connect.x.Post"},
    )
