"""The two dialects of X's field names: how requests are written, and how answers are read. DAG files import this.

X's specification (2.167, 2026-08) says ``post.fields``, its guides of the same days ``tweet.fields``. The server takes
both, and answers in the names of the request (https://github.com/0xFlimbo/attention-index, docs/PROVIDERS.md, 2026-09).
So a request is written in one dialect, and an answer is read in both.

They differ in one thing: the newer dialect has no fields for the ids of author and referenced posts. They come with the
expansions alone, which bring users and posts that X bills.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Dialect = Literal["post", "tweet"]

SENT_WITH_EXPANSIONS = ("author_id", "in_reply_to_user_id", "referenced_posts")
"""Fields that the newer dialect has as expansions only; the older one has both."""

SENT_WITHOUT_ASKING = "edit_history_post_ids"
"""A field of every post, which the newer dialect does not list among those to ask for."""

_OLD_FIELDS = {
    "edit_history_post_ids": "edit_history_tweet_ids",
    "note_post": "note_tweet",
    "referenced_posts": "referenced_tweets",
    "post_count": "tweet_count",
    "repost_count": "retweet_count",
    "total_post_count": "total_tweet_count",
    "posts": "tweets",
}
_OLD_EXPANSIONS = {
    "referenced_posts": "referenced_tweets.id",
    "edit_history_post_ids": "edit_history_tweet_ids",
}


def parameters(dialect: Dialect, names: Iterable[str], expanded: Iterable[str]) -> dict[str, str]:
    """Return the parameters that ask for fields of posts, and for what posts refer to.

    :param names: of fields, in the newer names.
    :param expanded: of expansions, likewise.
    """
    if dialect == "tweet":
        fields = [_OLD_FIELDS.get(name, name) for name in names]
        expansions = [_old_expansion(name) for name in expanded]
    else:
        asked = list(names)
        fields = [name for name in asked if name not in (*SENT_WITH_EXPANSIONS, SENT_WITHOUT_ASKING)]
        expansions = [*expanded, *(name for name in asked if name in SENT_WITH_EXPANSIONS)]
    return {f"{dialect}.fields": ",".join(dict.fromkeys(fields)), "expansions": ",".join(dict.fromkeys(expansions))}


def newer_name(name: str) -> str | None:
    """Return the newer name of a field or an expansion; None if it is not an older name."""
    head, _, rest = name.partition("referenced_tweets.id")
    if not head and name.startswith("referenced_tweets.id"):
        return f"referenced_posts{rest}"
    return {old: new for new, old in _OLD_FIELDS.items()}.get(name)


def field(document: Mapping[str, Any], name: str) -> Any:
    """Return a field by its newer name, whichever the answer uses; None if it has none."""
    found = document.get(name)
    return document.get(_OLD_FIELDS[name]) if found is None and name in _OLD_FIELDS else found


def _old_expansion(name: str) -> str:
    head, dot, rest = name.partition(".")
    if head == "referenced_posts":
        return _OLD_EXPANSIONS[head] + dot + rest
    return _OLD_EXPANSIONS.get(name, name)
