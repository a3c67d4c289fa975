"""Converts Arrow arrays for BigQuery: cast without loss, within BigQuery's ranges, no NULL inside a list.

All of it is vectorised; an array that needs no change is returned as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.sinks._bigquery.columns.types import holds_something
from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import Refuse, refuse_by_element, refuse_not_utf8
from airflow_provider_connect.values.arrow import is_list, lengths_and_elements, shape_of, true_rows

if TYPE_CHECKING:
    import pyarrow as pa

NULL_ELEMENT = "NULL inside a list, which BigQuery does not allow"


def convert_array(array: pa.Array, target: pa.DataType, refuse: Refuse) -> pa.Array:
    """Return ``array`` as ``target``; the value of a refused row is undefined.

    :param target: the type that :class:`.Column` has for the array.
    """
    from pyarrow import types

    kind = array.type
    if types.is_dictionary(kind):
        return convert_array(array.dictionary_decode(), target, refuse)
    if types.is_map(kind) or is_list(kind):
        return _list(array, target, refuse)
    if types.is_struct(kind):
        return _struct(array, target, refuse)
    if not kind.equals(target):
        array = _cast(array, target, refuse)
    if shape_of(target) in times.SHAPES:
        times.whole_numbers(array, refuse)
    elif types.is_string(target):
        refuse_not_utf8(array, refuse)
    return array


def _cast(array: pa.Array, target: pa.DataType, refuse: Refuse) -> pa.Array:
    """Cast an array, and value by value if that fails: what cannot be cast becomes NULL."""
    import pyarrow as pa

    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        scalars: list[pa.Scalar] = []
        bad: list[int] = []
    for row, scalar in enumerate(array):
        try:
            scalars.append(scalar.cast(target))
        except pa.ArrowInvalid:
            scalars.append(pa.scalar(None, target))
            bad.append(row)
    refuse(bad, f"a value that {target} cannot hold without loss")
    return pa.array(scalars, target)


def _struct(array: pa.StructArray, target: pa.StructType, refuse: Refuse) -> pa.Array:
    import pyarrow as pa

    parts = [part for part in array.flatten() if holds_something(part.type)]  # fields are NULL where the struct is
    children = [convert_array(part, field.type, refuse) for part, field in zip(parts, target, strict=True)]
    if array.type.equals(target) and all(a is b for a, b in zip(parts, children, strict=True)):
        return array
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _list(array: pa.Array, target: pa.ListType, refuse: Refuse) -> pa.Array:
    """Return lists of converted elements; NULL lists become empty."""
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
