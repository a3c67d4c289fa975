"""JSON Schema of Arrow's, and values of plain JSON behind its id: the ``json_schema`` converter.

Draft 7, as Confluent's own converter writes (https://docs.confluent.io/platform/current/schema-registry/fundamentals/
serdes-develop/serdes-json.html, 2026-11). Objects are closed (``additionalProperties: false``): only so is a new
optional field compatible under BACKWARD.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import Refused
from airflow_provider_connect.values.arrow import is_binary, is_list, is_text, json_mark
from airflow_provider_connect.values.encoded import DAY, Encoded, Kind, SchemaRef, encoded, framed
from airflow_provider_connect.values.fields import name_problems
from airflow_provider_connect.values.json.text import JsonConverter

if TYPE_CHECKING:
    import pyarrow as pa

Schema = dict[str, Any]


class JsonSchemaConverter(JsonConverter):
    """Plain JSON objects behind the id of their schema."""

    kind: ClassVar[Kind | None] = "JSON"

    def problems(self) -> list[str]:
        """Name every column that JSON has no form for."""
        return name_problems(self.record_name) + super().problems()

    def document(self) -> str:
        """Return the schema."""
        return self._document

    @cached_property
    def _document(self) -> str:
        properties = {} if self.day is None else {DAY: {"type": "string", "format": "date"}}
        properties |= {field.name: _property(field, nullable=field.nullable) for field in self.schema}
        required = [name for name in properties if name == DAY or not self.schema.field(name).nullable]
        head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": self.record_name}
        return json.dumps(head | _object(properties) | {"required": required}, ensure_ascii=False)

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return each row as the ``json`` converter does, with the schema's id before it."""
        refused = Refused()
        pieces = [framed(ref), *self.objects(batch, refused)]
        return encoded(pieces, batch.num_rows, refused)


def misfits(own: str, registered: str) -> list[str]:
    """Say which fields of our own schema a registered one does not take; [] when it takes them all.

    Only ``properties``, ``type``, ``required`` and ``additionalProperties`` are looked at.
    """
    found: list[str] = []
    _misfits(json.loads(own), json.loads(registered), "field ", found)
    return found


def _misfits(own: Schema, other: Schema, where: str, found: list[str]) -> None:
    ours, theirs = own.get("properties", {}), other.get("properties", {})
    for name, mine in ours.items():
        if name in theirs:
            _type_misfits(mine, theirs[name], f"{where}{name}", found)
        elif other.get("additionalProperties", True) is False:
            found.append(f"{where}{name}: not in the registered schema")
    found += [
        f"{where}{name}: the registered schema wants a value, and the source may have none"
        for name in other.get("required", ())
        if name not in (own.get("required") or ours)
    ]


def _type_misfits(own: Schema, other: Schema, where: str, found: list[str]) -> None:
    mine, theirs = _types(own), _types(other)
    if theirs and not (mine and all(kind in theirs or (kind == "integer" and "number" in theirs) for kind in mine)):
        found.append(f"{where}: {'/'.join(mine) or 'any'} here, {'/'.join(theirs)} in the registered schema")
        return
    if "properties" in own and "properties" in other:
        _misfits(own, other, f"{where}.", found)
    for part in ("items", "additionalProperties"):
        if isinstance(own.get(part), dict) and isinstance(other.get(part), dict):
            _type_misfits(own[part], other[part], f"{where}, {part}", found)


def _types(schema: Schema) -> list[str]:
    kinds = schema.get("type", [])
    alternatives = [kind for part in ("oneOf", "anyOf") for inner in schema.get(part, ()) for kind in _types(inner)]
    return [kinds] if isinstance(kinds, str) else [*kinds, *alternatives]


def _property(field: pa.Field, *, nullable: bool) -> Schema:
    text = (field.metadata or {}).get(b"comment", b"").decode()
    made: Schema = {} if json_mark(field) and is_text(field.type) else _type(field.type)
    if nullable and made.get("type") not in (None, "null"):
        made["type"] = [made["type"], "null"]
    return made | ({"description": text} if text else {})


def _object(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _type(kind: pa.DataType) -> Schema:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _type(kind.value_type)
    if types.is_struct(kind):
        return _object({field.name: _property(field, nullable=True) for field in kind}) | {
            "required": [field.name for field in kind]
        }
    if types.is_map(kind):
        item = _property(kind.item_field, nullable=True)
        if is_text(kind.key_type):
            return {"type": "object", "additionalProperties": item}
        pair = {"type": "array", "items": [_type(kind.key_type), item], "minItems": 2, "maxItems": 2}
        return {"type": "array", "items": pair}
    if is_list(kind):
        return {"type": "array", "items": _property(kind.value_field, nullable=True)}
    return _leaf(kind)


def _leaf(kind: pa.DataType) -> Schema:
    from pyarrow import types

    if types.is_null(kind):
        return {"type": "null"}
    if types.is_boolean(kind):
        return {"type": "boolean"}
    if types.is_integer(kind):
        return {"type": "integer"}
    if is_text(kind):
        return {"type": "string"}
    if is_binary(kind):
        return {"type": "string", "contentEncoding": "base64"}
    return _time(kind) if times.is_time(kind) else {"type": "number"}


def _time(kind: pa.DataType) -> Schema:
    from pyarrow import types

    # Draft 7 knows no time without a zone.
    if types.is_date(kind):
        return {"type": "string", "format": "date"}
    zoned = types.is_timestamp(kind) and kind.tz
    return {"type": "string", "format": "date-time"} if zoned else {"type": "string"}
