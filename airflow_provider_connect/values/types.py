"""Which Arrow types become values and keys of Kafka records; the structured converters agree on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.values.arrow import is_binary, is_text, parts
from airflow_provider_connect.values.times import is_time

if TYPE_CHECKING:
    import pyarrow as pa


def unwritable(schema: pa.Schema, form: str) -> list[str]:
    """Name the columns that a form of values (``JSON``, ``Avro``, …) has no place for; [] when there is none."""
    return [
        f"column {field.name!r}: {form} has no form for Arrow's {kind}: cast it in the source"
        for field in schema
        if (kind := _first(field.type)) is not None
    ]


def _first(kind: pa.DataType) -> pa.DataType | None:
    """Return the type, or the first one inside it, that cannot be written."""
    from pyarrow import types

    inner = parts(kind)
    if types.is_map(kind) and types.is_nested(kind.key_type):
        return kind
    # NULL alone, below the top: Arrow ends the process in `StructArray.flatten` of a map<string, null> (pyarrow 26).
    if any(types.is_null(part) for part in inner):
        return kind
    return next((bad for part in inner if (bad := _first(part)) is not None), None if _is_known(kind) else kind)


def _is_known(kind: pa.DataType) -> bool:
    from pyarrow import types

    plain = types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    known = plain or types.is_decimal(kind) or is_text(kind) or is_binary(kind) or is_time(kind)
    return known or bool(parts(kind)) or types.is_struct(kind)
