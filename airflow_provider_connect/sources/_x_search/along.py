"""Makes rows of what posts refer to: users, media and other posts, each once a day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING

from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._x_search.columns import schema
from airflow_provider_connect.sources._x_search.dialect import field
from airflow_provider_connect.sources._x_search.options import StreamName
from airflow_provider_connect.sources._x_search.page import Page, Text
from airflow_provider_connect.sources._x_search.rows import Row, as_object, post_row, text, unique, whole
from airflow_provider_connect.sources._x_search.searching import Hit, ids_in, instant

if TYPE_CHECKING:
    import pyarrow as pa

_USER_COUNTS = ("followers_count", "following_count", "post_count", "listed_count")


def along(results: Sequence[Iterator[Hit]], stream: StreamName, tally: Tally) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream other than that of posts.

    X sends a user once a page, however many posts of it refer to them, so pages are read one after the other. Of what
    comes on several pages the first is kept.

    :param results: of each query.
    """
    import pyarrow as pa

    with KeySet() as keys:
        for _, of_page in groupby(chain.from_iterable(results), key=lambda hit: id(hit.page)):
            rows = _rows(list(of_page), stream)
            tally.rows += len(rows)
            kept = unique(rows, stream, keys) if rows else []
            tally.counts["duplicates"] += len(rows) - len(kept)
            if kept:
                yield pa.RecordBatch.from_pylist(kept, schema=schema(stream))


def _rows(hits: list[Hit], stream: StreamName) -> list[Row]:
    """Return what posts of one page refer to; a page may have posts of other days, whose authors are no rows."""
    page = hits[0].page
    referenced = _referenced(hits, page)
    if stream == "referenced":
        return [post_row(each, page) for each in referenced]
    named = {name for post in chain((hit.post for hit in hits), referenced) for name in ids_in(post.value)}
    if stream == "media":
        return [_medium(key, each) for key, each in page.includes.get("media", {}).items() if key in named]
    users = page.includes.get("users", {})
    return [_user(key, each) for key, each in users.items() if key in named or each.value.get("username") in named]


def _referenced(hits: Iterable[Hit], page: Page) -> list[Text]:
    """Return the posts that X has sent along, without those that only a post of them refers to."""
    posts = page.includes.get("posts", {})
    names: dict[str, None] = {}
    for hit in hits:
        references = field(hit.post.value, "referenced_posts")
        for each in references if isinstance(references, list) else []:
            names[str(as_object(each).get("id"))] = None
    return [posts[name] for name in names if name in posts]


def _user(key: str, sent: Text) -> Row:
    user = sent.value
    metrics = as_object(user.get("public_metrics"))
    return {
        "id": key,
        "username": text(user.get("username")),
        "name": text(user.get("name")),
        "created_at": instant(user.get("created_at")),
        "description": text(user.get("description")),
        "location": text(user.get("location")),
        "verified": _flag(user.get("verified")),
        "protected": _flag(user.get("protected")),
        **{name: whole(field(metrics, name)) for name in _USER_COUNTS},
        "user": sent.text,
    }


def _medium(key: str, sent: Text) -> Row:
    medium = sent.value
    return {
        "media_key": key,
        **{name: text(medium.get(name)) for name in ("type", "url", "preview_image_url", "alt_text")},
        **{name: whole(medium.get(name)) for name in ("width", "height", "duration_ms")},
        "media": sent.text,
    }


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
