"""Deterministic posts: the data of the stand-in, and the expected results for tests.

A :class:`Timeline` is pure: the posts of a day follow from its fields and the date. It shares no code with the
connector that reads it, so that one mistake cannot hide in both.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.standins.x.query import matches

_EPOCH_MS = 1_288_834_974_657  # from which X counts its ids' milliseconds
_USERS = 25
_WORDS = ("coffee", "tea", "rain", "train", "music", "python", "garden", "news")
_LANGS = ("en", "en", "en", "de", "ja")
_PLACE = {"id": "df51dec6f4ee2b2c", "full_name": "Hamburg, Germany", "place_type": "city"}
_EDIT = dt.timedelta(minutes=12)


@dataclass(frozen=True)
class Post:
    """One stored post.

    :param document: with the names of the newest specification.
    :param is_deleted: counts include it, searches do not.
    """

    id: str
    created_at: dt.datetime
    document: dict[str, Any]
    is_deleted: bool = False


@dataclass(frozen=True)
class Timeline:
    """All posts.

    :param posts_per_day: posts that a search finds.
    :param deleted_per_day: deleted or withheld posts, which only the counts include.
    :param edited_per_day: number of a day's posts with a new id and a later time.
    :param gone_references_per_day: number of posts that quote a missing post, which the answer lists in ``errors``.
    :param deleted_ids: ids of further deleted posts.
    """

    seed: int = 0
    posts_per_day: int = 200
    deleted_per_day: int = 0
    edited_per_day: int = 0
    gone_references_per_day: int = 0
    deleted_ids: frozenset[str] = frozenset()

    def posts_of_day(self, date: dt.date) -> tuple[Post, ...]:
        """Return the posts of a UTC day, newest first, deleted ones included."""
        return _day(self, date)

    def between(self, start: dt.datetime, end: dt.datetime) -> Iterator[Post]:
        """Yield the posts from ``start`` up to before ``end``, newest first, deleted ones included."""
        date = (end - dt.timedelta(microseconds=1)).astimezone(dt.UTC).date()
        while date >= start.astimezone(dt.UTC).date():
            yield from (post for post in self.posts_of_day(date) if start <= post.created_at < end)
            date -= dt.timedelta(days=1)

    def search(self, query: str, start: dt.datetime, end: dt.datetime) -> list[Post]:
        """Return the posts that a search finds, newest first."""
        return [post for post in self.matching_posts(query, start, end) if not post.is_deleted]

    def matching_posts(self, query: str, start: dt.datetime, end: dt.datetime) -> list[Post]:
        """Return the counted posts, newest first."""
        return [post for post in self.between(start, end) if matches(query, post.document)]

    def truth(self, date: dt.date, *queries: str) -> dict[str, list[str]]:
        """Return the queries that find each post of a UTC day, by id."""
        start = dt.datetime.combine(date, dt.time(), dt.UTC)
        truth: dict[str, list[str]] = {}
        for query in queries:
            for post in self.search(query, start, start + dt.timedelta(days=1)):
                truth.setdefault(post.id, []).append(query)
        return truth

    def user(self, user_id: str) -> dict[str, Any]:
        """Return a user."""
        number = int(user_id) - 1000
        return {
            "id": user_id,
            "username": f"user_{number}",
            "name": f"Jörg {number} ☕" if number % 7 == 0 else f"User {number}",
            "verified": number % 5 == 0,
            "public_metrics": {"followers_count": 10 * number, "following_count": 7, "post_count": 99},
        }


def the_place() -> dict[str, Any]:
    """Return the only place."""
    return dict(_PLACE)


def media(key: str) -> dict[str, Any]:
    """Return a picture."""
    return {"media_key": key, "type": "photo", "url": f"https://pbs.twimg.example/{key}.jpg", "width": 640}


@lru_cache(maxsize=64)
def _day(timeline: Timeline, date: dt.date) -> tuple[Post, ...]:
    source = random.Random(f"{timeline.seed}/{date}")
    total = timeline.posts_per_day + timeline.deleted_per_day
    start = dt.datetime.combine(date, dt.time(), dt.UTC)
    seconds = sorted(source.sample(range(86_400), total))
    edited = set(source.sample(range(timeline.posts_per_day), timeline.edited_per_day))
    numbers_with_gone_reference = set(source.sample(range(timeline.posts_per_day), timeline.gone_references_per_day))
    deleted = set(source.sample(range(total), timeline.deleted_per_day))
    posts = []
    earlier = [_id(start - dt.timedelta(days=1), number) for number in range(50)]
    for number, second in enumerate(seconds):
        at = start + dt.timedelta(seconds=second)
        post_id = _id(at, number)
        document = _document(source, post_id, at, earlier)
        if number in edited:
            document["edit_history_post_ids"] = [_id(at - _EDIT, number), post_id]
        if number in numbers_with_gone_reference:
            document["referenced_posts"] = [{"type": "quoted", "id": f"9{number:05d}"}]
        is_deleted = number in deleted or post_id in timeline.deleted_ids
        posts.append(Post(post_id, at, document, is_deleted))
    return tuple(reversed(posts))


def _document(source: random.Random, post_id: str, at: dt.datetime, earlier: list[str]) -> dict[str, Any]:
    words = source.sample(_WORDS, 3)
    document: dict[str, Any] = {
        "id": post_id,
        "text": f'{" ".join(words)} & "more" ☕ https://t.co/{post_id[-6:]}',
        "edit_history_post_ids": [post_id],
        "created_at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "author_id": str(1000 + source.randrange(_USERS)),
        "conversation_id": post_id,
        "lang": source.choice(_LANGS),
        "possibly_sensitive": source.random() < 0.02,
        "public_metrics": {
            "repost_count": source.randrange(9),
            "reply_count": source.randrange(9),
            "like_count": source.randrange(99),
            "quote_count": source.randrange(4),
            "bookmark_count": 0,
            "impression_count": source.randrange(5000),
        },
    }
    if source.random() < 0.2:
        document["attachments"] = {"media_keys": [f"3_{post_id}", f"3_{int(post_id) + 1}"]}
    if source.random() < 0.2:
        kind = source.choice(("quoted", "replied_to", "reposted"))
        document["referenced_posts"] = [{"type": kind, "id": source.choice(earlier)}]
        if kind == "replied_to":
            document["in_reply_to_user_id"] = "1003"
    if source.random() < 0.05:
        document["geo"] = {"place_id": _PLACE["id"]}
    return document


def _id(at: dt.datetime, number: int) -> str:
    """Return an id as X makes them: the time in milliseconds, and a number."""
    return str((int(at.timestamp() * 1000) - _EPOCH_MS) << 22 | number & 0xFFF)
