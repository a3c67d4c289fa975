"""Posts of X through Spark into Kafka with a registry: what Confluent's reader finds there, and by which names."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from airflow_provider_connect.connection import Connection
from tests.equipment.kafka.fixtures import Target, records
from tests.equipment.kafka.registry import SchemaRegistry
from tests.equipment.x import QUERIES, connection
from tests.integration.conftest import Submitter
from tests.standins.x.posts import Timeline
from tests.standins.x.server import StandIn

pytestmark = pytest.mark.slow


def test_posts_are_connect_x_post_and_their_keys_the_posts_ids(
    submit: Submitter, kafka_target: Target, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka_target.sink.topic
    submit.source_name, submit.sink_name = "x_search", "kafka"
    submit.sink_connections = kafka_target.connections | {
        "registry": Connection(conn_id="registry", conn_type="http", host=registry.url)
    }
    options = {
        "topic": topic,
        "ledger_topic": kafka_target.sink.ledger_topic,
        "key_fields": ["id"],
        "value_converter": "avro",
        "key_converter": "avro",
        "registry_conn_id": "registry",
    }
    monkeypatch.setattr(submit, "sink_options", lambda: options)
    with StandIn(Timeline(seed=9, posts_per_day=80, gone_references_per_day=5)) as x:
        day = x.now().date() - dt.timedelta(days=40)
        ended = submit.here([str(day)], source={"queries": QUERIES}, connection=connection(x))
        assert ended.report.exit_code == 0, ended.output
        truth = x.timeline.truth(day, *QUERIES)
    with SchemaRegistryClient({"url": registry.url, "timeout": 10}) as client:
        names = {}
        for part in ("key", "value"):
            schema = json.loads(client.get_latest_version(f"{topic}-{part}").schema.schema_str or "")
            names[part] = f"{schema['namespace']}.{schema['name']}"
        assert names == {"key": "connect.x.PostKey", "value": "connect.x.Post"}
        read = AvroDeserializer(client)
        found = {}
        for record in records(kafka_target.bootstrap, topic):
            key = read(record.key, SerializationContext(topic, MessageField.KEY))
            value = read(record.value, SerializationContext(topic, MessageField.VALUE))
            assert key == {"id": value["id"]}
            assert json.loads(value["post"])["id"] == value["id"]
            found[value["id"]] = value["queries"]
    assert len(found) == len(truth)
    assert found == truth
