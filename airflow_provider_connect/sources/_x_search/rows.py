"""Turns hits into rows: one for each post, with what belongs to it, and the queries that have found it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._x_search.columns import schema
from airflow_provider_connect.sources._x_search.dialect import field
from airflow_provider_connect.sources._x_search.page import Text
from airflow_provider_connect.sources._x_search.searching import Hit, as_json, ids_in

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 1000
_COUNTS = ("repost_count", "reply_count", "like_count", "quote_count", "bookmark_count", "impression_count")
_Row = dict[str, Any]


def batches(results: Sequence[Iterator[Hit]], queries: Sequence[str], tally: Tally) -> Iterator[pa.RecordBatch]:
    """Yield the rows of several queries' results.

    All results come newest first, so they are merged by id as they come: hits of one post meet, and memory holds a page
    of each query. A post that comes again out of order is dropped, too, and counted.

    :param queries: their texts, in the order of ``results``.
    """
    merged = heapq.merge(*results, key=lambda hit: -hit.number)
    with KeySet() as keys:
        posts = (list(hits) for _, hits in groupby(merged, key=lambda hit: hit.number))
        while some := list(islice(posts, _ROWS_AT_ONCE)):
            tally.counts["duplicates"] += sum(len(hits) - 1 for hits in some)
            batch = _batch([_row(hits, queries) for hits in some], keys, tally)
            if batch.num_rows:
                yield batch


def _batch(rows: list[_Row], keys: KeySet, tally: Tally) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa
    from xxhash import xxh3_128_digest

    made = b"".join(xxh3_128_digest(row["id"].encode()) for row in rows)
    halves = np.frombuffer(made, dtype=">u8").astype(np.uint64).reshape(-1, 2)
    new = keys.add(np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1]))
    again = len(rows) - int(new.sum())
    if again:
        tally.counts["duplicates"] += again
        tally.counts["out_of_order"] += again
    for number, row in enumerate(rows):
        row["record_key"] = made[16 * number : 16 * number + 16].hex()
    kept = [row for row, is_new in zip(rows, new.tolist(), strict=True) if is_new]
    if kept:
        times = [row["created_at"] for row in kept]
        tally.widen_span(min(times), max(times))
    return pa.RecordBatch.from_pylist(kept, schema=schema())


def _row(hits: list[Hit], queries: Sequence[str]) -> _Row:
    hit = hits[0]
    post, includes = hit.post.value, hit.page.includes
    author = includes.get("users", {}).get(_text(post.get("author_id")) or "")
    metrics = _object(post.get("public_metrics"))
    note = _object(field(post, "note_post")).get("text")
    attachments = _object(post.get("attachments"))
    place = includes.get("places", {}).get(_text(_object(post.get("geo")).get("place_id")) or "")
    return {
        "id": post["id"],
        "created_at": hit.created_at,
        "text": _text(note) or _text(post.get("text")),
        "lang": _text(post.get("lang")),
        "author_id": _text(post.get("author_id")),
        "author_username": _text(author.value.get("username")) if author else None,
        "author_name": _text(author.value.get("name")) if author else None,
        "conversation_id": _text(post.get("conversation_id")),
        "in_reply_to_user_id": _text(post.get("in_reply_to_user_id")),
        "possibly_sensitive": post["possibly_sensitive"] if isinstance(post.get("possibly_sensitive"), bool) else None,
        "edit_history": _strings(field(post, "edit_history_post_ids")),
        **{name: _whole(field(metrics, name)) for name in _COUNTS},
        "author": author.text if author else None,
        "referenced": _referenced(hit),
        "users": _users(hit),
        "media": _along(hit, "media", attachments.get("media_keys")),
        "polls": _along(hit, "polls", attachments.get("poll_ids")),
        "place": place.text if place else None,
        "errors": _errors(hit),
        "post": hit.post.text,
        "queries": [queries[number] for number in sorted({each.query for each in hits})],
    }


def _referenced(hit: Hit) -> str | None:
    references = field(hit.post.value, "referenced_posts")
    if not isinstance(references, list) or not references:
        return None
    parts = []
    for each in references:
        reference = _object(each)
        found = hit.page.includes.get("posts", {}).get(str(reference.get("id")))
        own = as_json(reference)
        parts.append(own if found is None else f'{own[:-1]},"post":{found.text}}}')
    return f"[{','.join(parts)}]"


def _users(hit: Hit) -> str | None:
    """Return the users, beside the author, whom the post or a post that it refers to names."""
    post, users = hit.post.value, hit.page.includes.get("users", {})
    entities = _object(post.get("entities"))
    mentions = entities.get("mentions")
    wanted: list[Any] = [post.get("in_reply_to_user_id")]
    wanted += [_object(each).get("id") for each in (mentions if isinstance(mentions, list) else [])]
    references = field(post, "referenced_posts")
    for each in references if isinstance(references, list) else []:
        found = hit.page.includes.get("posts", {}).get(str(_object(each).get("id")))
        wanted.append(found.value.get("author_id") if found else None)
    named = dict.fromkeys(str(each) for each in wanted if each and each != post.get("author_id"))
    return _array([users[each] for each in named if each in users])


def _along(hit: Hit, kind: str, keys: Any) -> str | None:
    found = hit.page.includes.get(kind, {})
    return _array([found[key] for key in _strings(keys) or [] if key in found])


def _errors(hit: Hit) -> str | None:
    by_id = hit.page.errors_by_id
    if not by_id:
        return None
    numbers = {number for each in ids_in(hit.post.value) & by_id.keys() for number in by_id[each]}
    return _array([hit.page.errors[number] for number in sorted(numbers)])


def _array(parts: list[Text]) -> str | None:
    return f"[{','.join(part.text for part in parts)}]" if parts else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _strings(value: Any) -> list[str] | None:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None
