"""Converts staged rows to the staging table's types, and finds rows that BigQuery cannot hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sinks._bigquery.columns.json import find_unparsable, repair_surrogates
from airflow_provider_connect.sinks._bigquery.columns.types import TargetColumn, has_leaf_fields
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.stage.rows import row_as_json
from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import Refuse, RefusedRows, refuse_by_element, refuse_not_utf8
from airflow_provider_connect.values.arrow import is_list, lengths_and_elements, true_rows, type_group

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROW_BYTES = 8_000_000
"""Largest row, below the 10 MB of a request (https://cloud.google.com/bigquery/quotas#write-api-limits, 2026-11)."""
MAX_RECORD_BYTES = 1_000_000
"""Bytes kept of a rejected row's record."""
NULL_ELEMENT = "NULL inside a list, which BigQuery does not allow"


@dataclass(frozen=True)
class ConvertedBatch:
    """Batch for the staging table, with its bad rows as rejects."""

    batch: pa.RecordBatch
    rejects: list[Reject]


def staging_schema(
    columns: Sequence[TargetColumn], position_column: str | None = None, table_column: str | None = None
) -> pa.Schema:
    """Return the Arrow schema of batches from :func:`convert_batch`."""
    import pyarrow as pa

    fields = [pa.field(column.staging["name"], column.arrow) for column in columns]
    if position_column:
        fields.append(pa.field(position_column, pa.int64()))
    if table_column:
        fields.append(pa.field(table_column, pa.string()))
    return pa.schema(fields)


def convert_batch(
    batch: pa.RecordBatch,
    columns: Sequence[TargetColumn],
    start: int,
    *,
    position_column: str | None = None,
    table_value: tuple[str, str] | None = None,
    refused_rows: Mapping[int, tuple[str, str]] = MappingProxyType({}),
    max_row_bytes: int = MAX_ROW_BYTES,
) -> ConvertedBatch:
    """Convert a batch of a staged file to the staging table's types, bad rows to rejects.

    :param position_column: INT64 column to add, with each row's position.
    :param table_value: name and value of a STRING column to add.
    :param refused_rows: column and reason of known bad rows, by position.
    """
    import pyarrow as pa

    refused = RefusedRows()
    arrays = [_convert_column(column, batch.column(column.source), refused) for column in columns]
    if position_column:
        arrays.append(pa.array(range(start, start + batch.num_rows), pa.int64()))
    if table_value:
        arrays.append(pa.repeat(pa.scalar(table_value[1]), batch.num_rows))
    schema = staging_schema(columns, position_column, table_value[0] if table_value else None)
    converted = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for row in _find_large_rows(converted, 0, converted.num_rows, max_row_bytes):
        largest = _largest_column(converted.slice(row, 1), columns)
        refused.rows.setdefault(row, (largest, f"a row of more than {max_row_bytes} bytes"))
    for position, column_and_reason in refused_rows.items():
        if start <= position < start + batch.num_rows:
            refused.rows.setdefault(position - start, column_and_reason)
    if not refused.rows:
        return ConvertedBatch(converted, [])
    rejects = [
        truncated_reject(start + row, column_and_reason, row_as_json(batch, row), column)
        for row, (column, column_and_reason) in sorted(refused.rows.items())
    ]
    return ConvertedBatch(converted.filter(pa.array(~_refused_mask(refused, batch.num_rows))), rejects)


def summarize_rejects(rejects: Sequence[Reject]) -> str:
    """Describe how many rows are rejected, by column and reason, without values."""
    counts = Counter((row.column, row.reason) for row in rejects)
    return "; ".join(f"column {column!r}: {count} rows with {reason}" for (column, reason), count in counts.items())


def _convert_column(column: TargetColumn, source: pa.Array, refused: RefusedRows) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    refuse = refused.in_column(column.source)
    array = convert_array(source, column.arrow, refuse)
    if column.target["mode"] == "REQUIRED" and source.null_count:
        refuse(true_rows(source.is_null()), "NULL, although the source's schema allows none")
    if column.json:
        if refused.rows:  # invalid UTF-8 cannot be read as text
            array = pc.if_else(pa.array(_refused_mask(refused, len(array))), pa.scalar(None, array.type), array)
        array = repair_surrogates(array)
        if column.json != "checked":
            for row in find_unparsable(array):
                refused.rows.setdefault(row, (column.source, "a text that is not JSON"))
    return array


def _refused_mask(refused: RefusedRows, rows: int) -> Any:
    import numpy as np

    mask = np.zeros(rows, bool)
    mask[list(refused.rows)] = True
    return mask


def truncated_reject(position: int, reason: str, record: bytes, column: str = "") -> Reject:
    """Return a reject whose record is cut to :data:`MAX_RECORD_BYTES`, with a note in the reason."""
    if len(record) > MAX_RECORD_BYTES:
        reason = f"{reason} (only the first {MAX_RECORD_BYTES} bytes of its record are kept)"
        record = record[:MAX_RECORD_BYTES].decode("utf-8", "ignore").encode()
    return Reject(position, reason, record, column)


def _find_large_rows(batch: pa.RecordBatch, start: int, end: int, max_bytes: int) -> list[int]:
    if start >= end or batch.slice(start, end - start).nbytes <= max_bytes:
        return []
    if end - start == 1:
        return [start]
    middle = (start + end) // 2
    return _find_large_rows(batch, start, middle, max_bytes) + _find_large_rows(batch, middle, end, max_bytes)


def _largest_column(row: pa.RecordBatch, columns: Sequence[TargetColumn]) -> str:
    return max(zip(columns, row.columns, strict=False), key=lambda pair: pair[1].nbytes)[0].source


def convert_array(array: pa.Array, target: pa.DataType, refuse: Refuse) -> pa.Array:
    """Convert an array to type ``target``. Passes bad rows to ``refuse``."""
    from pyarrow import types

    kind = array.type
    if types.is_dictionary(kind):
        return convert_array(array.dictionary_decode(), target, refuse)
    if types.is_map(kind) or is_list(kind):
        return _convert_list(array, target, refuse)
    if types.is_struct(kind):
        return _convert_struct(array, target, refuse)
    if not kind.equals(target):
        array = _cast_array(array, target, refuse)
    if type_group(target) in times.TIME_GROUPS:
        times.whole_numbers(array, refuse)
    elif types.is_string(target):
        refuse_not_utf8(array, refuse)
    return array


def _cast_array(array: pa.Array, target: pa.DataType, refuse: Refuse) -> pa.Array:
    import pyarrow as pa

    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        scalars: list[pa.Scalar] = []
        failed_rows: list[int] = []
    for row, scalar in enumerate(array):
        try:
            scalars.append(scalar.cast(target))
        except pa.ArrowInvalid:
            scalars.append(pa.scalar(None, target))
            failed_rows.append(row)
    refuse(failed_rows, f"a value that {target} cannot hold without loss")
    return pa.array(scalars, target)


def _convert_struct(array: pa.StructArray, target: pa.StructType, refuse: Refuse) -> pa.Array:
    import pyarrow as pa

    parts = [part for part in array.flatten() if has_leaf_fields(part.type)]  # fields are NULL where the struct is
    children = [convert_array(part, field.type, refuse) for part, field in zip(parts, target, strict=True)]
    if array.type.equals(target) and all(a is b for a, b in zip(parts, children, strict=True)):
        return array
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _convert_list(array: pa.Array, target: pa.ListType, refuse: Refuse) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    lengths, values = lengths_and_elements(array)
    refuse_element = refuse_by_element(refuse, lengths)
    if values.null_count:
        refuse_element(true_rows(values.is_null()), NULL_ELEMENT)
    if is_list(values.type) or pa.types.is_map(values.type):  # wrapped
        inner = convert_array(values, target.value_type.field(0).type, refuse_element)
        items = pa.StructArray.from_arrays([inner], fields=list(target.value_type))
    else:
        items = convert_array(values, target.value_type, refuse_element)
    if items is values and array.type.equals(target) and not array.null_count:
        return array
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=target)
