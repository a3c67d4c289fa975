"""Converts rows for BigQuery column by column, and examines single rows only where something is wrong.

A single bad row would make BigQuery refuse a request or a whole publish, so bad rows are found here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from airflow_provider_connect.sinks._bigquery.columns.arrays import Fault, convert_array
from airflow_provider_connect.sinks._bigquery.columns.json import repaired, unparsable
from airflow_provider_connect.sinks._bigquery.columns.types import Column
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.stage.rows import as_json
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


def staging_schema(columns: Sequence[Column], position_column: str | None = None) -> pa.Schema:
    """Return the Arrow schema of batches from :func:`convert`."""
    import pyarrow as pa

    fields = [pa.field(column.staging["name"], column.arrow) for column in columns]
    return pa.schema(fields + ([pa.field(position_column, pa.int64())] if position_column else []))


def convert(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    start: int,
    *,
    position_column: str | None = None,
    refused: Mapping[int, tuple[str, str]] = MappingProxyType({}),
    max_row_bytes: int = MAX_ROW_BYTES,
) -> Converted:
    """Convert a batch of a staged file to the staging table's types; a column of the right type is not copied.

    :param start: position of the batch's first row.
    :param position_column: name of an INT64 column to add that holds each row's position.
    :param refused: rows known to be bad, by position, with column and reason.
    """
    import pyarrow as pa

    arrays: list[pa.Array] = []
    faults: list[tuple[str, Fault]] = []
    for column in columns:
        array, found = _column(column, batch.column(column.source))
        arrays.append(array)
        faults += [(column.source, fault) for fault in found]
    if position_column:
        arrays.append(pa.array(range(start, start + batch.num_rows), pa.int64()))
    converted = pa.RecordBatch.from_arrays(arrays, schema=staging_schema(columns, position_column))
    faults += [
        (_largest(converted.slice(row, 1), columns), Fault([row], f"a row of more than {max_row_bytes} bytes"))
        for row in _too_large(converted, 0, converted.num_rows, max_row_bytes)
    ]
    here = {row - start: why for row, why in refused.items() if start <= row < start + batch.num_rows}
    faults += [(column, Fault([row], reason)) for row, (column, reason) in here.items()]
    return _without_faults(batch, converted, faults, start) if faults else Converted(converted, [])


def summary(bad: Sequence[Reject]) -> str:
    """Return which columns make how many rows bad and why, without their values."""
    counts = Counter((row.column, row.reason) for row in bad)
    return "; ".join(f"column {column!r}: {count} rows with {reason}" for (column, reason), count in counts.items())


def _column(column: Column, source: pa.Array) -> tuple[pa.Array, list[Fault]]:
    array, faults = convert_array(source, column.arrow)
    if column.target["mode"] == "REQUIRED" and source.null_count:
        faults.append(Fault(true_rows(source.is_null()), "NULL, though the source's schema says that there is none"))
    if column.json:
        array = repaired(_without(array, faults))
    if column.json and column.json != "checked" and (rows := unparsable(array)):
        faults.append(Fault(rows, "a text that is no JSON"))
    return array, faults


def _without(array: pa.Array, faults: Sequence[Fault]) -> pa.Array:
    """Return the array with NULL in every row with a fault: invalid UTF-8 cannot be read as text."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not faults:
        return array
    bad = np.zeros(len(array), dtype=bool)
    for fault in faults:
        bad[np.asarray(fault.rows, dtype=np.int64)] = True
    return pc.if_else(pa.array(bad), pa.scalar(None, array.type), array)


def _without_faults(
    batch: pa.RecordBatch, converted: pa.RecordBatch, faults: list[tuple[str, Fault]], start: int
) -> Converted:
    import numpy as np
    import pyarrow as pa

    first: dict[int, tuple[str, str]] = {}
    for column, fault in faults:
        for row in fault.rows:
            first.setdefault(int(row), (column, fault.reason))
    good = np.ones(batch.num_rows, dtype=bool)
    good[list(first)] = False
    bad = [cut(start + row, reason, as_json(batch, row), column) for row, (column, reason) in sorted(first.items())]
    return Converted(converted.filter(pa.array(good)), bad)


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
