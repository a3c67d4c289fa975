"""The whole Kafka sink on a real broker: what a record is, which topics there are, what is refused."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._kafka.topic_names import topic_names as names_of
from tests.equipment.frozen import MONDAY, TUESDAY, events
from tests.equipment.kafka.bench import make_topic, set_topic
from tests.equipment.kafka.registry import SchemaRegistry
from tests.equipment.kafka.scene import Scene, scene_of
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

NOON = dt.datetime(2026, 10, 5, 12, 0, 0, 250_000, tzinfo=dt.UTC)
ROW_SCHEMA = pa.schema(
    [
        pa.field("event", pa.string()),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("n", pa.int64()),
        pa.field("gone", pa.bool_()),
        pa.field("record_key", pa.string()),
    ]
)
NOT_A_NUMBER = pa.schema([pa.field("event", pa.string()), pa.field("x", pa.float64())])


@pytest.fixture
def scene(broker: KafkaBroker, tmp_path: Path) -> Scene:
    return scene_of(broker.bootstrap, tmp_path)


@pytest.fixture
def registered(scene: Scene, registry: SchemaRegistry) -> Scene:
    """The same with a schema registry."""
    scene.connections["registry"] = Connection(conn_id="registry", conn_type="http", host=registry.url)
    return scene.having(value_converter="avro", registry_conn_id="registry")


def rows(*given: tuple[Any, ...], schema: pa.Schema = ROW_SCHEMA) -> pa.Table:
    columns = zip(*given, strict=True) if given else [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def floats(*numbers: float) -> pa.Table:
    return rows(*((f"e{place}", number) for place, number in enumerate(numbers)), schema=NOT_A_NUMBER)


NAN = float("nan")


# Records


def test_a_record_carries_key_value_headers_and_its_events_time(scene: Scene) -> None:
    forever = {"retention.ms": "-1"}
    sink = scene.having(ROW_SCHEMA, key_fields=("event", "n"), timestamp_field="time", topic_config=forever)
    assert sink.preflight() == []
    table = rows(("a", NOON, 1, None, "k1"), ("b", None, 2, None, None))
    row = sink.publish(sink.stage(MONDAY, rows(("z", NOON, 0, None, "k0")), table))
    assert row.rows == 3
    found = {record.key: record for record in sink.records()}
    assert set(found) == {b'["z",0]', b'["a",1]', b'["b",2]'}
    first, second = found[b'["a",1]'], found[b'["b",2]']
    assert first.headers == {
        "connect.connector": "conformance",
        "connect.stream": "events",
        "connect.day": "2026-10-05",
        "connect.generation": "1",
        "connect.event_id": "k1",
        "connect.position": str(1 << 40),
    }
    assert (second.headers["connect.event_id"], second.headers["connect.position"]) == ("", str((1 << 40) + 1))
    assert first.timestamp == int(NOON.timestamp() * 1000)
    now = dt.datetime.now(dt.UTC).timestamp() * 1000
    assert abs(second.timestamp - now) < 60_000
    value = {"day": "2026-10-05", "event": "a", "time": "2026-10-05T12:00:00.250000Z", "n": 1, "gone": None}
    assert json.loads(first.value or b"") == value | {"record_key": "k1"}


def test_records_without_a_key_and_without_headers(scene: Scene) -> None:
    sink = scene.connecting(compression__type="zstd").having(key_fields=(), headers=False, partitions=2)
    assert sink.preflight() == []
    assert sink.publish(sink.stage(MONDAY, events(*map(str, range(500))))).rows == 500
    found = sink.records()
    assert [(record.key, record.headers) for record in found] == [(None, {})] * 500
    assert {json.loads(record.value or b"")["event"] for record in found} == set(map(str, range(500)))


def test_deleted_rows_are_tombstones_with_headers(scene: Scene) -> None:
    sink = scene.having(ROW_SCHEMA, delete_where="gone", key_fields=("record_key",), cleanup="compact")
    assert sink.preflight() == []
    staged = sink.stage(MONDAY, rows(("a", NOON, 1, False, "k1"), ("b", NOON, 2, True, "k2")))
    row = sink.publish(staged)
    assert (row.rows, row.counts["tombstones"]) == (2, 1)
    found = {record.key: record for record in sink.records()}
    assert found[b"k1"].value
    assert found[b"k2"].value is None
    assert found[b"k2"].headers["connect.event_id"] == "k2"


# Topics


def test_a_topic_of_each_event_in_one_transaction(scene: Scene) -> None:
    sink = scene.having(
        ROW_SCHEMA, topic=f"{scene.name}-{{event}}", topic_groups=({"include": (".*-big",), "partitions": 4},)
    )
    assert sink.preflight() == []
    assert sink.topics() == {sink.sink.ledger_topic}
    names = ["big", "a.b", "a_b", "a b", "Ärger", "null", None]
    row = sink.publish(sink.stage(MONDAY, rows(*((name, NOON, 1, None, str(name)) for name in names))))
    assert row.rows == len(names)
    made = names_of(sink.sink.topic, names)
    assert len(set(made.values())) == len(names)
    assert sink.topics() == set(made.values()) | {sink.sink.ledger_topic}
    for name, topic in made.items():
        [value] = sink.values(topic)
        assert value["event"] == name
    assert made["a_b"] == f"{scene.name}-a_b"
    entry = sink.entry()
    assert set(entry["offsets"]) == set(made.values())
    assert len(scene.records(made["big"])) == 1
    # Nothing of a day that fails appears in any of its topics.
    late = pa.array([0, 300_000_000_000_000_000], pa.timestamp("us", "UTC"))
    bad = rows(("big", None, 1, None, "x"), ("new", None, 2, None, "y")).set_column(1, "time", late)
    with pytest.raises(DataError, match="'time'"):
        sink.publish(sink.stage(TUESDAY, bad))
    assert len(scene.records(made["big"])) == 1
    assert scene.records(f"{scene.name}-new") == []


def test_topics_are_made_by_rule_or_named_with_the_command_that_makes_them(scene: Scene) -> None:
    never = scene.having(create_disposition="never", partitions=2)
    problems = never.preflight()
    assert len(problems) == 2
    assert all("create_disposition is 'never': kafka-topics.sh --create --topic" in text for text in problems)
    assert never.topics() == set()
    sink = scene.having(
        partitions=2,
        topic_config={"retention.ms": "-1", "max.message.bytes": "2000000"},
        topic_groups=({"include": (".*-events",), "config": {"compression.type": "zstd"}},),
    )
    assert sink.preflight() == []
    config = sink.config(sink.sink.topic)
    told = ("retention.ms", "max.message.bytes", "compression.type", "cleanup.policy")
    assert [config[name] for name in told] == ["-1", "2000000", "zstd", "delete"]
    assert sink.config(sink.sink.ledger_topic)["cleanup.policy"] == "compact"
    assert sink.publish(sink.stage(MONDAY, events("a"))).rows == 1
    assert scene.having(create_disposition="never").preflight() == []


def test_a_replication_factor_that_the_cluster_has_not(scene: Scene) -> None:
    problems = scene.having(replication_factor=3).preflight()
    assert problems
    assert all("lower replication_factor" in text for text in problems)
    template = scene.having(topic=f"{scene.name}-{{event}}", topic_config={"no.such": "1"})
    assert any("correct topic_config" in text for text in template.preflight())


def test_columns_that_options_name_are_looked_for_at_once(scene: Scene) -> None:
    problems = scene.having(
        topic=f"{scene.name}-{{kind}}", key_fields=("id", "event"), timestamp_field="at", delete_where="gone"
    ).preflight()
    assert [text.partition(":")[0] for text in problems] == ["key_fields", "topic", "timestamp_field", "delete_where"]
    assert all("It has event, n" in text for text in problems)
    problems = scene.having(timestamp_field="n", delete_where="event").preflight()
    assert problems == [
        "timestamp_field: column 'n' holds no timestamps",
        "delete_where: column 'event' holds no booleans",
    ]
    timed = pa.schema([pa.field("event", pa.string()), pa.field("took", pa.duration("s"))])
    assert "'took'" in scene.having(timed).preflight()[0]
    raw = scene.having(timed, value_converter="string", value_field="event", key_fields=("took",))
    assert "'took'" in raw.preflight()[0]
    assert scene.topics() == set()


# Values, with the real registry and Confluent's own readers


def reader(name: str, client: Any) -> Any:
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer

    return AvroDeserializer(client) if name == "avro" else JSONDeserializer(None, schema_registry_client=client)


@pytest.mark.parametrize("name", ["avro", "json_schema"])
def test_values_that_confluents_readers_read(registered: Scene, name: str) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext

    sink = registered.having(ROW_SCHEMA, value_converter=name)
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, rows(("a", NOON, 1, None, "k1"))))
    [record] = sink.records()
    assert record.headers["connect.schema_version"] == "1"
    with SchemaRegistryClient({"url": sink.connections["registry"].host}) as client:
        context = SerializationContext(sink.sink.topic, MessageField.VALUE)
        found = reader(name, client)(record.value, context)
        assert client.get_latest_version(f"{sink.sink.topic}-value").version == 1
    assert (found["event"], found["n"], found["gone"]) == ("a", 1, None)
    assert str(found["day"]) == "2026-10-05"


def test_protobuf_values_are_framed_with_the_registered_schema(registered: Scene) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    sink = registered.having(value_converter="protobuf", subject_strategy="record", record_name="shop.Event")
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("a")))
    [record] = sink.records()
    with SchemaRegistryClient({"url": sink.connections["registry"].host}) as client:
        found = client.get_latest_version("shop.Event")
    assert (record.value or b"")[:6] == b"\0" + found.schema_id.to_bytes(4, "big") + b"\0"
    assert "message Event" in found.schema.schema_str


@pytest.mark.parametrize("name", ["string", "bytes"])
def test_raw_converters_write_the_column_unchanged(scene: Scene, name: str) -> None:
    sink = scene.having(value_converter=name, value_field="event")
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("a")))
    assert [record.value for record in sink.records()] == [b"a"]


def test_values_in_connects_envelope(scene: Scene) -> None:
    sink = scene.having(value_converter="json_schema_envelope")
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("a")))
    [value] = sink.values()
    assert value["payload"]["event"] == "a"
    assert [field["field"] for field in value["schema"]["fields"]] == ["day", "event", "n"]


def test_k13_an_incompatible_schema_fails_before_the_first_record(registered: Scene) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    assert registered.preflight() == []
    registered.publish(registered.stage(MONDAY, events("a")))
    with SchemaRegistryClient({"url": registered.connections["registry"].host}) as client:
        client.set_compatibility(f"{registered.sink.topic}-value", "BACKWARD")
    changed = pa.table({"event": ["b"], "n": ["text"]})
    other = registered.having(changed.schema)
    [problem] = other.preflight()
    assert f"subject '{other.sink.topic}-value'" in problem
    assert "'n'" in problem or " n" in problem
    with pytest.raises(DataError, match="incompatible"):
        other.begin(other.stage(TUESDAY, changed))
    assert len(registered.records(isolation="read_uncommitted")) == 1
    wider = events("c").append_column("more", pa.array([1.5]))
    grown = registered.having(wider.schema)
    assert grown.preflight() == []
    grown.publish(grown.stage(TUESDAY, wider))
    assert sorted(record.headers["connect.schema_version"] for record in grown.records()) == ["1", "2"]


# Rows that are no records


def test_without_tolerance_nothing_of_the_day_is_seen(scene: Scene) -> None:
    sink = scene.having(NOT_A_NUMBER)
    assert sink.preflight() == []
    with pytest.raises(DataError, match=r"1 rows cannot become records .* the first: row 1, column 'x'"):
        sink.publish(sink.stage(MONDAY, floats(1.0, NAN, 2.0)))
    assert (sink.records(), sink.ledger.row(MONDAY)) == ([], None)
    assert sink.publish(sink.stage(MONDAY, floats(1.0), attempt="2")).generation == 1


def test_rows_that_source_or_sink_refuse_are_dead_letters_in_the_same_transaction(scene: Scene) -> None:
    sink = scene.having(NOT_A_NUMBER, errors_tolerance="all", max_rejects=2)
    assert sink.preflight() == []
    row = sink.publish(sink.stage(MONDAY, floats(1.0, NAN), floats(NAN, 2.0), rejects=[b"{", b"}"]))
    assert (row.rows, row.counts["rejected"]) == (2, 4)
    letters = sink.records(sink.sink.effective_dead_letter_topic)
    assert len(letters) == 4
    told = [
        {name.removeprefix("__connect.errors."): text for name, text in letter.headers.items()} for letter in letters
    ]
    assert {letter["topic"] for letter in told} == {sink.sink.topic}
    sinks = [letter for letter in told if letter["stage"] == "VALUE_CONVERTER"]
    assert [(letter["partition"], letter["offset"]) for letter in sinks] == [("0", "1"), ("1", "0")]
    first = sinks[0]
    assert first["class.name"] == "airflow_provider_connect.sinks.kafka.KafkaSink"
    assert first["exception.message"].startswith("column 'x'")
    assert (first["connector.name"], first["connect.day"]) == ("conformance/events", "2026-10-05")
    assert first["task.id"] == row.attempt
    assert [json.loads(letter.value or b"")["event"] for letter in letters[:2]] == ["e1", "e0"]
    sources = [letter for letter in told if letter["stage"] == "TASK_POLL"]
    assert [letter["exception.message"] for letter in sources] == ["no JSON", "no JSON"]
    assert [letter.value for letter in letters[2:]] == [b"{", b"}"]
    with pytest.raises(DataError, match="more than max_rejects=2: "):
        sink.publish(sink.stage(TUESDAY, floats(NAN, NAN, NAN)))
    assert len(sink.records(sink.sink.effective_dead_letter_topic)) == 4
    assert sink.records(sink.sink.effective_dead_letter_topic, "read_uncommitted")[-1].day == "2026-10-05"


@pytest.mark.parametrize("with_headers", [True, False])
def test_k7_every_size_around_the_limit_is_sent_or_refused_and_none_is_lost(scene: Scene, with_headers: bool) -> None:
    limit = 20_000
    sink = scene.connecting(compression__type="none").having(
        topic_config={"max.message.bytes": str(limit)}, headers=with_headers, errors_tolerance="all"
    )
    assert sink.preflight() == []
    copies = 3 if with_headers else 2  # as key, in the value, and as event id
    names = ["x" * size for size in range(limit // copies - 600, limit // copies + 60, 7)]
    row = sink.publish(sink.stage(MONDAY, events(*names, "small")))
    sent = {(record.key or b"").decode() for record in sink.records()}
    dead = {(letter.key or b"").decode() for letter in sink.records(sink.sink.effective_dead_letter_topic)}
    assert sent | dead == {*names, "small"}
    assert not sent & dead
    assert "small" in sent
    assert (row.rows, row.counts["rejected"]) == (len(sent), len(dead))
    assert sent - {"small"}
    assert dead


def test_a_topic_may_take_more_than_the_topic_of_dead_letters(scene: Scene) -> None:
    sink = scene.connecting(compression__type="none").having(
        topic_config={"max.message.bytes": "5000000"}, errors_tolerance="all"
    )
    assert sink.preflight() == []
    row = sink.publish(sink.stage(MONDAY, events("x" * 1_000_000, "y" * 3_000_000)))
    assert (row.rows, row.counts["rejected"]) == (1, 1)
    [letter] = sink.records(sink.sink.effective_dead_letter_topic)
    assert letter.headers["connect.cut_from_bytes"].isdigit()
    assert len(letter.value or b"") > 1_000_000


def test_times_that_the_broker_would_refuse_are_rejected(scene: Scene) -> None:
    sink = scene.having(ROW_SCHEMA, timestamp_field="time", errors_tolerance="all", topic_config={"retention.ms": "-1"})
    assert sink.preflight() == []
    now = dt.datetime.now(dt.UTC)
    times = [now, now + dt.timedelta(hours=2), dt.datetime(1969, 12, 31, tzinfo=dt.UTC), None]
    table = rows(*((f"e{place}", time, 1, None, f"k{place}") for place, time in enumerate(times)))
    assert sink.publish(sink.stage(MONDAY, table)).rows == 2
    assert sorted(record.key or b"" for record in sink.records()) == [b"e0", b"e3"]
    letters = sink.records(sink.sink.effective_dead_letter_topic)
    assert all("column 'time'" in letter.headers["__connect.errors.exception.message"] for letter in letters)
    assert len(letters) == 2


# Columns that change


def test_columns_that_change_without_a_registry(scene: Scene) -> None:
    assert scene.preflight() == []
    scene.publish(scene.stage(MONDAY, events("a")))
    wider = events("b").append_column("more", pa.array([1.5]))
    changed = pa.table({"event": ["b"], "n": ["x"]})
    assert scene.having(wider.schema).preflight() == []
    [new] = scene.having(wider.schema, schema_contract="freeze").preflight()
    assert new == "column 'more' is new since 2026-10-05, and schema_contract='freeze'"
    for contract in ("evolve", "freeze"):
        [problem] = scene.having(changed.schema, schema_contract=contract).preflight()
        assert "column 'n' was int64 on 2026-10-05 and is string now" in problem
    ignoring = scene.having(changed.schema, schema_contract="ignore")
    assert ignoring.preflight() == []
    ignoring.publish(ignoring.stage(TUESDAY, changed))
    assert [value["n"] for value in ignoring.values()] == [0, "x"]


# What a person must mend


def test_topics_whose_settings_would_lose_records(scene: Scene) -> None:
    make_topic(scene.bootstrap, scene.sink.topic, cleanup__policy="compact")
    [problem] = scene.preflight()
    assert "which keeps only the last record of each key" in problem
    [problem] = scene.having(key_fields=()).preflight()
    assert "refuses records without a key" in problem
    set_topic(scene.bootstrap, scene.sink.topic, cleanup__policy="delete", retention__ms="86400000")
    timed = scene.having(ROW_SCHEMA, timestamp_field="time")
    [problem] = timed.preflight()
    assert "retention.ms is 86400000" in problem
    assert scene.preflight() == []
    set_topic(scene.bootstrap, scene.sink.ledger_topic, cleanup__policy="compact,delete")
    [problem] = scene.preflight()
    assert "must be compact alone" in problem


def test_a_lost_ledger_is_no_new_one(scene: Scene) -> None:
    assert scene.preflight() == []
    scene.publish(scene.stage(MONDAY, events("a")))
    [problem] = scene.having(ledger_topic=f"{scene.name}-other").preflight()
    assert "holds records of conformance/events, but ledger topic" in problem
    assert "Restore it, name it in ledger_topic, or publish into another topic" in problem
    with pytest.raises(ConfigError, match="no Kafka sink wrote"):
        scene.having(ledger_topic=scene.sink.topic, topic=f"{scene.name}-more").ledger.row(MONDAY)
