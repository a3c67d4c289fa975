"""Turns hits into rows: one for each post, with the queries that have found it, or for each that posts refer to."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, groupby, islice
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._x_search.columns import STREAMS, schema
from airflow_provider_connect.sources._x_search.dialect import get_field
from airflow_provider_connect.sources._x_search.options import StreamName
from airflow_provider_connect.sources._x_search.result_page import JsonPart, ResultPage
from airflow_provider_connect.sources._x_search.search import Hit, collect_ids, parse_instant, to_json
from airflow_provider_connect.values.json.typed import fits_bigint

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 1000
Row = dict[str, Any]


def post_batches(
    hits_by_query: Sequence[Iterator[Hit]], queries: Sequence[str], tally: Tally
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of several queries' results.

    All results come newest first, so they are merged by id as they come: hits of one post meet, and memory holds a page
    of each query. A post that comes again out of order is dropped, too, and counted.

    :param queries: their texts, in the order of ``results``.
    """
    merged = heapq.merge(*hits_by_query, key=lambda hit: -hit.post_number)
    with KeySet() as keys:
        posts = (list(hits) for _, hits in groupby(merged, key=lambda hit: hit.post_number))
        while some := list(islice(posts, _ROWS_AT_ONCE)):
            tally.counts["duplicates"] += sum(len(hits) - 1 for hits in some)
            batch = _batch([_row(hits, queries) for hits in some], keys, tally)
            if batch.num_rows:
                yield batch


def keyed_unique_rows(rows: list[Row], stream: StreamName, keys: KeySet) -> list[Row]:
    """Give each row its ``record_key``, and return those whose key has not come before."""
    from xxhash import xxh3_128_digest

    made = [xxh3_128_digest(row[STREAMS[stream].key].encode()) for row in rows]
    for row, key in zip(rows, made, strict=True):
        row["record_key"] = key.hex()
    return list(compress(rows, keys.add_keys(b"".join(made))))


def _batch(rows: list[Row], keys: KeySet, tally: Tally) -> pa.RecordBatch:
    import pyarrow as pa

    kept = keyed_unique_rows(rows, "posts", keys)
    if again := len(rows) - len(kept):
        tally.counts["duplicates"] += again
        tally.counts["out_of_order"] += again
    if kept:
        times = [row["created_at"] for row in kept]
        tally.widen_span(min(times), max(times))
    return pa.RecordBatch.from_pylist(kept, schema=schema())


def _row(hits: list[Hit], queries: Sequence[str]) -> Row:
    hit = hits[0]
    return post_row(hit.post, hit.page) | {
        "created_at": hit.created_at,
        "errors": _errors(hit),
        "queries": [queries[number] for number in sorted({each.query_index for each in hits})],
    }


def post_row(sent_post: JsonPart, page: ResultPage) -> Row:
    """Return the columns that any post has, with what the page has brought along with it."""
    post, includes = sent_post.value, page.includes
    author = includes.get("users", {}).get(text_or_none(post.get("author_id")) or "")
    note = object_or_empty(get_field(post, "note_post")).get("text")
    attachments = object_or_empty(post.get("attachments"))
    place = includes.get("places", {}).get(text_or_none(object_or_empty(post.get("geo")).get("place_id")) or "")
    return _named(post, "posts") | {
        "id": str(post["id"]),
        "text": text_or_none(note) or text_or_none(post.get("text")),
        "author_username": text_or_none(author.value.get("username")) if author else None,
        "author_name": text_or_none(author.value.get("name")) if author else None,
        "edit_history": _strings(get_field(post, "edit_history_post_ids")),
        "author": author.text if author else None,
        "referenced": _referenced(post, page),
        "users": _users(post, page),
        "media": _along(page, "media", attachments.get("media_keys")),
        "polls": _along(page, "polls", attachments.get("poll_ids")),
        "place": place.text if place else None,
        "post": sent_post.text,
    }


def _named(sent: Mapping[str, Any], stream: StreamName) -> Row:
    """Return the columns that are named like fields, or like public metrics, each as its type reads it."""
    fields = {**object_or_empty(sent.get("public_metrics")), **sent}
    columns = STREAMS[stream].columns.items()
    return {name: _READERS[column.kind](get_field(fields, name)) for name, column in columns if column.kind in _READERS}


def _referenced(post: Mapping[str, Any], page: ResultPage) -> str | None:
    parts = []
    for reference in _references(post):
        found = page.includes.get("posts", {}).get(str(reference.get("id")))
        own = to_json(reference)
        parts.append(own if found is None else f'{own[:-1]},"post":{found.text}}}')
    return f"[{','.join(parts)}]" if parts else None


