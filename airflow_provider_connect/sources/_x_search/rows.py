"""Converts hits to rows: posts, or the objects that they refer to."""

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
    """Yield the rows of ``posts``.

    Merges the hits of each query, newest first, by id. Memory holds one page of each query. Drops and counts a repeated
    post out of order.
    """
    merged = heapq.merge(*hits_by_query, key=lambda hit: -hit.post_number)
    with KeySet() as keys:
        posts = (list(hits) for _, hits in groupby(merged, key=lambda hit: hit.post_number))
        while hit_group := list(islice(posts, _ROWS_AT_ONCE)):
            tally.counts["duplicates"] += sum(len(hits) - 1 for hits in hit_group)
            batch = _batch([_row(hits, queries) for hits in hit_group], keys, tally)
            if batch.num_rows:
                yield batch


def keyed_unique_rows(rows: list[Row], stream: StreamName, keys: KeySet) -> list[Row]:
    """Set ``record_key`` in each row. Returns the rows with new keys."""
    from xxhash import xxh3_128_digest

    digests = [xxh3_128_digest(row[STREAMS[stream].key].encode()) for row in rows]
    for row, key in zip(rows, digests, strict=True):
        row["record_key"] = key.hex()
    return list(compress(rows, keys.add_keys(b"".join(digests))))


def _batch(rows: list[Row], keys: KeySet, tally: Tally) -> pa.RecordBatch:
    import pyarrow as pa

    new_rows = keyed_unique_rows(rows, "posts", keys)
    if duplicates := len(rows) - len(new_rows):
        tally.counts["duplicates"] += duplicates
        tally.counts["out_of_order"] += duplicates
    if new_rows:
        times = [row["created_at"] for row in new_rows]
        tally.widen_span(min(times), max(times))
    return pa.RecordBatch.from_pylist(new_rows, schema=schema())


def _row(hits: list[Hit], queries: Sequence[str]) -> Row:
    hit = hits[0]
    return post_row(hit.post, hit.page) | {
        "created_at": hit.created_at,
        "errors": _errors(hit),
        "queries": [queries[number] for number in sorted({query_hit.query_index for query_hit in hits})],
    }


def post_row(sent_post: JsonPart, page: ResultPage) -> Row:
    """Return a post's columns, with objects that its page includes."""
    post, includes = sent_post.value, page.includes
    author = includes.get("users", {}).get(text_or_none(post.get("author_id")) or "")
    note = object_or_empty(get_field(post, "note_post")).get("text")
    attachments = object_or_empty(post.get("attachments"))
    place_part = includes.get("places", {}).get(text_or_none(object_or_empty(post.get("geo")).get("place_id")) or "")
    return _same_named_columns(post, "posts") | {
        "id": str(post["id"]),
        "text": text_or_none(note) or text_or_none(post.get("text")),
        "author_username": text_or_none(author.value.get("username")) if author else None,
        "author_name": text_or_none(author.value.get("name")) if author else None,
        "edit_history": _strings(get_field(post, "edit_history_post_ids")),
        "author": author.text if author else None,
        "referenced": _referenced(post, page),
        "users": _users(post, page),
        "media": _included_objects(page, "media", attachments.get("media_keys")),
        "polls": _included_objects(page, "polls", attachments.get("poll_ids")),
        "place": place_part.text if place_part else None,
        "post": sent_post.text,
    }


def _same_named_columns(sent_object: Mapping[str, Any], stream: StreamName) -> Row:
    fields = {**object_or_empty(sent_object.get("public_metrics")), **sent_object}
    columns = STREAMS[stream].columns.items()
    return {name: _READERS[column.kind](get_field(fields, name)) for name, column in columns if column.kind in _READERS}


def _referenced(post: Mapping[str, Any], page: ResultPage) -> str | None:
    parts = []
    for reference in _references(post):
        part = page.includes.get("posts", {}).get(str(reference.get("id")))
        reference_json = to_json(reference)
        parts.append(reference_json if part is None else f'{reference_json[:-1]},"post":{part.text}}}')
    return f"[{','.join(parts)}]" if parts else None


