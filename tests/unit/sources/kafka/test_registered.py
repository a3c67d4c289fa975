"""Records of a schema registry: Avro by schema id, JSON Schema, and records that name none."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from airflow_provider_connect.clients.kafka.connection import check_connection, registry_connection
from airflow_provider_connect.clients.kafka.registry import RegisteredSchema
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources._kafka.records import BadRecordError
from airflow_provider_connect.sources._kafka.registered import AvroReader, read_registered_json
from airflow_provider_connect.sources.kafka import KafkaSource

FIELDS = [
    {"name": "n", "type": ["null", "double"]},
    {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "more", "type": {"type": "map", "values": "long"}},
]
SCHEMA: dict[str, Any] = {"type": "record", "name": "R", "fields": FIELDS}
ROW: dict[str, Any] = {
    "n": 0.5,
    "d": Decimal("12345678901234567890.1234"),
    "at": dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC),
    "day": dt.date(2026, 11, 1),
    "kind": "B",
    "more": {"x": 1},
}


class Schemas:
    """The schemas of a registry. Counts how often each is asked for."""

    url = "http://registry"

    def __init__(self, *schemas: RegisteredSchema) -> None:
        self.schemas = {schema.id: schema for schema in schemas}
        self.asked: list[int] = []

    def document(self, schema_id: int) -> RegisteredSchema | None:
        self.asked.append(schema_id)
        return self.schemas.get(schema_id)


def registered(schema: Any = SCHEMA, kind: str = "AVRO", *, has_references: bool = False) -> RegisteredSchema:
    return RegisteredSchema(7, 0, json.dumps(schema), kind, has_references)


def avro(row: dict[str, Any], schema_id: int = 7) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), row)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def reader(*schemas: RegisteredSchema) -> tuple[AvroReader, Schemas]:
    made = Schemas(*schemas)
    return AvroReader(made), made  # type: ignore[arg-type]


def test_avro_becomes_json_and_its_schema_is_asked_for_once() -> None:
    read, schemas = reader(registered())
    for _ in range(2):
        assert read(avro(ROW)) == (
            b'{"n":0.5,"d":12345678901234567890.1234,"at":"2026-11-01T12:00:00Z","day":"2026-11-01","kind":"B",'
            b'"more":{"x":1}}'
        )
    assert schemas.asked == [7]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no schema id"),
        (b'{"n": 1}', "no schema id"),
        (avro(ROW)[:-3], "do not fit the Avro schema"),
        (avro(ROW) + b"x", "longer than its Avro schema"),
        (avro(ROW | {"n": float("nan")}), "a number without a value"),
    ],
)
def test_a_record_that_is_not_of_its_schema_is_bad(data: bytes, problem: str) -> None:
    read, _ = reader(registered())
    with pytest.raises(BadRecordError, match=problem):
        read(data)


def test_an_unknown_schema_is_asked_for_again_and_other_kinds_are_refused() -> None:
    read, schemas = reader()
    for _ in range(2):
        with pytest.raises(RetriableError, match="does not know schema 7"):
            read(avro(ROW))
    assert schemas.asked == [7, 7]
    for schema, problem in ((registered(kind="PROTOBUF"), "PROTOBUF"), (registered(has_references=True), "refers to")):
        with pytest.raises(ConfigError, match=problem):
            reader(schema)[0](avro(ROW))


def test_json_schema_s_records_lose_their_head() -> None:
    assert read_registered_json(b'\0\0\0\0\7{"a": 1}') == b'{"a": 1}'
    with pytest.raises(BadRecordError):
        read_registered_json(b'{"a": 1}')


def test_the_registry_s_settings_stand_apart_in_the_connection() -> None:
    extra = {"bootstrap.servers": "k:9092", "schema.registry.url": "https://r:8081", "schema.registry.login": "me"}
    connection = Connection(conn_id="k", conn_type="kafka", extra=extra | {"schema.registry.password": "hunter2"})
    assert check_connection(connection) == []
    registry = registry_connection(connection)
    assert registry is not None
    assert (registry.host, registry.password and registry.password.get_secret_value()) == ("https://r:8081", "hunter2")
    source = KafkaSource(topics=["t"], value_converter="avro", columns={"n": "double"})
    assert source.check(connection) == []
    without = Connection(conn_id="k", conn_type="kafka", extra={"bootstrap.servers": "k:9092"})
    assert "converter 'avro' needs schema.registry.url" in source.check(without)[0]
    for change in ({"schema.registry.password": None}, {"schema.registry.url": "ftp://r"}, {"schema.registry.x": "1"}):
        assert source.check(connection.model_copy(update={"extra": connection.extra | change}))


@pytest.mark.parametrize("size", [None, 8])
def test_a_decimal_with_more_digits_than_its_schema_says_is_not_rounded(size: int | None) -> None:
    kind: dict[str, Any] = {"type": "bytes"} if size is None else {"type": "fixed", "name": "F", "size": size}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "d", "type": kind | {"logicalType": "decimal", "precision": 4, "scale": 2}}],
    }
    read, _ = reader(registered(schema))
    number = (123456).to_bytes(size or 3, "big")
    head = b"" if size else bytes([2 * len(number)])
    assert read(b"\0\0\0\0\7" + head + number) == b'{"d":1234.56}'
