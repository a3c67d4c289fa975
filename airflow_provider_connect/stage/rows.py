"""Reads staged files batch by batch, for sinks that send rows themselves."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from airflow_provider_connect.stage.manifest import DATA_FILE
from airflow_provider_connect.stage.storage import Folder, named_errors

_MAX_BATCH_ROWS = 65_536
_CELL_BYTES = 8
"""What a value takes in memory at least, also where it is NULL and takes nothing in the file."""


POSITION_BITS = 40
"""Of a row's position in its day, those that count the rows of one file."""


def batches(stage: str, path: str, batch_bytes: int, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield the batches of a staged file, each with the position of its first row. Executor.

    Pages are read as they are needed: a whole row group at once would cost 100 MB more.

    :param batch_bytes: about how much a batch holds.
    :param start: position of the first row.
    """
    import pyarrow.parquet as pq  # a DAG file does without it

    folder = Folder(stage)
    with named_errors(f"{folder.url}/{path}"):
        source = folder.filesystem.open_input_file(folder.path(path))
    with source, pq.ParquetFile(source, buffer_size=64 * 1024, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=_batch_rows(file.metadata, batch_bytes), use_threads=False):
            yield start, batch
            start += batch.num_rows


def _batch_rows(metadata: Any, batch_bytes: int) -> int:
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    stored_bytes = max((group.total_byte_size / group.num_rows for group in groups if group.num_rows), default=1.0)
    row_bytes = max(stored_bytes, _CELL_BYTES * metadata.num_columns, 1.0)
    return max(1, min(int(batch_bytes / row_bytes), _MAX_BATCH_ROWS))


def first_position(path: str) -> int:
    """Return what a file's first row counts as among the rows of its day: files are ordered by their partition."""
    match = DATA_FILE.fullmatch(path)
    assert match is not None
    return int(match["part"]) << POSITION_BITS


def place_of(position: int) -> tuple[int, int]:
    """Return the partition and the row in its file that a position stands for."""
    return divmod(position, 1 << POSITION_BITS)


def as_json(batch: Any, row: int) -> bytes:
    """Return a row as JSON, for a dead letter: bytes in base64, what Python has no value for as Arrow prints it."""
    values = {name: _value(batch.column(index), row) for index, name in enumerate(batch.schema.names)}
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _value(array: Any, row: int) -> Any:
    """Return a value for JSON; what Python's types cannot hold, such as the year 10000, as Arrow prints it."""
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
