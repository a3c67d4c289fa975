"""JSON Schemas of Arrow schemas, and JSON after a schema's id: the ``json_schema`` converter.

Draft 7, as Confluent's own converter writes (https://docs.confluent.io/platform/current/schema-registry/fundamentals/
serdes-develop/serdes-json.html, 2026-11). Objects are closed (``additionalProperties: false``), for BACKWARD.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.values.arrays import Piece, RefusedRows
from airflow_provider_connect.values.arrow import is_text, json_mark, plain_type, type_group
from airflow_provider_connect.values.converters import (
    DAY,
    SchemaLanguage,
    SchemaRef,
    differing_type,
    missing_field,
    registry_prefix,
    required_field,
)
from airflow_provider_connect.values.json.text import JsonConverter
from airflow_provider_connect.values.names import comment

if TYPE_CHECKING:
    import pyarrow as pa

Schema = dict[str, Any]

# Draft 7 has a format for dates, and for times with a zone.
_TYPES: dict[str | None, Schema] = {
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "float": {"type": "number"},
    "decimal": {"type": "number"},
    "text": {"type": "string"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string"},
    "timestamp": {"type": "string"},
    "zoned": {"type": "string", "format": "date-time"},
}


class JsonSchemaConverter(JsonConverter):
    """Plain JSON objects, each after the id of its schema."""

    kind: ClassVar[SchemaLanguage | None] = "JSON"

    @cached_property
    def document(self) -> str:
        """JSON Schema."""
        properties = {} if self.day is None else {DAY: _TYPES["date"]}
        required = [*properties, *(field.name for field in self.schema if not field.nullable)]
        properties |= {field.name: _property(field, nullable=field.nullable) for field in self.schema}
        head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": self.record_name}
        return json.dumps(head | _object(properties) | {"required": required}, ensure_ascii=False)

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        """Return the schema's id and each row's object."""
        return [registry_prefix(ref), *super().pieces(batch, ref, refused)]


def misfits(own_schema: str, registered: str) -> list[str]:
    """Return the fields of our schema that a registered schema refuses.

    Compares only ``properties``, ``type``, ``required`` and ``additionalProperties``.
    """
    return list(_misfits(json.loads(own_schema), json.loads(registered), "field "))


def _misfits(own_schema: Schema, registered: Schema, prefix: str) -> Iterator[str]:
    own_fields, registered_fields = own_schema.get("properties", {}), registered.get("properties", {})
    for name, own_field in own_fields.items():
        if name in registered_fields:
            yield from _type_misfits(own_field, registered_fields[name], f"{prefix}{name}")
        elif registered.get("additionalProperties", True) is False:
            yield missing_field(f"{prefix}{name}")
    for name in registered.get("required", ()):
        if name not in (own_schema.get("required") or own_fields):
            yield required_field(f"{prefix}{name}", "may have none")


def _type_misfits(own_schema: Schema, registered: Schema, field_path: str) -> Iterator[str]:
    own_types, registered_types = _types(own_schema), _types(registered)
    if registered_types and not (
        own_types
        and all(kind in registered_types or (kind == "integer" and "number" in registered_types) for kind in own_types)
    ):
        yield differing_type(field_path, "/".join(own_types) or "any", "/".join(registered_types))
        return
    if "properties" in own_schema and "properties" in registered:
        yield from _misfits(own_schema, registered, f"{field_path}.")
    for part in ("items", "additionalProperties"):
        if isinstance(own_schema.get(part), dict) and isinstance(registered.get(part), dict):
            yield from _type_misfits(own_schema[part], registered[part], f"{field_path}, {part}")


def _types(schema: Schema) -> list[str]:
    kinds = schema.get("type", [])
    alternatives = [kind for part in ("oneOf", "anyOf") for inner in schema.get(part, ()) for kind in _types(inner)]
    return [kinds] if isinstance(kinds, str) else [*kinds, *alternatives]


def _property(field: pa.Field, *, nullable: bool) -> Schema:
    definition: Schema = {} if json_mark(field) and is_text(field.type) else _type(field.type)
    if nullable and definition.get("type") not in (None, "null"):
        definition |= {"type": [definition["type"], "null"]}
    return definition | ({"description": comment(field)} if comment(field) else {})


def _object(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _type(kind: pa.DataType) -> Schema:
    kind, shape = plain_type(kind), type_group(kind)
    if shape == "struct":
        properties = {field.name: _property(field, nullable=True) for field in kind}
        return _object(properties) | {"required": [field.name for field in kind]}
    if shape == "map":
        item = _property(kind.item_field, nullable=True)
        if is_text(kind.key_type):
            return {"type": "object", "additionalProperties": item}
        pair = {"type": "array", "items": [_type(kind.key_type), item], "minItems": 2, "maxItems": 2}
        return {"type": "array", "items": pair}
    if shape == "list":
        return {"type": "array", "items": _property(kind.value_field, nullable=True)}
    return dict(_TYPES["zoned" if shape == "timestamp" and kind.tz else shape])
