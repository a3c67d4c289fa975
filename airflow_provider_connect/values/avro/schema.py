"""Avro schemas of Arrow's, and whether a registered one takes the same values.

https://avro.apache.org/docs/1.12.0/specification/ (2026-11)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrow import is_binary, is_list, is_text
from airflow_provider_connect.values.decimals import decimal_digits
from airflow_provider_connect.values.encoded import DAY
from airflow_provider_connect.values.fields import comment, inner_name, legal_name, split_name

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa

Avro: TypeAlias = "str | dict[str, Any] | list[Any]"
"""A schema as its JSON is parsed: a name, an object, or a union."""

DATE = {"type": "int", "logicalType": "date"}


def document(schema: pa.Schema, record_name: str, day: dt.date | None) -> str:
    """Return the schema of the records: ``day`` if given, then the columns; what may be NULL is a union with null."""
    namespace, name = split_name(record_name)
    fields: list[dict[str, Any]] = []
    if day is not None:
        fields.append({"name": DAY, "type": DATE, "doc": "The day in the source's zone."})
    fields += [_field(field, name, nullable=field.nullable) for field in schema]
    record = {"type": "record", "name": name, "fields": fields}
    return json.dumps(record | ({"namespace": namespace} if namespace else {}), ensure_ascii=False)


def misfits(own: str, registered: str) -> list[str]:
    """Say why records of our own schema cannot be written by a registered one; [] when they can.

    The order of fields, docs, defaults and record names may differ, and a registered field may be nullable or ``long``
    where ours is not. Where ours alone is nullable, NULL is refused row by row. Fields that only the registered schema
    has must be nullable.
    """
    found: list[str] = []
    _misfits(json.loads(own), json.loads(registered), "", named(json.loads(registered)), found)
    return found


def named(schema: Avro, found: dict[str, Avro] | None = None, namespace: str = "") -> dict[str, Avro]:
    """Return the named types that a schema defines, by their names with and without namespace."""
    found = {} if found is None else found
    if isinstance(schema, list):
        for branch in schema:
            named(branch, found, namespace)
    elif isinstance(schema, dict):
        if "name" in schema:
            own, _, simple = f"{schema.get('namespace', namespace)}.{schema['name']}".rpartition(".")
            namespace = schema["name"].rpartition(".")[0] or own
            found[simple] = found[f"{namespace}.{simple}".strip(".")] = schema
        for inner in (schema.get("items"), schema.get("values"), schema["type"], *_field_types(schema)):
            if isinstance(inner, dict | list):
                named(inner, found, namespace)
    return found


def without_null(schema: Avro, names: dict[str, Avro]) -> tuple[Avro, int | None, int]:
    """Return the one type of a union beside null, the place of null in it, and that of the type.

    A type that is no union is itself, with no place for null. Of a union of several types the first is taken:
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


def _field_types(schema: dict[str, Any]) -> list[Avro]:
    return [field["type"] for field in schema.get("fields", ())]


def _field(field: pa.Field, record: str, *, nullable: bool) -> dict[str, Any]:
    kind = _type(field.type, inner_name(record, field.name))
    doc = comment(field)
    made: dict[str, Any] = {"name": legal_name(field.name), "type": ["null", kind] if nullable else kind}
    return made | ({"default": None} if nullable else {}) | ({"doc": doc} if doc else {})


def _type(kind: pa.DataType, name: str) -> Avro:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _type(kind.value_type, name)
    if types.is_struct(kind):
        return {"type": "record", "name": name, "fields": [_field(field, name, nullable=True) for field in kind]}
    if types.is_map(kind):
        value: Avro = ["null", _type(kind.item_type, f"{name}_value")]
        if is_text(kind.key_type):
            return {"type": "map", "values": value}
        fields = [{"name": "key", "type": _type(kind.key_type, f"{name}_key")}, {"name": "value", "type": value}]
        return {"type": "array", "items": {"type": "record", "name": f"{name}_entry", "fields": fields}}
    if is_list(kind):
        return {"type": "array", "items": ["null", _type(kind.value_type, f"{name}_item")]}
    return _leaf(kind)


def _leaf(kind: pa.DataType) -> Avro:
    from pyarrow import types

    digits = decimal_digits(kind)
    if digits is not None:
        return {"type": "bytes", "logicalType": "decimal", "precision": digits[0], "scale": digits[1]}
    if times.is_time(kind):
        return _time(kind)
    if types.is_integer(kind):
        small = kind.bit_width < 32 or types.is_int32(kind)
        return "int" if small else "long"
    if types.is_floating(kind):
        return "double" if types.is_float64(kind) else "float"
    if types.is_boolean(kind):
        return "boolean"
    return "bytes" if is_binary(kind) else "string"


def _time(kind: pa.DataType) -> Avro:
    from pyarrow import types

    if types.is_date(kind):
        return DATE
    if types.is_time(kind):
        return {"type": "long", "logicalType": "time-micros"}
    return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}


def _misfits(own: Avro, other: Avro, where: str, names: dict[str, Avro], found: list[str]) -> None:
    if isinstance(other, list) and len([branch for branch in other if branch != "null"]) > 1:
        found.append(f"{where}: a union of several types in the registered schema")
        return
    mine, theirs = without_null(own, {})[0], without_null(other, names)[0]
    a, b = _signature(mine), _signature(theirs)
    if a != b and (a, b) != (("int",), ("long",)):
        found.append(f"{where or 'the record'}: {'/'.join(a)} here, {'/'.join(b)} in the registered schema")
    elif a == ("record",):
        _record_misfits(mine, theirs, where, names, found)  # type: ignore[arg-type]
    elif a in (("array",), ("map",)):
        part = "items" if a == ("array",) else "values"
        _misfits(mine[part], theirs[part], f"{where}, {part}", names, found)  # type: ignore[index,call-overload]


def _record_misfits(
    own: dict[str, Any], other: dict[str, Any], where: str, names: dict[str, Avro], found: list[str]
) -> None:
    ours = {field["name"]: field["type"] for field in own["fields"]}
    theirs = {field["name"]: field["type"] for field in other["fields"]}
    prefix = f"{where}." if where else "field "
    for name, kind in ours.items():
        if name in theirs:
            _misfits(kind, theirs[name], f"{prefix}{name}", names, found)
        else:
            found.append(f"{prefix}{name}: not in the registered schema")
    for name, kind in theirs.items():
        if name not in ours and without_null(kind, names)[1] is None:
            found.append(f"{prefix}{name}: the registered schema wants a value, and the source has no such column")


def _signature(schema: Avro) -> tuple[str, ...]:
    """Return what decides how a value is written, its parts aside."""
    if isinstance(schema, str):
        return (schema,)
    if isinstance(schema, list):
        return ("union",)
    details = [str(schema[key]) for key in ("logicalType", "precision", "scale", "size") if key in schema]
    return (str(schema["type"]), *details)
