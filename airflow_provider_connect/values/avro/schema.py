"""Creates Avro schemas from Arrow schemas, and compares them with registered ones.

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
"""A schema as parsed JSON: a name, an object, or a union."""

_TYPES: dict[str | None, Avro] = {
    "null": "string",
    "boolean": "boolean",
    "text": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
}


def document(schema: pa.Schema, record_name: str, day: dt.date | None) -> str:
    """Return the Avro schema of a record: ``day`` if given, then the columns. Nullable columns are unions with null."""
    namespace, name = split_name(record_name)
    fields: list[dict[str, Any]] = []
    if day is not None:
        fields.append({"name": DAY, "type": _TYPES["date"], "doc": "The day in the source's zone."})
    fields += [_field(field, name, nullable=field.nullable) for field in schema]
    record = {"type": "record", "name": name, "fields": fields}
    return json.dumps(record | ({"namespace": namespace} if namespace else {}), ensure_ascii=False)


def misfits(own_schema: str, registered: str) -> list[str]:
    """Return reasons why our records cannot be written with a registered schema.

    The order of fields, docs, defaults and record names may differ. A registered field may be nullable or ``long``
    where ours is not.  Fields of the registered schema alone must be nullable.
    """
    registered_schema = json.loads(registered)
    return list(_misfits(json.loads(own_schema), registered_schema, "", named_types(registered_schema)))


def named_types(schema: Avro, types: dict[str, Avro] | None = None, namespace: str = "") -> dict[str, Avro]:
    """Return a schema's named types, by their names with and without namespace."""
    types = {} if types is None else types
    if isinstance(schema, list):
        for branch in schema:
            named_types(branch, types, namespace)
    elif isinstance(schema, dict):
        if "name" in schema:
            own_namespace, _, simple = f"{schema.get('namespace', namespace)}.{schema['name']}".rpartition(".")
            namespace = schema["name"].rpartition(".")[0] or own_namespace
            types[simple] = types[f"{namespace}.{simple}".strip(".")] = schema
        fields = [field["type"] for field in schema.get("fields", ())]
        for inner in (schema.get("items"), schema.get("values"), schema["type"], *fields):
            if isinstance(inner, dict | list):
                named_types(inner, types, namespace)
    return types


def without_null(schema: Avro, names: dict[str, Avro]) -> tuple[Avro, int | None, int]:
    """Return the first type inside a union with null, the index of null (None outside of a union), and the type's."""
    if not isinstance(schema, list):
        plain = names.get(schema, schema) if isinstance(schema, str) else schema
        wrapped = isinstance(plain, dict) and isinstance(plain.get("type"), dict | list)
        return without_null(plain["type"], names) if wrapped else (plain, None, 0)  # type: ignore[index,call-overload]
    null_index = schema.index("null") if "null" in schema else None
    type_indices = [type_index for type_index, branch in enumerate(schema) if branch != "null"]
    type_index = type_indices[0] if type_indices else 0
    return without_null(schema[type_index], names)[0], null_index, type_index


def _field(field: pa.Field, record: str, *, nullable: bool) -> dict[str, Any]:
    kind = _type(field.type, inner_name(record, field.name))
    doc = comment_with_name(field)
    definition: dict[str, Any] = {"name": legal_name(field.name), "type": ["null", kind] if nullable else kind}
    return definition | ({"default": None} if nullable else {}) | ({"doc": doc} if doc else {})


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


def _misfits(own_schema: Avro, registered: Avro, field_path: str, names: dict[str, Avro]) -> Iterator[str]:
    if isinstance(registered, list) and len([branch for branch in registered if branch != "null"]) > 1:
        yield f"{field_path}: a union of several types in the registered schema"
        return
    own_type: Any = without_null(own_schema, {})[0]
    registered_type: Any = without_null(registered, names)[0]
    own_signature, registered_signature = _signature(own_type), _signature(registered_type)
    if own_signature != registered_signature and (own_signature, registered_signature) != (("int",), ("long",)):
        yield differing_type(field_path or "the record", "/".join(own_signature), "/".join(registered_signature))
    elif own_signature == ("record",):
        yield from _record_misfits(own_type, registered_type, f"{field_path}." if field_path else "field ", names)
    elif own_signature in (("array",), ("map",)):
        part = "items" if own_signature == ("array",) else "values"
        yield from _misfits(own_type[part], registered_type[part], f"{field_path}, {part}", names)


def _record_misfits(
    own_schema: dict[str, Any], registered: dict[str, Any], prefix: str, names: dict[str, Avro]
) -> Iterator[str]:
    ours = {field["name"]: field["type"] for field in own_schema["fields"]}
    theirs = {field["name"]: field["type"] for field in registered["fields"]}
    for name, kind in ours.items():
        if name in theirs:
            yield from _misfits(kind, theirs[name], f"{prefix}{name}", names)
        else:
            yield missing_field(f"{prefix}{name}")
    for name, kind in theirs.items():
        if name not in ours and without_null(kind, names)[1] is None:
            yield required_field(f"{prefix}{name}")


def _signature(schema: Avro) -> tuple[str, ...]:
    if isinstance(schema, str):
        return (schema,)
    if isinstance(schema, list):
        return ("union",)
    details = [str(schema[key]) for key in ("logicalType", "precision", "scale", "size") if key in schema]
    return (str(schema["type"]), *details)
