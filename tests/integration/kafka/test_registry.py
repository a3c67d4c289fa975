"""A real schema registry: what is registered there, and Confluent's own readers on what was written by it."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._kafka.converters import make_converter
from airflow_provider_connect.sinks._kafka.schema_resolver import SchemaResolver, value_subject
from airflow_provider_connect.values.converters import SchemaRef
from tests.equipment.kafka.registry import SchemaRegistry
from tests.unit.values.test_protobuf import message_class

pytestmark = pytest.mark.slow

DAY = dt.date(2026, 10, 1)
NAME = "connect.Events"
AT = dt.datetime(2026, 10, 1, 12, 30, 0, 123456, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        pa.field("event", pa.string(), nullable=False),
        pa.field("$os", pa.string()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("where", pa.struct([("city", pa.string()), ("point", pa.list_(pa.float64()))])),
        pa.field("counts", pa.map_(pa.string(), pa.int64())),
        pa.field("raw", pa.binary()),
        pa.field("properties", pa.string(), metadata={"json": "checked"}),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        "event": "Größe",
        "$os": "x",
        "at": AT,
        "price": Decimal("-12.50"),
        "tags": ["a", "b"],
        "where": {"city": "Zürich", "point": [1.5, -2.0]},
        "counts": {"k": -1},
        "raw": b"\x00\xff",
        "properties": '{"a":[1,null]}',
    },
    dict.fromkeys(SCHEMA.names) | {"event": "", "tags": [], "counts": {}},
]
KINDS = ["avro", "json_schema", "protobuf"]


def batch_of(schema: pa.Schema = SCHEMA, rows: list[dict[str, Any]] = ROWS) -> pa.RecordBatch:
    plain = [{**row, **({"counts": list(row["counts"].items())} if "counts" in row else {})} for row in rows]
    return pa.RecordBatch.from_pylist(plain, schema=schema)


@pytest.fixture(scope="module")
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url, "timeout": 10}) as opened:
        yield opened


@pytest.fixture
def ours(registry: SchemaRegistry) -> Iterator[SchemaResolver]:
    connection = Connection(conn_id="registry_default", conn_type="http", host=registry.url)
    with closing(SchemaResolver(connection, 10, "auto_register")) as opened:
        yield opened


@pytest.fixture
def topic() -> str:
    return f"events-{uuid.uuid4().hex}"


def resolve(
    ours: SchemaResolver, name: str, topic: str, schema: pa.Schema = SCHEMA, how: Any = "auto_register"
) -> SchemaRef:
    made = make_converter(name, schema, DAY, record_name=NAME)
    document, kind = made.document, made.kind
    assert document is not None
    assert kind is not None
    ours.registration = how
    return ours.value_schema(value_subject("topic", topic, NAME), document, kind)


def written(name: str, ref: SchemaRef, schema: pa.Schema = SCHEMA, rows: list[dict[str, Any]] = ROWS) -> list[bytes]:
    assert make_converter(name, schema, None, record_name=NAME).problems() == []
    found = make_converter(name, schema, DAY, record_name=NAME).encode(batch_of(schema, rows), ref)
    assert found.refused == {}
    return [value for value in found.values if value is not None]


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_confluents_avro_reader_gets_the_rows(client: SchemaRegistryClient, ours: SchemaResolver, topic: str) -> None:
    ref = resolve(ours, "avro", topic)
    read = AvroDeserializer(client)
    found = [read(value, context(topic)) for value in written("avro", ref)]
    named = [{"_os_x1db487e958" if name == "$os" else name: value for name, value in row.items()} for row in ROWS]
    assert found == [{"day": DAY, **row} for row in named]


def test_confluents_json_reader_gets_the_rows(client: SchemaRegistryClient, ours: SchemaResolver, topic: str) -> None:
    ref = resolve(ours, "json_schema", topic)
    read = JSONDeserializer(None, schema_registry_client=client)  # it validates against the registered schema
    first, second = (read(value, context(topic)) for value in written("json_schema", ref))
    assert first == {
        "day": "2026-10-01",
        **ROWS[0],
        "at": "2026-10-01T12:30:00.123456Z",
        "price": -12.5,
        "raw": "AP8=",
        "properties": {"a": [1, None]},
    }
    assert second == {"day": "2026-10-01", **ROWS[1]}


def test_confluents_protobuf_reader_gets_the_rows(
    client: SchemaRegistryClient, ours: SchemaResolver, topic: str
) -> None:
    ref = resolve(ours, "protobuf", topic)
    cls = message_class(client.get_schema(ref.id).schema_str or "")
    # Without the registry, which Apicurio's does not answer as Confluent's: with source text for format=serialized.
    read = ProtobufDeserializer(cls, {"use.deprecated.format": False})
    first, second = (read(value, context(topic)) for value in written("protobuf", ref))
    assert (first.day, first.event, first._os_x1db487e958) == ("2026-10-01", "Größe", "x")
    assert first.at.ToDatetime(tzinfo=dt.UTC) == AT
    assert (first.price, list(first.tags), first.raw) == ("-12.50", ["a", "b"], b"\x00\xff")
    assert (first.where.city, list(first.where.point)) == ("Zürich", [1.5, -2.0])
    assert [(entry.key, entry.value) for entry in first.counts] == [("k", -1)]
    assert first.properties == '{"a":[1,null]}'
    assert [field.name for field, _ in second.ListFields()] == ["day", "event"]


@pytest.mark.parametrize("name", KINDS)
def test_a_schema_is_registered_once(ours: SchemaResolver, client: SchemaRegistryClient, name: str, topic: str) -> None:
    first = resolve(ours, name, topic)
    assert resolve(ours, name, topic) == first
    assert (first.subject, first.version) == (f"{topic}-value", 1)
    assert client.get_versions(first.subject) == [1]


WIDER = SCHEMA.append(pa.field("new", pa.int64()))
CHANGED = SCHEMA.set(1, pa.field("$os", pa.int64()))


@pytest.mark.parametrize("name", KINDS)
def test_a_new_column_is_a_new_version(
    ours: SchemaResolver, client: SchemaRegistryClient, name: str, topic: str
) -> None:
    first = resolve(ours, name, topic)
    client.set_compatibility(first.subject, "BACKWARD")
    second = resolve(ours, name, topic, WIDER)
    assert (second.version, second.id != first.id) == (2, True)
    rows = [{**row, "new": 5} for row in ROWS]
    assert len(written(name, second, WIDER, rows)) == 2


@pytest.mark.parametrize("name", KINDS)
def test_an_incompatible_change_names_its_field(
    ours: SchemaResolver, client: SchemaRegistryClient, name: str, topic: str
) -> None:
    first = resolve(ours, name, topic)
    client.set_compatibility(first.subject, "BACKWARD")
    with pytest.raises(DataError, match=rf"{topic}-value.*incompatible: field (_os_x1db487e958|\$os): "):
        resolve(ours, name, topic, CHANGED)
    assert client.get_versions(first.subject) == [1]


def test_protobuf_numbers_go_on_from_the_newest_version(
    client: SchemaRegistryClient, ours: SchemaResolver, topic: str
) -> None:
    first = resolve(ours, "protobuf", topic)
    client.set_compatibility(first.subject, "BACKWARD")
    wider = pa.schema([pa.field("new", pa.int64()), *SCHEMA])
    second = resolve(ours, "protobuf", topic, wider)
    assert (second.version, resolve(ours, "protobuf", topic, wider), resolve(ours, "protobuf", topic)) == (
        2,
        second,
        first,
    )
    read = ProtobufDeserializer(
        message_class(client.get_schema(second.id).schema_str or ""), {"use.deprecated.format": False}
    )
    before, after = (
        read(written("protobuf", ref, schema, rows)[0], context(topic))
        for ref, schema, rows in ((first, SCHEMA, ROWS), (second, wider, [{**row, "new": 5} for row in ROWS]))
    )
    assert (before.event, before.price, before.HasField("new")) == ("Größe", "-12.50", False)
    assert (after.event, after.price, after.new) == ("Größe", "-12.50", 5)
    assert "new = 11;" in (client.get_schema(second.id).schema_str or "")
    with pytest.raises(DataError, match="incompatible: field _os_x1db487e958: "):
        resolve(ours, "protobuf", topic, CHANGED)


Read = Callable[[bytes], Any]


def test_values_are_written_by_the_newest_schema_as_it_is(
    client: SchemaRegistryClient, ours: SchemaResolver, topic: str
) -> None:
    other = """{"type": "record", "name": "Theirs", "namespace": "other", "fields": [
        {"name": "n", "type": ["long", "null"]},
        {"name": "theirs", "type": ["null", "string"], "default": null},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "event", "type": "string"}]}"""
    registered = client.register_schema(f"{topic}-value", Schema(other, "AVRO"))
    schema = pa.schema([pa.field("event", pa.string(), nullable=False), pa.field("n", pa.int32())])
    ref = resolve(ours, "avro", topic, schema, "use_latest")
    assert (ref.id, ref.version) == (registered, 1)
    (value,) = written("avro", ref, schema, [{"event": "x", "n": 5}])
    assert AvroDeserializer(client)(value, context(topic)) == {"day": DAY, "event": "x", "n": 5, "theirs": None}
    with pytest.raises(DataError, match="cannot hold the rows: field more"):
        resolve(ours, "avro", topic, schema.append(pa.field("more", pa.int8())), "use_latest")


@pytest.mark.parametrize("name", KINDS)
def test_our_own_newest_schema_is_one_to_use(ours: SchemaResolver, name: str, topic: str) -> None:
    first = resolve(ours, name, topic)
    again = resolve(ours, name, topic, how="use_latest")
    assert (again.id, again.version) == (first.id, 1)
    assert written(name, again) == written(name, first)
