"""Converts rows for BigQuery column by column, and examines single rows only where something is wrong.

A single bad row would make BigQuery refuse a request or a whole publish, so bad rows are found here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sinks._bigquery.columns.arrays import convert_array
from airflow_provider_connect.sinks._bigquery.columns.json import repaired, unparsable
from airflow_provider_connect.sinks._bigquery.columns.types import Column
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.stage.rows import as_json
from airflow_provider_connect.values.arrays import Refused
from airflow_provider_connect.values.arrow import true_rows

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROW_BYTES = 8_000_000
"""Below the 10 MB of one AppendRows request (https://cloud.google.com/bigquery/quotas#write-api-limits, 2026-11)."""
MAX_RECORD_BYTES = 1_000_000
"""The most that is kept of a bad row: the rejects table has BigQuery's limits too."""


@dataclass(frozen=True)
class Converted:
    """A batch for the staging table, and the rows that were left out."""

    batch: pa.RecordBatch
    bad: list[Reject]


def staging_schema(
    columns: Sequence[Column], position_column: str | None = None, table_column: str | None = None
) -> pa.Schema:
    """Return the Arrow schema of batches from :func:`convert`."""
    import pyarrow as pa

    fields = [pa.field(column.staging["name"], column.arrow) for column in columns]
    if position_column:
        fields.append(pa.field(position_column, pa.int64()))
    if table_column:
        fields.append(pa.field(table_column, pa.string()))
    return pa.schema(fields)


def convert(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    start: int,
    *,
    position_column: str | None = None,
    table: tuple[str, str] | None = None,
    refused: Mapping[int, tuple[str, str]] = MappingProxyType({}),
    max_row_bytes: int = MAX_ROW_BYTES,
) -> Converted:
    """Convert a batch of a staged file to the staging table's types; a column of the right type is not copied.

    :param start: position of the batch's first row.
    :param position_column: name of an INT64 column to add that holds each row's position.
    :param table: name and value of a STRING column to add.
    :param refused: rows known to be bad, by position, with column and reason.
    """
    import pyarrow as pa

    found = Refused()
    arrays = [_column(column, batch.column(column.source), found) for column in columns]
    if position_column:
        arrays.append(pa.array(range(start, start + batch.num_rows), pa.int64()))
    if table:
        arrays.append(pa.repeat(pa.scalar(table[1]), batch.num_rows))
    schema = staging_schema(columns, position_column, table[0] if table else None)
    converted = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for row in _too_large(converted, 0, converted.num_rows, max_row_bytes):
        largest = _largest(converted.slice(row, 1), columns)
        found.rows.setdefault(row, (largest, f"a row of more than {max_row_bytes} bytes"))
    for position, why in refused.items():
        if start <= position < start + batch.num_rows:
            found.rows.setdefault(position - start, why)
    if not found.rows:
        return Converted(converted, [])
    bad = [cut(start + row, why, as_json(batch, row), column) for row, (column, why) in sorted(found.rows.items())]
    return Converted(converted.filter(pa.array(~_mask(found, batch.num_rows))), bad)


def summary(bad: Sequence[Reject]) -> str:
    """Return which columns make how many rows bad and why, without their values."""
    counts = Counter((row.column, row.reason) for row in bad)
    return "; ".join(f"column {column!r}: {count} rows with {reason}" for (column, reason), count in counts.items())


def _column(column: Column, source: pa.Array, found: Refused) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    refuse = found.in_column(column.source)
    array = convert_array(source, column.arrow, refuse)
    if column.target["mode"] == "REQUIRED" and source.null_count:
        refuse(true_rows(source.is_null()), "NULL, though the source's schema says that there is none")
    if column.json:
        if found.rows:  # invalid UTF-8 cannot be read as text
            array = pc.if_else(pa.array(_mask(found, len(array))), pa.scalar(None, array.type), array)
        array = repaired(array)
        if column.json != "checked":
            for row in unparsable(array):
                found.rows.setdefault(row, (column.source, "a text that is no JSON"))
    return array


def _mask(found: Refused, rows: int) -> Any:
    import numpy as np

    mask = np.zeros(rows, bool)
    mask[list(found.rows)] = True
    return mask


def cut(position: int, reason: str, record: bytes, column: str = "") -> Reject:
    """Return a bad row, cut to what a table of rejects can hold."""
    if len(record) > MAX_RECORD_BYTES:
        reason = f"{reason}; only the first {MAX_RECORD_BYTES} bytes of its record are kept"
        record = record[:MAX_RECORD_BYTES].decode("utf-8", "ignore").encode()
    return Reject(position, reason, record, column)


def _too_large(batch: pa.RecordBatch, start: int, end: int, max_bytes: int) -> list[int]:
    """Return the rows larger than ``max_bytes``, found by halving: cheap for a batch of small rows."""
    if start >= end or batch.slice(start, end - start).nbytes <= max_bytes:
        return []
    if end - start == 1:
        return [start]
    middle = (start + end) // 2
    return _too_large(batch, start, middle, max_bytes) + _too_large(batch, middle, end, max_bytes)


def _largest(row: pa.RecordBatch, columns: Sequence[Column]) -> str:
    return max(zip(columns, row.columns, strict=False), key=lambda pair: pair[1].nbytes)[0].source