def _references(post: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a post says of the posts that it quotes, replies to or reposts."""
    references = get_field(post, "referenced_posts")
    return [object_or_empty(each) for each in references] if isinstance(references, list) else []


def _users(post: Mapping[str, Any], page: ResultPage) -> str | None:
    """Return the users, beside the author, whom the post or a post that it refers to names."""
    users = page.includes.get("users", {})
    entities = object_or_empty(post.get("entities"))
    mentions = entities.get("mentions")
    wanted: list[Any] = [post.get("in_reply_to_user_id")]
    wanted += [object_or_empty(each).get("id") for each in (mentions if isinstance(mentions, list) else [])]
    for reference in _references(post):
        found = page.includes.get("posts", {}).get(str(reference.get("id")))
        wanted.append(found.value.get("author_id") if found else None)
    named = dict.fromkeys(str(each) for each in wanted if each and each != post.get("author_id"))
    return _array([users[each] for each in named if each in users])


def _along(page: ResultPage, kind: str, keys: Any) -> str | None:
    found = page.includes.get(kind, {})
    return _array([found[key] for key in _strings(keys) or [] if key in found])


def _errors(hit: Hit) -> str | None:
    by_id = hit.page.errors_by_id
    if not by_id:
        return None
    numbers = {number for each in collect_ids(hit.post.value) & by_id.keys() for number in by_id[each]}
    return _array([hit.page.errors[number] for number in sorted(numbers)])


def _array(parts: list[JsonPart]) -> str | None:
    return f"[{','.join(part.text for part in parts)}]" if parts else None


def object_or_empty(value: Any) -> dict[str, Any]:
    """Return a value that is an object; an empty one in place of any other."""
    return value if isinstance(value, dict) else {}


def _strings(value: Any) -> list[str] | None:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else None


def text_or_none(value: Any) -> str | None:
    """Return a value that is text; None in place of any other."""
    return value if isinstance(value, str) else None


def bigint_or_none(value: Any) -> int | None:
    """Return a value that is a whole number of 64 bits; None in place of any other."""
    return value if fits_bigint(value) else None


def bool_or_none(value: Any) -> bool | None:
    """Return a value that is true or false; None in place of any other."""
    return value if isinstance(value, bool) else None


_READERS: dict[str, Callable[[Any], Any]] = {
    "string": text_or_none,
    "bigint": bigint_or_none,
    "boolean": bool_or_none,
    "timestamp": parse_instant,
}


def related_batches(
    hits_by_query: Sequence[Iterator[Hit]], stream: StreamName, tally: Tally
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream other than that of posts.

    X sends a user once a page, however many posts of it refer to them, so pages are read one after the other. Of what
    comes on several pages the first is kept.

    :param results: of each query.
    """
    import pyarrow as pa

    with KeySet() as keys:
        for _, of_page in groupby(chain.from_iterable(hits_by_query), key=lambda hit: id(hit.page)):
            rows = _rows_along(list(of_page), stream)
            tally.rows += len(rows)
            kept = keyed_unique_rows(rows, stream, keys) if rows else []
            tally.counts["duplicates"] += len(rows) - len(kept)
            if kept:
                yield pa.RecordBatch.from_pylist(kept, schema=schema(stream))


def _rows_along(hits: list[Hit], stream: StreamName) -> list[Row]:
    """Return what posts of one page refer to; a page may have posts of other days, whose authors are no rows."""
    page = hits[0].page
    referenced = _posts_along(hits, page)
    if stream == "referenced":
        return [post_row(each, page) for each in referenced]
    named = {name for post in chain((hit.post for hit in hits), referenced) for name in collect_ids(post.value)}
    if stream == "media":
        return [
            _named(each.value, stream) | {"media_key": key, "media": each.text}
            for key, each in page.includes.get("media", {}).items()
            if key in named
        ]
    users = page.includes.get("users", {})
    return [
        _named(each.value, stream) | {"id": key, "user": each.text}
        for key, each in users.items()
        if key in named or each.value.get("username") in named
    ]


def _posts_along(hits: Iterable[Hit], page: ResultPage) -> list[JsonPart]:
    """Return the posts that X has sent along, without those that only a post of them refers to."""
    posts = page.includes.get("posts", {})
    names: dict[str, None] = {}
    for hit in hits:
        for reference in _references(hit.post.value):
            names[str(reference.get("id"))] = None
    return [posts[name] for name in names if name in posts]
