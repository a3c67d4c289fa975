"""Which Arrow types can be written as JSON, Avro and Protobuf: the three agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.values.arrow import inner_types, shape_of

if TYPE_CHECKING:
    import pyarrow as pa


def unwritable(schema: pa.Schema, form: str) -> list[str]:
    """Name the columns that a form (``JSON``, ``Avro``, …) cannot hold; [] when there are none."""
    return [
        f"column {field.name!r}: {form} has no form for Arrow's {kind}: cast it in the source"
        for field in schema
        if (kind := _first_unwritable(field.type)) is not None
    ]


def _first_unwritable(kind: pa.DataType) -> pa.DataType | None:
    """Return the type, or the first one inside it, that cannot be written."""
    from pyarrow import types

    inner = inner_types(kind)
    if shape_of(kind) is None or (types.is_map(kind) and types.is_nested(kind.key_type)):
        return kind
    # NULL is allowed at the top alone: `StructArray.flatten` of a map<string, null> ends the process (pyarrow 26).
    if any(types.is_null(part) for part in inner):
        return kind
    return next((bad for part in inner if (bad := _first_unwritable(part)) is not None), None)
