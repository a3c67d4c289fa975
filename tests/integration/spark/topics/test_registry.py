"""Records of a schema registry into a table: a real broker and a real registry."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.values.protobuf.text import parse_file
from tests.equipment.kafka.loads import Loads, Topic
from tests.equipment.kafka.registry import SchemaRegistry

pytestmark = pytest.mark.slow


@pytest.fixture
def loads(loads: Loads, registry: SchemaRegistry, kafka_connection: Connection) -> Loads:
    """Return loads whose connection names the registry."""
    extra = kafka_connection.extra | {"schema.registry.url": registry.url}
    loads.connection = kafka_connection.model_copy(update={"extra": extra})
    return loads


def rows_of(loads: Loads) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(loads.submit.table)).to_pyarrow_table().to_pylist()
    return rows


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def test_avro_of_several_schema_versions(
    loads: Loads, topic: Topic, registry: SchemaRegistry, kafka_connection: Connection
) -> None:
    loads.connection = kafka_connection.model_copy(
        update={"extra": kafka_connection.extra | {"schema.registry.url": registry.url}}
    )
    at = dt.datetime(2026, 11, 1, 12, 30, 0, 123456, dt.UTC)
    context = SerializationContext(topic.name, MessageField.VALUE)
    newer = AVRO | {"fields": [*AVRO["fields"], {"name": "extra", "type": "int", "default": 0}]}
    with SchemaRegistryClient({"url": registry.url}) as client:
        for number, schema in enumerate((AVRO, newer)):
            encode = AvroSerializer(client, json.dumps(schema))
            row = {"id": number, "note": None, "amount": Decimal("12.50"), "at": at, "tags": ["a", "b"], "extra": 1}
            topic.producer.produce(topic.name, encode(row, context), str(number))
    topic.producer.produce(topic.name, None, "0")
    assert topic.producer.flush(30) == 0
    columns = {"id": "bigint", "note": "string", "amount": "decimal(12,2)", "at": "timestamp", "tags": "json"}
    loads.load(value_converter="avro", columns=columns)
    rows = DeltaTable(str(loads.submit.table)).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["amount"], row["at"], row["tags"]) for row in rows if not row["kafka_delete"]) == [
        (number, Decimal("12.50"), at, '["a","b"]') for number in (0, 1)
    ]
    topic.producer.produce(topic.name, b'{"id": 1}', "1")
    assert topic.producer.flush(30) == 0
    assert "the record has no schema id" in loads.refusal(value_converter="avro", columns=columns)
    topic.producer.produce(topic.name, b"\0\0\x0f\xff\xff" + b"x", "2")
    assert topic.producer.flush(30) == 0
    tolerant = {"value_converter": "avro", "columns": columns, "errors_tolerance": "all", "retry_budget_seconds": 0}
    assert "does not know schema 1048575" in loads.refusal(**tolerant)


def test_avro_that_refers_to_other_schemas(loads: Loads, topic: Topic, registry: SchemaRegistry) -> None:
    money = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
    order = {
        "type": "record",
        "name": "shop.Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": ["null", "shop.Money"]}],
    }
    refund = {"type": "record", "name": "shop.Refund", "fields": [{"name": "id", "type": "long"}]}
    context, own = SerializationContext(topic.name, MessageField.VALUE), uuid.uuid4().hex
    with SchemaRegistryClient({"url": registry.url}) as client:
        client.register_schema(f"money-{own}", Schema(json.dumps(money), "AVRO"))
        to_money = SchemaReference("shop.Money", f"money-{own}", 1)
        client.register_schema(f"order-{own}", Schema(json.dumps(order), "AVRO", [to_money]))
        client.register_schema(f"refund-{own}", Schema(json.dumps(refund), "AVRO"))
        references = [
            SchemaReference("shop.Order", f"order-{own}", 1),
            SchemaReference("shop.Refund", f"refund-{own}", 1),
        ]
        union = Schema(json.dumps(["shop.Order", "shop.Refund"]), "AVRO", references)
        for schema, rows in (
            (Schema(json.dumps(order), "AVRO", [to_money]), [{"id": 1, "price": {"cents": 250}}]),
            (union, [("shop.Order", {"id": 2, "price": None}), ("shop.Refund", {"id": 3})]),
        ):
            encode = AvroSerializer(client, schema)
            for row in rows:
                topic.producer.produce(topic.name, encode(row, context), "k")
    assert topic.producer.flush(30) == 0
    loads.load(value_converter="avro", columns={"id": "bigint", "price": "json"})
    assert sorted((row["id"], row["price"]) for row in rows_of(loads)) == [(1, '{"cents":250}'), (2, None), (3, None)]


MONEY = """
syntax = "proto3";
package shop;
enum Kind { GROSS = 0; NET = 1; }
message Money { int64 cents = 1; Kind kind = 2; }
"""
ORDER = """
syntax = "proto3";
package shop;
import "money.proto";
import "google/protobuf/timestamp.proto";
message Other { int32 x = 1; }
message Order {
  message Line { string name = 1; float weight = 2; }
  int64 id = 1;
  Money price = 2;
  google.protobuf.Timestamp at = 3;
  repeated Line lines = 4;
  map<string, int32> stock = 5;
  optional string note = 6;
  oneof way { string post = 7; int32 store = 8; }
}
"""


def test_protobuf_with_imports_and_several_messages(loads: Loads, topic: Topic, registry: SchemaRegistry) -> None:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for name, text in (("money.proto", MONEY), ("order.proto", ORDER)):
        file = parse_file(text)
        file.name = name
        pool.AddSerializedFile(file.SerializeToString())
    order, line = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("shop.Order", "shop.Order.Line")
    )
    at = dt.datetime(2026, 11, 1, 12, 30, 0, 123456, dt.UTC)
    full = order(id=1, price={"cents": 250, "kind": 1}, lines=[{"name": "a", "weight": 0.1}], stock={"x": 2}, store=0)
    full.at.FromDatetime(at)
    context = SerializationContext(topic.name, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        encode = ProtobufSerializer(order, client)
        for message in (full, order(id=2, note="", post="home")):
            topic.producer.produce(topic.name, encode(message, context), "k")
        topic.producer.produce(topic.name, ProtobufSerializer(line, client)(line(name="b"), context), "k")
        own = uuid.uuid4().hex
        client.register_schema(f"money-{own}", Schema(MONEY, "PROTOBUF"))
        as_text = Schema(ORDER, "PROTOBUF", [SchemaReference("money.proto", f"money-{own}", 1)])
        schema_id = client.register_schema(f"order-{own}", as_text)
    body = order(id=3, price={"cents": 1}).SerializeToString()
    topic.producer.produce(topic.name, b"\0" + schema_id.to_bytes(4, "big") + b"\x02\x02" + body, "k")
    assert topic.producer.flush(30) == 0
    columns = {"id": "bigint", "price": "json", "at": "timestamp", "lines": "json", "stock": "json", "note": "string"}
    loads.load(value_converter="protobuf", columns=columns | {"post": "string", "store": "bigint", "name": "string"})
    rows = {row["id"]: tuple(row[name] for name in (*columns, "post", "store", "name")) for row in rows_of(loads)}
    assert rows == {
        1: (1, '{"cents":250,"kind":"NET"}', at, '[{"name":"a","weight":0.1}]', '{"x":2}', None, None, 0, None),
        2: (2, None, None, "[]", "{}", "", "home", None, None),
        3: (3, '{"cents":1,"kind":"GROSS"}', None, "[]", "{}", None, None, None, None),
        None: (*[None] * 8, "b"),
    }
    topic.producer.produce(topic.name, b"\0" + schema_id.to_bytes(4, "big") + b"\x02\x08" + body, "k")
    assert topic.producer.flush(30) == 0
    message = loads.refusal(value_converter="protobuf", columns=columns)
    assert "names a message type that its Protobuf schema does not have" in message