def _references(post: Mapping[str, Any]) -> list[dict[str, Any]]:
    references = get_field(post, "referenced_posts")
    return [object_or_empty(reference) for reference in references] if isinstance(references, list) else []


def _users(post: Mapping[str, Any], page: ResultPage) -> str | None:
    users = page.includes.get("users", {})
    entities = object_or_empty(post.get("entities"))
    mentions = entities.get("mentions")
    user_ids: list[Any] = [post.get("in_reply_to_user_id")]
    user_ids += [object_or_empty(user_id).get("id") for user_id in (mentions if isinstance(mentions, list) else [])]
    for reference in _references(post):
        referenced_post = page.includes.get("posts", {}).get(str(reference.get("id")))
        user_ids.append(referenced_post.value.get("author_id") if referenced_post else None)
    named_ids = dict.fromkeys(str(user_id) for user_id in user_ids if user_id and user_id != post.get("author_id"))
    return _array([users[user_id] for user_id in named_ids if user_id in users])


def _included_objects(page: ResultPage, kind: str, keys: Any) -> str | None:
    objects = page.includes.get(kind, {})
    return _array([objects[key] for key in _strings(keys) or [] if key in objects])


def _errors(hit: Hit) -> str | None:
    by_id = hit.page.errors_by_id
    if not by_id:
        return None
    numbers = {number for named_id in collect_ids(hit.post.value) & by_id.keys() for number in by_id[named_id]}
    return _array([hit.page.errors[number] for number in sorted(numbers)])


def _array(parts: list[JsonPart]) -> str | None:
    return f"[{','.join(part.text for part in parts)}]" if parts else None


def object_or_empty(value: Any) -> dict[str, Any]:
    """Return an object, else {}."""
    return value if isinstance(value, dict) else {}


def _strings(value: Any) -> list[str] | None:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else None


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def bigint_or_none(value: Any) -> int | None:
    """Return a whole number of 64 bits, else None."""
    return value if fits_bigint(value) else None


def bool_or_none(value: Any) -> bool | None:
    """Return true or false, else None."""
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
    """Yield the rows of ``users``, ``media`` or ``referenced``, each object once."""
    import pyarrow as pa

    with KeySet() as keys:
        for _, page_hits in groupby(chain.from_iterable(hits_by_query), key=lambda hit: id(hit.page)):
            rows = _related_rows(list(page_hits), stream)
            tally.rows += len(rows)
            new_rows = keyed_unique_rows(rows, stream, keys) if rows else []
            tally.counts["duplicates"] += len(rows) - len(new_rows)
            if new_rows:
                yield pa.RecordBatch.from_pylist(new_rows, schema=schema(stream))


def _related_rows(hits: list[Hit], stream: StreamName) -> list[Row]:
    page = hits[0].page
    referenced = _referenced_posts(hits, page)
    if stream == "referenced":
        return [post_row(part, page) for part in referenced]
    named_ids = {name for post in chain((hit.post for hit in hits), referenced) for name in collect_ids(post.value)}
    if stream == "media":
        return [
            _same_named_columns(part.value, stream) | {"media_key": key, "media": part.text}
            for key, part in page.includes.get("media", {}).items()
            if key in named_ids
        ]
    users = page.includes.get("users", {})
    return [
        _same_named_columns(part.value, stream) | {"id": key, "user": part.text}
        for key, part in users.items()
        if key in named_ids or part.value.get("username") in named_ids
    ]


def _referenced_posts(hits: Iterable[Hit], page: ResultPage) -> list[JsonPart]:
    posts = page.includes.get("posts", {})
    names: dict[str, None] = {}
    for hit in hits:
        for reference in _references(hit.post.value):
            names[str(reference.get("id"))] = None
    return [posts[name] for name in names if name in posts]
