"""Converts Arrow arrays for BigQuery: cast without loss, within BigQuery's ranges, no NULL inside a list.

All of it is vectorised; an array that needs no change is returned as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sinks._bigquery.columns.types import holds_something
from airflow_provider_connect.values.arrow import is_list, lengths_and_elements, not_utf8, true_rows

if TYPE_CHECKING:
    import pyarrow as pa

NULL_ELEMENT = "NULL inside a list, which BigQuery does not allow"


@dataclass(frozen=True)
class Fault:
    """Why rows cannot be written.

    :param rows: their indices in the array; a list, or a numpy array.
    :param reason: completes "rows with …", and quotes no value.
    """

    rows: Any
    reason: str


Result = tuple["pa.Array", list[Fault]]


def convert_array(array: pa.Array, target: pa.DataType) -> Result:
    """Return ``array`` as ``target``, and its faults; the value of a row with a fault is undefined.

    :param target: the type that :class:`.Column` has for the array.
    """
    from pyarrow import types

    kind = array.type
    if types.is_dictionary(kind):
        return convert_array(array.dictionary_decode(), target)
    if types.is_map(kind) or is_list(kind):
        return _list(*lengths_and_elements(array), array, target)
    if types.is_struct(kind):
        return _struct(array, target)
    return _leaf(array, target)


def _leaf(array: pa.Array, target: pa.DataType) -> Result:
    import pyarrow as pa

    faults = []
    if not array.type.equals(target):
        try:
            array = array.cast(target)
        except pa.ArrowInvalid:
            array, rows = _cast_each(array, target)
            faults.append(Fault(rows, f"a value that {target} cannot hold without loss"))
    return array, faults + _out_of_range(array) + _not_utf8(array)


def _cast_each(array: pa.Array, target: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Cast value by value; return NULL for what cannot be cast, and its rows."""
    import pyarrow as pa

    scalars, bad = [], []
    for row, scalar in enumerate(array):
        try:
            scalars.append(scalar.cast(target))
        except pa.ArrowInvalid:
            scalars.append(pa.scalar(None, target))
            bad.append(row)
    return pa.array(scalars, target), bad


@lru_cache(maxsize=1)
def _ranges() -> dict[pa.DataType, tuple[int, int, str]]:
    import pyarrow as pa

    instants = (-62_135_596_800_000_000, 253_402_300_799_999_999, "a time outside of the years 1 to 9999")
    return {
        pa.date32(): (-719_162, 2_932_896, "a date outside of the years 1 to 9999"),
        pa.timestamp("us"): instants,
        pa.timestamp("us", "UTC"): instants,
        pa.time64("us"): (0, 86_399_999_999, "a time of day outside of 00:00 to 23:59:59.999999"),
    }


def _out_of_range(array: pa.Array) -> list[Fault]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.type not in _ranges():
        return []
    low, high, reason = _ranges()[array.type]
    numbers = array.view(pa.int32() if pa.types.is_date(array.type) else pa.int64())
    bounds = pc.min_max(numbers)
    if not bounds["min"].is_valid or (bounds["min"].as_py() >= low and bounds["max"].as_py() <= high):
        return []
    outside = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
    return [Fault(true_rows(outside), reason)]


def _not_utf8(array: pa.Array) -> list[Fault]:
    """Return the rows with invalid UTF-8: Parquet and Arrow accept it, BigQuery refuses the whole request."""
    import pyarrow as pa

    if not pa.types.is_string(array.type):
        return []
    rows = not_utf8(array)
    return [Fault(rows, "a text that is not UTF-8")] if rows else []


def _struct(array: pa.StructArray, target: pa.StructType) -> Result:
    import pyarrow as pa

    faults, children = [], []
    parts = [part for part in array.flatten() if holds_something(part.type)]  # fields are NULL where the struct is
    for part, field in zip(parts, target, strict=True):
        child, found = convert_array(part, field.type)
        children.append(child)
        faults += found
    if array.type.equals(target) and all(a is b for a, b in zip(parts, children, strict=True)):
        return array, faults
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask), faults


def _list(lengths: Any, values: pa.Array, array: pa.Array, target: pa.ListType) -> Result:
    """Return lists of converted ``values``; NULL lists become empty."""
    import numpy as np
    import pyarrow as pa

    wrapped = is_list(values.type) or pa.types.is_map(values.type)
    if wrapped:
        inner, faults = convert_array(values, target.value_type.field(0).type)
        items = pa.StructArray.from_arrays([inner], fields=list(target.value_type))
    else:
        items, faults = convert_array(values, target.value_type)
    if values.null_count:
        faults = [Fault(true_rows(values.is_null()), NULL_ELEMENT), *faults]
    if faults:
        parents = np.repeat(np.arange(len(array)), lengths)
        faults = [Fault(np.unique(parents[fault.rows]), fault.reason) for fault in faults]
    if items is values and array.type.equals(target) and not array.null_count:
        return array, faults
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=target), faults
