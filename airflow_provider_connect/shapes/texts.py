"""Values as text: the one text that a value of any type has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values.arrays import as_binary, join, without_dictionary
from airflow_provider_connect.values.arrow import inner_types, shape_of
from airflow_provider_connect.values.json.text import Writer
from airflow_provider_connect.values.times import SHAPES as TIMES
from airflow_provider_connect.values.times import iso_texts

if TYPE_CHECKING:
    import pyarrow as pa


def has_text(kind: pa.DataType) -> bool:
    """Tell whether values of a type have a text."""
    return shape_of(kind) is not None and all(has_text(part) for part in inner_types(kind))


def as_text(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column as ``string``: numbers and times as JSON writes them, bytes as UTF-8, parts as a JSON document.

    NULL is NULL, and so is what has no text: bytes that are no UTF-8, NaN inside a document, years past 9999.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    array = without_dictionary(array)
    shape = shape_of(array.type)
    refused = np.zeros(len(array), bool)

    def refuse(rows: Any, _: str) -> None:
        refused[rows] = True

    if shape == "null":
        return pa.nulls(len(array), pa.string())
    if shape == "text":
        return array.cast(pa.string())
    if shape == "binary":
        return _utf8(as_binary(array))
    if shape in ("struct", "list", "map"):
        texts = join(Writer().pieces(array, field, refuse), len(array))
    elif shape in TIMES:
        texts = iso_texts(array, refuse)
    else:
        return array.cast(pa.string())
    lost = pa.array(refused)
    missing = pc.or_(lost, array.is_null())
    return pc.if_else(missing, pa.scalar(None, texts.type), texts).cast(pa.string())


def _utf8(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    try:
        return array.cast(pa.large_string()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(value) for value in array.to_pylist()], pa.string())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
