"""Avro schemas of Arrow's schemas, and whether a registered one takes the same values.

https://avro.apache.org/docs/1.12.0/specification/ (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_connect.values.arrow import is_text, plain_type, type_group
from airflow_provider_connect.values.converters import DAY, differing_type, missing_field, required_field
from airflow_provider_connect.values.names import comment_with_name, inner_name, legal_name, split_name
from airflow_provider_connect.values.numbers import decimal_digits

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa

Avro: TypeAlias = "str | dict[str, Any] | list[Any]"
"""A schema, its JSON parsed: a name, an object, or a union."""

_TYPES: dict[str | None, Avro] = {
    "null": "string",
    "boolean": "boolean",
    "text": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
}


def document(schema: pa.Schema, record_name: str, day: dt.date | None) -> str:
    """Return the schema of a record: ``day`` if given, then the columns; one that may be NULL is a union with null."""
    namespace, name = split_name(record_name)
    fields: list[dict[str, Any]] = []
    if day is not None:
        fields.append({"name": DAY, "type": _TYPES["date"], "doc": "The day in the source's zone."})
    fields += [_field(field, name, nullable=field.nullable) for field in schema]
    record = {"type": "record", "name": name, "fields": fields}
    return json.dumps(record | ({"namespace": namespace} if namespace else {}), ensure_ascii=False)


def misfits(own_schema: str, registered: str) -> list[str]:
    """Say why records of our own schema cannot be written by a registered one; [] when they can.

    The order of fields, docs, defaults and record names may differ. A registered field may be nullable or ``long``
    where ours is not; where ours alone is nullable, NULL is refused row by row. Fields that only the registered schema
    has must be nullable.
    """
    other = json.loads(registered)
    return list(_misfits(json.loads(own_schema), other, "", named_types(other)))


def named_types(schema: Avro, types: dict[str, Avro] | None = None, namespace: str = "") -> dict[str, Avro]:
    """Return the named types that a schema defines, by their names with and without namespace."""
    types = {} if types is None else types
    if isinstance(schema, list):
        for branch in schema:
            named_types(branch, types, namespace)
    elif isinstance(schema, dict):
        if "name" in schema:
            own, _, simple = f"{schema.get('namespace', namespace)}.{schema['name']}".rpartition(".")
            namespace = schema["name"].rpartition(".")[0] or own
            types[simple] = types[f"{namespace}.{simple}".strip(".")] = schema
        fields = [field["type"] for field in schema.get("fields", ())]
        for inner in (schema.get("items"), schema.get("values"), schema["type"], *fields):
            if isinstance(inner, dict | list):
                named_types(inner, types, namespace)
    return types


def without_null(schema: Avro, names: dict[str, Avro]) -> tuple[Avro, int | None, int]:
    """Return the type that a union holds beside null, the place of null in the union, and the place of the type.

    A type outside of a union is returned itself; it has no place for null. Of several types the first one counts:
    whether it fits is for the caller to see.
    """
    if not isinstance(schema, list):
        plain = names.get(schema, schema) if isinstance(schema, str) else schema
        wrapped = isinstance(plain, dict) and isinstance(plain.get("type"), dict | list)
        return without_null(plain["type"], names) if wrapped else (plain, None, 0)  # type: ignore[index,call-overload]
    null = schema.index("null") if "null" in schema else None
    others = [place for place, branch in enumerate(schema) if branch != "null"]
    place = others[0] if others else 0
    return without_null(schema[place], names)[0], null, place


def _field(field: pa.Field, record: str, *, nullable: bool) -> dict[str, Any]:
    kind = _type(field.type, inner_name(record, field.name))
    doc = comment_with_name(field)
    made: dict[str, Any] = {"name": legal_name(field.name), "type": ["null", kind] if nullable else kind}
    return made | ({"default": None} if nullable else {}) | ({"doc": doc} if doc else {})


def _type(kind: pa.DataType, name: str) -> Avro:
    kind, shape = plain_type(kind), type_group(kind)
    if shape == "struct":
        return {"type": "record", "name": name, "fields": [_field(field, name, nullable=True) for field in kind]}
    if shape == "map":
        value: Avro = ["null", _type(kind.item_type, f"{name}_value")]
        if is_text(kind.key_type):
            return {"type": "map", "values": value}
        fields = [{"name": "key", "type": _type(kind.key_type, f"{name}_key")}, {"name": "value", "type": value}]
        return {"type": "array", "items": {"type": "record", "name": f"{name}_entry", "fields": fields}}
    if shape == "list":
        return {"type": "array", "items": ["null", _type(kind.value_type, f"{name}_item")]}
    return _leaf(kind)


def _leaf(kind: pa.DataType) -> Avro:
    from pyarrow import types

    shape, digits = type_group(kind), decimal_digits(kind)
    if digits is not None:
        return {"type": "bytes", "logicalType": "decimal", "precision": digits[0], "scale": digits[1]}
    if shape == "timestamp":
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if shape == "integer":
        return "int" if kind.bit_width < 32 or types.is_int32(kind) else "long"
    if shape == "float":
        return "double" if kind.bit_width == 64 else "float"
    return _TYPES[shape]


def _misfits(own: Avro, other: Avro, where: str, names: dict[str, Avro]) -> Iterator[str]:
    if isinstance(other, list) and len([branch for branch in other if branch != "null"]) > 1:
        yield f"{where}: a union of several types in the registered schema"
        return
    mine: Any = without_null(own, {})[0]
    theirs: Any = without_null(other, names)[0]
    a, b = _signature(mine), _signature(theirs)
    if a != b and (a, b) != (("int",), ("long",)):
        yield differing_type(where or "the record", "/".join(a), "/".join(b))
    elif a == ("record",):
        yield from _record_misfits(mine, theirs, f"{where}." if where else "field ", names)
    elif a in (("array",), ("map",)):
        part = "items" if a == ("array",) else "values"
        yield from _misfits(mine[part], theirs[part], f"{where}, {part}", names)


def _record_misfits(own: dict[str, Any], other: dict[str, Any], where: str, names: dict[str, Avro]) -> Iterator[str]:
    ours = {field["name"]: field["type"] for field in own["fields"]}
    theirs = {field["name"]: field["type"] for field in other["fields"]}
    for name, kind in ours.items():
        if name in theirs:
            yield from _misfits(kind, theirs[name], f"{where}{name}", names)
        else:
            yield missing_field(f"{where}{name}")
    for name, kind in theirs.items():
        if name not in ours and without_null(kind, names)[1] is None:
            yield required_field(f"{where}{name}")


def _signature(schema: Avro) -> tuple[str, ...]:
    """Return what decides how a value is written, apart from the values inside it."""
    if isinstance(schema, str):
        return (schema,)
    if isinstance(schema, list):
        return ("union",)
    details = [str(schema[key]) for key in ("logicalType", "precision", "scale", "size") if key in schema]
    return (str(schema["type"]), *details)
