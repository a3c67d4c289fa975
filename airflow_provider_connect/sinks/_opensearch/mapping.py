"""The mapping of a schema. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

KEYWORD = {"type": "keyword", "ignore_above": 8191}
"""Longer texts are stored, but not searched: Lucene's terms end at 32,766 bytes."""
_OPAQUE = {"type": "object", "enabled": False}


def mapping_of(schema: pa.Schema, chosen: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the mapping of an index.

    :param chosen: fields that replace those of the columns.
    """
    fields = {field.name: _field(field) for field in schema}
    return {"dynamic": False, "properties": fields | chosen}


def changed_types(schema: pa.Schema, chosen: dict[str, dict[str, Any]], published: dict[str, Any]) -> list[str]:
    """Return a problem for each column whose type differs from the published one.

    :param published: properties of an index that readers see.
    """
    fields = mapping_of(schema, chosen)["properties"]
    return [
        f"column {name!r} would become {_type(field)} and is {_type(published[name])} in the published index. "
        "Cast it, or choose its type in mapping"
        for name, field in fields.items()
        if name in published and _type(field) != _type(published[name])
    ]


def _type(field: dict[str, Any]) -> str:
    return str(field.get("type", "object"))


def _field(field: pa.Field) -> dict[str, Any]:
    if (field.metadata or {}).get(b"json"):
        return dict(_OPAQUE)
    return _of_type(field.type)


def _of_type(kind: Any) -> dict[str, Any]:
    import pyarrow as pa  # heavy

    types = pa.types
    if types.is_dictionary(kind):
        return _of_type(kind.value_type)
    if types.is_map(kind):
        return dict(_OPAQUE)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _of_type(kind.value_type)
    if types.is_struct(kind):
        return {"properties": {kind.field(i).name: _field(kind.field(i)) for i in range(kind.num_fields)}}
    return dict(_leaf(kind))


def _leaf(kind: Any) -> dict[str, Any]:
    import pyarrow as pa  # heavy

    types = pa.types
    if types.is_uint64(kind):
        return {"type": "unsigned_long"}
    named = (
        (types.is_boolean, "boolean"),
        (types.is_integer, "long"),
        (types.is_float64, "double"),
        (types.is_floating, "float"),
        (types.is_decimal, "double"),
        (types.is_timestamp, "date"),
        (types.is_date, "date"),
    )
    name = next((name for is_of, name in named if is_of(kind)), None)
    if name is not None:
        return {"type": name}
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return {"type": "binary"}
    return KEYWORD
