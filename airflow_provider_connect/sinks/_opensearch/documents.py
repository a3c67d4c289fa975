"""Staged rows as the lines of bulk requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.stage.rows import read_batches

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ID_BYTES = 512
"""https://docs.opensearch.org/latest/api-reference/document-apis/index-document/ (2026-11)."""
_BATCH_BYTES = 4 << 20


class Document(NamedTuple):
    """One row of a bulk request.

    :param position: in the day, for messages.
    :param lines: action and source, each with its line end.
    """

    position: int
    lines: bytes


def read_documents(stage: str, path: str, id_columns: Sequence[str]) -> Iterator[list[Document]]:
    """Yield a staged file's rows in lists of a few megabytes.

    :raises DataError: a value has no JSON form, or an id is NULL.
    """
    from airflow_provider_connect.values.json.text import JsonConverter  # noqa: PLC0415  # heavy

    for first, batch in read_batches(stage, path, _BATCH_BYTES):
        encoded = JsonConverter(batch.schema, None, "").encode(batch, None)
        for row, (column, reason) in encoded.refused.items():
            raise DataError(f"{path}: row {first + row}, column {column!r} cannot be written as JSON: {reason}")
        sources = cast("list[bytes]", encoded.values)  # only a refused row has none
        actions = _actions(batch, first, id_columns, path)
        yield [
            Document(first + row, b"%s\n%s\n" % (action, source))
            for row, (action, source) in enumerate(zip(actions, sources, strict=True))
        ]


def _actions(batch: pa.RecordBatch, first: int, id_columns: Sequence[str], path: str) -> list[bytes]:
    if not id_columns:
        return [b'{"index":{"_id":"%d"}}' % (first + row) for row in range(batch.num_rows)]
    ids = document_ids(batch, id_columns, f"{path}: row ", first)
    # Of rows with one id the later one stays, in whichever order the requests arrive.
    form = b'{"index":{"_id":%s,"version":%d,"version_type":"external_gte"}}'
    return [form % (json.dumps(name).encode(), first + row) for row, name in enumerate(ids)]


def document_ids(batch: pa.RecordBatch, id_columns: Sequence[str], subject: str, first: int = 0) -> list[str]:
    """Return each row's _id: one column's text, or the JSON list of several, hashed if it is too long.

    :raises DataError: an id is NULL.
    """
    columns = [_texts(batch, name) for name in id_columns]
    for name, texts in zip(id_columns, columns, strict=True):
        if None in texts:
            raise DataError(f"{subject}{first + texts.index(None)}, column {name!r} is NULL, and part of the _id")
    if len(columns) == 1:
        return [short_id(str(text)) for text in columns[0]]
    return [short_id(json.dumps(values, ensure_ascii=False)) for values in zip(*columns, strict=True)]


def _texts(batch: pa.RecordBatch, name: str) -> list[str | None]:
    import pyarrow as pa  # heavy

    texts: list[str | None] = batch.column(batch.schema.get_field_index(name)).cast(pa.string()).to_pylist()
    return texts


def short_id(text: str) -> str:
    """Return an _id of 1 to 512 bytes: the text, or its hash."""
    encoded = text.encode("utf-8", "surrogatepass")
    if 0 < len(encoded) <= MAX_ID_BYTES:
        return text
    return f"blake2b-{hashlib.blake2b(encoded, digest_size=32).hexdigest()}"


def requests_of(documents: Sequence[Document], most_bytes: int, most: int) -> Iterator[list[Document]]:
    """Split documents into requests, bounded by bytes and by number. A larger document goes alone."""
    request: list[Document] = []
    size = 0
    for document in documents:
        if request and (size + len(document.lines) > most_bytes or len(request) >= most):
            yield request
            request, size = [], 0
        request.append(document)
        size += len(document.lines)
    if request:
        yield request
