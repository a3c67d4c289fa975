"""The options of the Kafka sink: what is refused, all at once, and what follows from them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.stage.manifest import StagedFile

PASSWORD = "canary'pass\"{{ 9c1e"
FILES = tuple(StagedFile(path=f"{number}", rows=1, size_bytes=1) for number in range(3))


def sink(**options: Any) -> KafkaSink:
    return KafkaSink(**{"topic": "events"} | options)


def refused(**options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        sink(**options)
    return str(caught.value)


def test_an_unknown_option_gets_the_nearest_name_and_every_wrong_option_is_told_at_once() -> None:
    text = refused(key_field=("a",), delivry="exactly_once", cleanup="shred", partitions=0, timeout_seconds=-1)
    assert "key_field: unknown option; did you mean 'key_fields'?" in text
    assert "delivry: unknown option; did you mean 'delivery'?" in text
    assert "cleanup: Input should be 'delete' or 'compact'" in text
    assert "partitions: " in text
    assert "timeout_seconds: " in text
    assert "shred" not in text


def test_options_that_do_not_go_together_are_told_at_once() -> None:
    text = refused(
        delivery="at_least_once",
        atomicity="partition",
        value_field="event",
        value_converter="avro",
        key_fields=(),
        delete_where="gone",
    )
    assert "atomicity: only with delivery='exactly_once'" in text
    assert "value_field belongs to value_converter='string' or 'bytes'" in text
    assert "registry_conn_id belongs to value_converter avro, json_schema, protobuf" in text
    assert "need key_fields" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value_converter": "string"}, "value_field belongs to"),
        ({"value_field": "event"}, "value_field belongs to"),
        ({"registry_conn_id": "registry"}, "registry_conn_id belongs to"),
        ({"key_fields": (), "cleanup": "compact"}, "need key_fields"),
        ({"topic": "no spaces"}, "no legal topic name"),
        ({"topic": "{a}_{b}"}, "names 2 columns"),
        ({"topic": "__consumer_offsets"}, "one of Kafka's internal topics"),
        ({"record_name": "1st"}, "record_name: "),
        ({"record_name": "a.B\u00e9", "value_converter": "avro", "registry_conn_id": "r"}, "record_name: "),
        ({"ledger_topic": "a b"}, "ledger_topic: 'a b' is no legal topic name"),
        (
            {"ledger_topic": "__transaction_state"},
            "ledger_topic: '__transaction_state' is one of Kafka's internal topics",
        ),
        ({"ledger_topic": ".."}, "ledger_topic: '..' is no legal topic name"),
        ({"record_name": "a.B"}, "record_name belongs to value_converter avro, json_schema, protobuf"),
        ({"subject_strategy": "record"}, "subject_strategy belongs to value_converter avro"),
        ({"schema_registration": "use_latest"}, "schema_registration belongs to value_converter avro"),
        ({"max_rejects": 5}, "max_rejects belongs to errors_tolerance='all'"),
        (
            {"value_converter": "avro", "registry_conn_id": "r", "schema_contract": "freeze"},
            "schema_contract belongs to converters without a registry",
        ),
        ({"dead_letter_topic": "a b"}, "dead_letter_topic: 'a b' is no legal topic name"),
        ({"dead_letter_topic": "events"}, "three different topics"),
        ({"ledger_topic": "events"}, "three different topics"),
        ({"ledger_topic": "l", "dead_letter_topic": "l"}, "three different topics"),
        ({"topic_groups": ({"include": ("(",)},)}, "topic_groups.0.include: no regular expression"),
        ({"transaction_timeout_seconds": 1}, "transaction_timeout_seconds: "),
    ],
)
def test_each_wrong_option_is_refused_with_its_message(options: dict[str, Any], message: str) -> None:
    assert message in refused(**options)


def test_derived_names_follow_the_topic_option() -> None:
    plain = sink(topic="shop.web-events")
    assert plain.target == "kafka://kafka_default/shop.web-events"
    assert (plain.route_column, plain.effective_dead_letter_topic) == (None, "shop.web-events.dead_letters")
    assert plain.default_record_name == "connect.ShopWebEvents"
    template = sink(topic="mixpanel_{$event name}")
    assert template.asset_uri == "kafka://kafka_default/mixpanel_%7B%24event%20name%7D"
    assert template.route_column == "$event name"
    envelope = {"value_converter": "json_schema_envelope"}
    assert sink(record_name="com.example.Event", **envelope).default_record_name == "com.example.Event"


def test_a_source_may_name_its_record() -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False)], {"record_name": "connect.x.Post"})
    registered: dict[str, Any] = {"key_fields": ("id",), "value_converter": "avro", "key_converter": "avro"}
    registered |= {"registry_conn_id": "registry"}
    plain = sink(topic="posts", **registered)
    assert plain.record_name_for(schema) == "connect.x.Post"
    assert plain.record_name_for(schema.remove_metadata()) == "connect.Posts"
    assert (
        sink(topic="posts", record_name="com.example.Post", **registered).record_name_for(schema) == "com.example.Post"
    )
    key = plain.key_encoder_for(schema).converter
    assert key is not None
    assert '"PostKey"' in key.document
    assert '"connect.x"' in key.document


@pytest.mark.parametrize("topic", ["{$event}", "mixpanel_{a b}", "1st_{day!}"])
def test_names_that_are_made_of_a_template_are_legal(topic: str) -> None:
    made = sink(topic=topic)
    again = sink(
        topic=made.effective_dead_letter_topic,
        record_name=made.default_record_name,
        value_converter="json_schema_envelope",
    )
    assert again.topic == made.effective_dead_letter_topic


def test_shares_are_the_day_or_its_files() -> None:
    def shares(files: tuple[StagedFile, ...], **options: Any) -> list[tuple[StagedFile, ...]]:
        connections = {"kafka_default": Connection(conn_id="kafka_default", conn_type="kafka")}
        return sink(**options).open(StreamKey(connector="c", stream="s"), connections).shares(files)

    assert shares(FILES) == [FILES]
    assert shares(()) == [()]
    each = [(file,) for file in FILES]
    assert shares(FILES, atomicity="partition") == each
    assert shares(FILES, delivery="at_least_once") == each
    assert shares((), atomicity="partition") == []


def test_connections_are_named_and_checked_together() -> None:
    made = sink(value_converter="avro", registry_conn_id="registry")
    assert made.connection_ids == ("kafka_default", "registry")
    assert sink().connection_ids == ("kafka_default",)
    wrong = {
        "kafka_default": Connection(
            conn_id="kafka_default",
            conn_type="kafka",
            password=PASSWORD,
            extra={"bootstrap.server": "h:1", "enable.idempotence": "false", "sasl.password": PASSWORD},
        ),
        "registry": Connection(conn_id="registry", host=f"http://user:{PASSWORD}@h:1", extra={"ssl.ca": "x"}),
    }
    problems = made.check(wrong)
    assert len(problems) >= 4
    text = "\n".join(problems)
    assert "'bootstrap.servers'" in text
    assert "enable.idempotence" in text
    assert "connection 'registry'" in text
    assert PASSWORD not in text


def test_options_travel_as_json() -> None:
    made = sink(topic_groups=({"include": ("a.*",), "partitions": 3},), topic_config={"retention.ms": "-1"})
    assert KafkaSink.from_options(made.serialize()) == made
    assert made.topic_rules.settings_for("ab").partitions == 3
    assert made.topic_rules.settings_for("b").config == {"cleanup.policy": "delete", "retention.ms": "-1"}


@pytest.mark.parametrize("kind", ["day", "snapshot", "increment"])
def test_another_key_doubles_rows_only_where_the_records_key_decides(kind: Any) -> None:
    assert sink(cleanup="compact").identifies_by_key(kind)
    assert sink(cleanup="compact", deletes="soft").identifies_by_key(kind)
    assert sink(cleanup="compact", key_fields=("tenant", "record_key")).identifies_by_key(kind)
    assert not sink().identifies_by_key(kind)
    assert not sink(cleanup="compact", key_fields=("user_id",)).identifies_by_key(kind)
