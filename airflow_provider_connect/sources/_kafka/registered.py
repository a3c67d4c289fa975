"""Records of a schema registry as JSON: byte 0, the schema's id in four bytes, then Avro or JSON.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format (2026-11)
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from typing import Any

from airflow_provider_connect.clients.kafka.registry import RegistryClient
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources._kafka.records import BadRecordError

_HEAD_BYTES = 5
_MAX_DIGITS = 1_000
ReadJson = Callable[[bytes], bytes]


def read_registered_json(data: bytes) -> bytes:
    """Return the JSON of a record of the converter ``json_schema``. Asks no registry.

    :raises BadRecordError: the record has no schema id.
    """
    _schema_id(data)
    return data[_HEAD_BYTES:]


class AvroReader:
    """Converts Avro records to JSON. Each schema is read from the registry once.

    A decimal becomes a number, a time ISO 8601 text, bytes become base64. A number without a value (NaN, infinity) is
    refused.
    """

    def __init__(self, registry: RegistryClient) -> None:
        import msgspec

        self._registry = registry
        self._encoder = msgspec.json.Encoder(decimal_format="number")
        self._schemas: dict[int, Any] = {}

    def __call__(self, data: bytes) -> bytes:
        """Return a record as JSON.

        :raises BadRecordError: the record is not one of its schema.
        :raises RetriableError: the registry does not know the schema's id.
        :raises ConfigError: the schema is no Avro, or refers to others.
        """
        import fastavro

        schema = self._schema(_schema_id(data))
        stream = io.BytesIO(data[_HEAD_BYTES:])
        try:
            value = fastavro.schemaless_reader(stream, schema, None)
        except Exception:  # noqa: BLE001  # whatever bytes of another form make of it
            raise BadRecordError("the bytes do not fit the Avro schema that the record names") from None
        if stream.read(1):
            raise BadRecordError("the record is longer than its Avro schema")
        if not _is_finite(value):
            raise BadRecordError("the record has a number without a value (NaN or infinity)")
        return self._encoder.encode(value)

    def _schema(self, schema_id: int) -> Any:
        import fastavro

        if schema_id not in self._schemas:
            registered = self._registry.document(schema_id)
            if registered is None:
                raise RetriableError(
                    f"the registry {self._registry.url} does not know schema {schema_id}, which a record names. If the "
                    "error stays, correct schema.registry.url in the connection"
                )
            if registered.kind != "AVRO" or registered.has_references:
                what = "refers to other schemas" if registered.has_references else f"is of type {registered.kind}"
                raise ConfigError(f"schema {schema_id} {what}, which converter 'avro' cannot read. Use bytes")
            document = json.loads(registered.document, object_hook=_with_every_digit)
            self._schemas[schema_id] = fastavro.parse_schema(document)
        return self._schemas[schema_id]


def _with_every_digit(schema: dict[str, Any]) -> dict[str, Any]:
    """Raise a decimal's precision: fastavro rounds a number that has more digits, without an error."""
    precision = schema.get("precision")
    if schema.get("logicalType") != "decimal" or not isinstance(precision, int) or precision <= 0:
        return schema
    if schema.get("type") == "bytes":
        return schema | {"precision": max(precision, _MAX_DIGITS)}
    size = schema.get("size")
    if schema.get("type") == "fixed" and isinstance(size, int) and size > 0:
        return schema | {"precision": max(precision, len(str(1 << (8 * size - 1))) - 1)}
    return schema


def _schema_id(data: bytes) -> int:
    if len(data) < _HEAD_BYTES or data[0] != 0:
        raise BadRecordError("the record has no schema id: it was not written with a schema registry")
    return int.from_bytes(data[1:_HEAD_BYTES], "big")


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return all(map(_is_finite, value)) if isinstance(value, list) else True
