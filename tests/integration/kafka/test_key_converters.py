"""Keys with a schema on a real broker and a real registry: Confluent's own readers, tombstones and compaction."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from pathlib import Path
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
from tests.equipment.frozen import MONDAY, TUESDAY
from tests.equipment.kafka.registry import SchemaRegistry
from tests.equipment.kafka.scene import Scene, scene_of
from tests.standins.kafka_broker import KafkaBroker
from tests.unit.values.test_protobuf import message_class

pytestmark = pytest.mark.slow

ROWS = pa.schema(
    [
        pa.field("record_key", pa.string(), nullable=False),
        pa.field("shop", pa.string()),
        pa.field("item", pa.int64()),
        pa.field("gone", pa.bool_()),
    ]
)
KINDS = ["avro", "json_schema", "protobuf"]


@pytest.fixture
def scene(broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path) -> Scene:
    made = scene_of(broker.bootstrap, tmp_path)
    made.connections["registry"] = Connection(conn_id="registry", conn_type="http", host=registry.url)
    options = {"key_fields": ("shop", "item"), "delete_where": "gone", "cleanup": "compact"}
    return made.having(ROWS, registry_conn_id="registry", key_converter="avro", **options)


@pytest.fixture
def client(registry: SchemaRegistry) -> Any:
    with SchemaRegistryClient({"url": registry.url, "timeout": 10}) as opened:
        yield opened


def shelf(*rows: tuple[str | None, int | None, bool]) -> pa.Table:
    cells = [{"record_key": f"{shop}-{item}", "shop": shop, "item": item, "gone": gone} for shop, item, gone in rows]
    return pa.Table.from_pylist(cells, schema=ROWS)


def reader(name: str, client: SchemaRegistryClient, topic: str) -> Any:
    """Return Confluent's own reader of a topic's keys, which gives shop and item."""
    subject = f"{topic}-key"
    shop_and_item = attrgetter("shop", "item") if name == "protobuf" else itemgetter("shop", "item")
    if name == "protobuf":
        text = client.get_latest_version(subject).schema.schema_str or ""
        [message] = [line.split()[1] for line in text.splitlines() if line.startswith("message ")]
        read: Any = ProtobufDeserializer(message_class(text, f"connect.{message}"), {"use.deprecated.format": False})
    else:
        read = AvroDeserializer(client) if name == "avro" else JSONDeserializer(None, schema_registry_client=client)
    return lambda key: shop_and_item(read(key, context(topic)))


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.KEY)


@pytest.mark.parametrize("name", KINDS)
def test_confluents_readers_get_the_keys_and_tombstones_bury_the_same_ones(
    scene: Scene, client: SchemaRegistryClient, name: str
) -> None:
    keyed = scene.having(ROWS, key_converter=name)
    assert keyed.preflight(MONDAY, TUESDAY) == []
    keyed.publish(keyed.stage(MONDAY, shelf(("Zürich", 1, False), ("Zürich", 2, False))))
    subject, topic = f"{keyed.sink.topic}-key", keyed.sink.topic
    newest = client.get_latest_version(subject).schema
    client.register_schema(subject, Schema((newest.schema_str or "").replace("Key", "AnotherKey"), newest.schema_type))
    again = keyed.having(ROWS, schema_registration="use_latest")
    assert again.preflight(TUESDAY) == []
    again.publish(again.stage(TUESDAY, shelf(("Zürich", 2, True), ("Zürich", 1, False)), order=2))
    assert client.get_versions(subject) == [1, 2]
    found = keyed.records()
    read = reader(name, client, topic)
    by_row = {
        read(record.key): {other.key for other in found if read(other.key) == read(record.key)} for record in found
    }
    assert {row: len(keys) for row, keys in by_row.items()} == {("Zürich", 1): 1, ("Zürich", 2): 1}
    assert [read(record.key) for record in found if record.value is None] == [("Zürich", 2)]
    assert {record.headers["connect.event_id"] for record in found} == {"Zürich-1", "Zürich-2"}


def test_keys_that_are_written_by_another_schema_are_refused_before_the_poll(
    scene: Scene, client: SchemaRegistryClient
) -> None:
    assert scene.preflight() == []
    scene.publish(scene.stage(MONDAY, shelf(("a", 1, False))))
    for other, why in (
        ({"key_fields": ("shop", "record_key")}, "field record_key"),
        ({"key_converter": "protobuf"}, "AVRO"),
    ):
        changed = scene.having(ROWS, **other)
        [problem] = changed.preflight()
        assert f"subject '{scene.sink.topic}-key': no version holds the keys" in problem
        assert why in problem
        with pytest.raises(DataError, match="no version holds the keys"):
            changed.publish(changed.stage(TUESDAY, shelf(("a", 1, False)), order=2))
    assert client.get_versions(f"{scene.sink.topic}-key") == [1]


def test_values_and_keys_may_both_have_schemas(scene: Scene, client: SchemaRegistryClient) -> None:
    both = scene.having(ROWS, value_converter="avro", key_converter="json_schema", subject_strategy="record")
    assert both.preflight() == []
    both.publish(both.stage(MONDAY, shelf(("a", 1, False))))
    [record] = both.records()
    assert reader("json_schema", client, both.sink.topic)(record.key) == ("a", 1)
    value = AvroDeserializer(client)(record.value, SerializationContext(both.sink.topic, MessageField.VALUE))
    assert value == {"record_key": "a-1", "shop": "a", "item": 1, "gone": False}
