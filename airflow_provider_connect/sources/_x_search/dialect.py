"""The two dialects of X's field names: how requests are written, and how answers are read. DAG files import this.

X's specification (2.167, 2026-08) says ``post.fields``, its guides of the same days ``tweet.fields``, and servers have
been seen to answer in the older names. So a request is written in one dialect, and an answer is read in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Dialect = Literal["post", "tweet"]

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


def fields(dialect: Dialect, names: Iterable[str]) -> tuple[str, str]:
    """Return the parameter that asks for fields of posts: its name and its value."""
    wanted = names if dialect == "post" else (_OLD_FIELDS.get(name, name) for name in names)
    return f"{dialect}.fields", ",".join(dict.fromkeys(wanted))


def expansions(dialect: Dialect, names: Iterable[str]) -> str:
    """Return the parameter ``expansions``."""
    wanted = names if dialect == "post" else (_expansion(name) for name in names)
    return ",".join(dict.fromkeys(wanted))


def field(document: Mapping[str, Any], name: str) -> Any:
    """Return a field by its newer name, whichever the answer uses; None if it has none."""
    found = document.get(name)
    return document.get(_OLD_FIELDS[name]) if found is None and name in _OLD_FIELDS else found


def _expansion(name: str) -> str:
    head, dot, rest = name.partition(".")
    if head == "referenced_posts":
        return _OLD_EXPANSIONS[head] + dot + rest
    return _OLD_EXPANSIONS.get(name, name)
