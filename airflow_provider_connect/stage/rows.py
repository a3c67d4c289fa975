"""Reads staged files in batches, as Arrow or as JSON documents."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.stage.manifest import DATA_FILE_PATTERN
from airflow_provider_connect.stage.storage import Folder, translate_errors

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_PAGE_BYTES = 64 * 1024
_MAX_BATCH_ROWS = 65_536
_CELL_BYTES = 8
"""The least memory of a value, also of NULL."""

POSITION_BITS = 40
"""Low bits of a row's position in its day: the row's number in its file."""


def read_batches(
    stage_root: str, path: str, batch_bytes: int, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield the batches of a staged file, each with its first row's position in the day.

    A read by whole row group would take 100 MB more.

    :param batch_bytes: approximate size of a batch.
    """
    start = first_position(path)
    with open_parquet(Folder(stage_root), path, _PAGE_BYTES) as file:
        for batch in iterate_batches(file, batch_bytes, columns):
            yield start, batch
            start += batch.num_rows


@contextmanager
def open_parquet(folder: Folder, path: str, buffer_bytes: int = 0) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for the block.

    :param buffer_bytes: of each read. 0 reads a row group's column in one request.
    """
    import pyarrow.parquet as pq  # too heavy for a DAG file

    # Files that Spark compacted may have times of 12 bytes, which nanoseconds can hold only up to the year 2262.
    options = {"buffer_size": buffer_bytes, "pre_buffer": False, "coerce_int96_timestamp_unit": "us"}
    with ExitStack() as stack:
        with translate_errors(f"{folder.url}/{path}"):
            source = stack.enter_context(folder.filesystem.open_input_file(folder.path_in_filesystem(path)))
            file = stack.enter_context(pq.ParquetFile(source, **options))
        yield file


def iterate_batches(
    file: pq.ParquetFile, batch_bytes: int, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an open file, each of about ``batch_bytes``."""
    names = None if columns is None else [*columns]
    yield from file.iter_batches(rows_per_batch(file.metadata, batch_bytes), groups, names, use_threads=False)


def rows_per_batch(metadata: Any, batch_bytes: int) -> int:
    """Return how many rows of a Parquet file take about ``batch_bytes`` of memory."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    stored_bytes = max((group.total_byte_size / group.num_rows for group in groups if group.num_rows), default=1.0)
    row_bytes = max(stored_bytes, _CELL_BYTES * metadata.num_columns, 1.0)
    return max(1, min(int(batch_bytes / row_bytes), _MAX_BATCH_ROWS))


def first_position(path: str) -> int:
    """Return the position in the day of a file's first row, or 0 for other files, such as rejects."""
    match = DATA_FILE_PATTERN.fullmatch(path)
    return int(match["part"]) << POSITION_BITS if match else 0


def partition_and_row(position: int) -> tuple[int, int]:
    """Split a row's position in its day into the partition and the row's number in its file."""
    return divmod(position, 1 << POSITION_BITS)


def row_as_json(batch: Any, row: int) -> bytes:
    """Return a row as JSON for a dead letter. Bytes are base64. Values that Python cannot hold are Arrow's text."""
    values = {name: _value(batch.column(index), row) for index, name in enumerate(batch.schema.names)}
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _value(array: Any, row: int) -> Any:
    try:
        return _plain(array[row].as_py())
    except (ValueError, OverflowError):
        return array.slice(row, 1).to_string()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


def json_column_problems(schema: pa.Schema) -> list[str]:
    """Return a problem with its remedy for each column without a JSON form."""
    from airflow_provider_connect.values.json.text import JsonConverter  # noqa: PLC0415  # a DAG file does without it

    return JsonConverter(schema, None, "").problems()


def read_json_documents(stage_root: str, path: str, batch_bytes: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield a staged file's rows as lists of JSON objects, each with the first row's position.

    :raises DataError: a value, such as NaN, has no JSON form.
    """
    from airflow_provider_connect.values.json.text import JsonConverter  # noqa: PLC0415  # a DAG file does without it

    for first, batch in read_batches(stage_root, path, batch_bytes):
        encoded = JsonConverter(batch.schema, None, "").encode(batch, None)
        for row, (column, reason) in encoded.refused.items():
            raise DataError(f"{path}: row {first + row}, column {column!r} cannot be written as JSON: {reason}")
        yield first, [value for value in encoded.values if value is not None]
