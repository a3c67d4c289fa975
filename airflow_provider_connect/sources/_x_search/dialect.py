"""Field names of X in its two dialects, ``post`` and ``tweet``.

X's specification has ``post.fields``, its guides ``tweet.fields``. The server accepts both, and answers with the names
of the request (https://github.com/0xFlimbo/attention-index, docs/PROVIDERS.md, 2026-09).

X answers a request for an unknown field with status 200 and bills posts that lack it (measured on 2026-09-21, same
repository, tests/api-field-validity.test.ts). Names: https://api.x.com/2/openapi.json, 2.167 (2026-08) for ``post``,
2.159 for ``tweet``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Dialect = Literal["post", "tweet"]

SENT_WITH_EXPANSIONS = ("author_id", "in_reply_to_user_id", "referenced_posts")
"""Names that are only expansions in ``post``, but also fields in ``tweet``."""

ALWAYS_SENT = "edit_history_post_ids"
"""Field of every post. It cannot be requested in ``post``."""

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


def request_parameters(dialect: Dialect, field_names: Iterable[str], expansion_names: Iterable[str]) -> dict[str, str]:
    """Return the request parameters for fields and expansions, named as in ``post``."""
    if dialect == "tweet":
        fields = [_OLD_FIELDS.get(name, name) for name in field_names]
        expansions = [_old_expansion(name) for name in expansion_names]
    else:
        names = list(field_names)
        fields = [name for name in names if name not in (*SENT_WITH_EXPANSIONS, ALWAYS_SENT)]
        expansions = [*expansion_names, *(name for name in names if name in SENT_WITH_EXPANSIONS)]
    return {f"{dialect}.fields": ",".join(dict.fromkeys(fields)), "expansions": ",".join(dict.fromkeys(expansions))}


def newer_name(name: str) -> str | None:
    """Convert a name of ``tweet`` to that of ``post``. None for any other name."""
    head, _, suffix = name.partition("referenced_tweets.id")
    if not head and name.startswith("referenced_tweets.id"):
        return f"referenced_posts{suffix}"
    return {old: new for new, old in _OLD_FIELDS.items()}.get(name)


def get_field(document: Mapping[str, Any], name: str) -> Any:
    """Return a field of an answer in either dialect, or None.

    :param name: as in ``post``.
    """
    value = document.get(name)
    return document.get(_OLD_FIELDS[name]) if value is None and name in _OLD_FIELDS else value


def _old_expansion(name: str) -> str:
    head, dot, suffix = name.partition(".")
    if head == "referenced_posts":
        return _OLD_EXPANSIONS[head] + dot + suffix
    return _OLD_EXPANSIONS.get(name, name)


_IN_BOTH: dict[str, str] = {
    "post_fields": (
        "article attachments card_uri community_id context_annotations conversation_id created_at "
        "display_text_range edit_controls entities geo id lang media_metadata non_public_metrics note_post "
        "organic_metrics possibly_sensitive promoted_metrics public_metrics reply_settings scopes source "
        "suggested_source_links suggested_source_links_with_counts text withheld"
    ),
    "expansions": (
        "article.cover_media article.media_entities attachments.media_keys attachments.media_source_tweet "
        "attachments.poll_ids author_id edit_history_post_ids entities.mentions.username geo.place_id "
        "in_reply_to_user_id referenced_posts"
    ),
    "user_fields": (
        "confirmed_email connection_status created_at description entities id is_identity_verified location "
        "name parody profile_banner_url profile_image_url protected public_metrics receives_your_dm "
        "subscription subscription_type url username verified verified_followers_count verified_type withheld"
    ),
    "media_fields": (
        "alt_text duration_ms height media_key non_public_metrics organic_metrics preview_image_url "
        "promoted_metrics public_metrics type url variants width"
    ),
    "poll_fields": "duration_minutes end_datetime id options voting_status",
    "place_fields": "contained_within country country_code full_name geo id name place_type",
}

_IN_ONE: dict[Dialect, dict[str, str]] = {
    "post": {
        "post_fields": "article_title matched_media_notes note_request_suggestions paid_partnership",
        "expansions": "username",
        "user_fields": "subscribes_to_you",
    },
    "tweet": {
        "post_fields": "author_id edit_history_post_ids in_reply_to_user_id referenced_posts",
        "expansions": (
            "entities.note.mentions.username referenced_posts.attachments.media_keys referenced_posts.author_id"
        ),
        "user_fields": "affiliation most_recent_tweet_id pinned_tweet_id",
    },
}

_SENT_UNLISTED: dict[Dialect, frozenset[str]] = {
    "post": frozenset({*SENT_WITH_EXPANSIONS, ALWAYS_SENT}),
    "tweet": frozenset(),
}


def _vocabulary(dialect: Dialect) -> Mapping[str, frozenset[str]]:
    names = {
        option: frozenset(both.split()) | frozenset(_IN_ONE[dialect].get(option, "").split())
        for option, both in _IN_BOTH.items()
    }
    return names | {"post_fields": names["post_fields"] | _SENT_UNLISTED[dialect]}


VOCABULARY: Mapping[Dialect, Mapping[str, frozenset[str]]] = {
    "post": _vocabulary("post"),
    "tweet": _vocabulary("tweet"),
}
"""Allowed names by dialect and option."""
