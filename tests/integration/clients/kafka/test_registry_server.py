"""The registry that tests run on: what it does as Confluent's would, and what must be set for that."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tests.equipment.kafka.registry import fetched

pytestmark = pytest.mark.slow


def avro(**fields):
    return Schema(
        json.dumps(
            {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
        ),
        "AVRO",
    )


def test_the_registry_registers_schemas_and_refuses_incompatible_ones(registry):
    with SchemaRegistryClient({"url": registry.url}) as client:
        first = client.register_schema("topic-value", avro(a="string"))
        assert client.get_schema(first).schema_type == "AVRO"
        assert client.test_compatibility("topic-value", avro(a="int"))
        client.set_compatibility("topic-value", "BACKWARD")
        assert not client.test_compatibility("topic-value", avro(a="int"))
        with pytest.raises(SchemaRegistryError) as refused:
            client.register_schema("topic-value", avro(a="int"))
        assert refused.value.http_status_code == 409


def test_without_a_network_the_message_says_what_is_missing(tmp_path):
    with pytest.raises(RuntimeError, match="need Apicurio Registry"):
        fetched(tmp_path / "registry", "http://127.0.0.1:1/nothing")
    assert not (tmp_path / "registry" / "installed.txt").exists()
