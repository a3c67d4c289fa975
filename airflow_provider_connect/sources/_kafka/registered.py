"""Records of a schema registry as JSON: byte 0, the schema's id in four bytes, then Avro, JSON or Protobuf.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format (2026-11)
"""

from __future__ import annotations

import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

from airflow_provider_connect.clients.kafka.registry import RegisteredSchema, RegistryClient
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.sources._kafka.records import BadRecordError
from airflow_provider_connect.values.protobuf.decoding import (
    MessageIndexError,
    MessageTypes,
    message_values,
    read_message_index,
)

_HEAD_BYTES = 5
_NO_NUMBER = "the record has a number without a value (NaN or infinity)"
_MAX_DIGITS = 1_000
ReadJson = Callable[[bytes], bytes]


def read_registered_json(data: bytes) -> bytes:
    """Return the JSON of a record of the converter ``json_schema``. Asks no registry.

    :raises BadRecordError: the record has no schema id.
    """
    _schema_id(data)
    return data[_HEAD_BYTES:]


class RegisteredReader(ABC):
    """Converts records of registered schemas to JSON. Each schema is read from the registry once.

    A number without a value (NaN, infinity) is refused.
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
        :raises ConfigError: the schema is of another type, or cannot be read.
        """
        schema_id = _schema_id(data)
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self._parse_schema(schema_id)
        value = self._decode(self._schemas[schema_id], data[_HEAD_BYTES:])
        if not _is_finite(value):
            raise BadRecordError(_NO_NUMBER)
        return self._encoder.encode(value)

    @abstractmethod
    def _parse_schema(self, schema_id: int) -> Any:
        """Return a schema of the registry, with what it refers to. Raises as ``__call__``."""

    @abstractmethod
    def _decode(self, schema: Any, body: bytes) -> Any:
        """Return a record's values. Raises BadRecordError for bytes of another form."""


class AvroReader(RegisteredReader):
    """Converts Avro records. A decimal becomes a number, a time ISO 8601 text, bytes become base64."""

    def _decode(self, schema: Any, body: bytes) -> Any:
        import fastavro

        stream = io.BytesIO(body)
        try:
            value = fastavro.schemaless_reader(stream, schema, None)
        except Exception:  # noqa: BLE001  # whatever bytes of another form make of it
            raise BadRecordError("the bytes do not fit the Avro schema that the record names") from None
        if stream.read(1):
            raise BadRecordError("the record is longer than its Avro schema")
        return value

    def _parse_schema(self, schema_id: int) -> Any:
        import fastavro

        registered = _registered(self._registry, schema_id, "avro")
        named: dict[str, Any] = {}
        try:
            parsed = {
                name: fastavro.parse_schema(_avro_document(reference), named)
                for name, reference in references_of(self._registry, registered).items()
            }
            document = _avro_document(registered)
            if isinstance(document, list):  # only parsed parts keep the names that they refer to
                document = [parsed.get(part, part) if isinstance(part, str) else part for part in document]
            return fastavro.parse_schema(document, named)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType):
            raise ConfigError(
                f"Avro schema {registered.id} cannot be read: it, or a schema that it refers to, is not valid"
            ) from None


def _avro_document(registered: RegisteredSchema) -> Any:
    return json.loads(registered.document, object_hook=_with_every_digit)


class ProtobufReader(RegisteredReader):
    """Converts Protobuf records, with values as in :func:`.decoding.message_values`."""

    def _decode(self, schema: MessageTypes, body: bytes) -> Any:
        from google.protobuf.message import DecodeError

        try:
            index, length = read_message_index(body)
            return message_values(schema.parse(index, body[length:]))
        except MessageIndexError:
            raise BadRecordError("the record names a message type that its Protobuf schema does not have") from None
        except (DecodeError, IndexError, ValueError):
            raise BadRecordError("the bytes do not fit the Protobuf schema that the record names") from None

    def _parse_schema(self, schema_id: int) -> MessageTypes:
        registered = _registered(self._registry, schema_id, "protobuf")
        imports = {name: schema.document for name, schema in references_of(self._registry, registered).items()}
        try:
            return MessageTypes(registered.document, imports.get)
        except DataError as error:
            raise ConfigError(f"Protobuf schema {schema_id}: {error}") from None


REGISTRY_READERS: Mapping[str, Callable[[RegistryClient], ReadJson]] = {
    "avro": AvroReader,
    "protobuf": ProtobufReader,
}


def _registered(registry: RegistryClient, schema_id: int, converter: Literal["avro", "protobuf"]) -> RegisteredSchema:
    """Return a schema by its id.

    :raises RetriableError: the registry does not know it.
    :raises ConfigError: it is of another type.
    """
    registered = registry.document(schema_id, "serialized" if converter == "protobuf" else None)
    if registered is None:
        raise RetriableError(
            f"the registry {registry.url} does not know schema {schema_id}, which a record names. If the "
            "error stays, correct schema.registry.url in the connection"
        )
    if registered.kind != converter.upper():
        raise ConfigError(
            f"schema {schema_id} is of type {registered.kind}, which converter {converter!r} cannot read. Use another "
            "converter, or bytes"
        )
    return registered


def references_of(registry: RegistryClient, registered: RegisteredSchema) -> dict[str, RegisteredSchema]:
    """Return the schemas that a schema refers to by name, each after those that it refers to itself."""
    schemas: dict[str, RegisteredSchema] = {}
    for reference in registered.references:
        if reference.name in schemas:
            continue
        schema = registry.referenced(reference, "serialized" if registered.kind == "PROTOBUF" else None)
        if schema is None:
            raise RetriableError(
                f"the registry {registry.url} does not have version {reference.version} of subject "
                f"{reference.subject!r}, which schema {registered.id} refers to"
            )
        schemas = references_of(registry, schema) | schemas
        schemas[reference.name] = schema
    return schemas


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
