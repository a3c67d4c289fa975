"""The names of fields and expansions that X knows, by dialect.

They are those of its specification, https://api.x.com/2/openapi.json: 2.167 (2026-08) has ``post.fields``, 2.159
``tweet.fields``. The server takes both, and answers in the names of the request
(https://github.com/0xFlimbo/attention-index, docs/PROVIDERS.md, 2026-09). Like :mod:`.posts` this shares no code with
the connector that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Dialect = Literal["post", "tweet"]

_SHARED: dict[str, str] = {
    "user.fields": (
        "confirmed_email connection_status created_at description entities id is_identity_verified location "
        "name parody profile_banner_url profile_image_url protected public_metrics receives_your_dm "
        "subscription subscription_type url username verified verified_followers_count verified_type withheld"
    ),
    "media.fields": (
        "alt_text duration_ms height media_key non_public_metrics organic_metrics preview_image_url "
        "promoted_metrics public_metrics type url variants width"
    ),
    "poll.fields": "duration_minutes end_datetime id options voting_status",
    "place.fields": "contained_within country country_code full_name geo id name place_type",
}

_DIALECT: dict[Dialect, dict[str, str]] = {
    "post": {
        "post.fields": (
            "article article_title attachments card_uri community_id context_annotations conversation_id "
            "created_at display_text_range edit_controls entities geo id lang matched_media_notes "
            "media_metadata non_public_metrics note_post note_request_suggestions organic_metrics "
            "paid_partnership possibly_sensitive promoted_metrics public_metrics reply_settings scopes source "
            "suggested_source_links suggested_source_links_with_counts text withheld"
        ),
        "expansions": (
            "article.cover_media article.media_entities attachments.media_keys attachments.media_source_tweet "
            "attachments.poll_ids author_id edit_history_post_ids entities.mentions.username geo.place_id "
            "in_reply_to_user_id referenced_posts username"
        ),
        "user.fields": "subscribes_to_you",
    },
    "tweet": {
        "tweet.fields": (
            "article attachments author_id card_uri community_id context_annotations conversation_id created_at "
            "display_text_range edit_controls edit_history_tweet_ids entities geo id in_reply_to_user_id lang "
            "media_metadata non_public_metrics note_tweet organic_metrics possibly_sensitive promoted_metrics "
            "public_metrics referenced_tweets reply_settings scopes source suggested_source_links "
            "suggested_source_links_with_counts text withheld"
        ),
        "expansions": (
            "article.cover_media article.media_entities attachments.media_keys attachments.media_source_tweet "
            "attachments.poll_ids author_id edit_history_tweet_ids entities.mentions.username "
            "entities.note.mentions.username geo.place_id in_reply_to_user_id referenced_tweets.id "
            "referenced_tweets.id.attachments.media_keys referenced_tweets.id.author_id"
        ),
        "user.fields": "affiliation most_recent_tweet_id pinned_tweet_id",
    },
}


def _known_names(dialect: Dialect) -> dict[str, frozenset[str]]:
    names = {*_SHARED, *_DIALECT[dialect]}
    return {
        name: frozenset(_SHARED.get(name, "").split()) | frozenset(_DIALECT[dialect].get(name, "").split())
        for name in names
    }


KNOWN: Mapping[Dialect, Mapping[str, frozenset[str]]] = {"post": _known_names("post"), "tweet": _known_names("tweet")}
"""The values of each parameter, by dialect."""
