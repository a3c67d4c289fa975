"""Topics into tables: a real broker, a real Spark where it matters, and what may happen to a topic between two runs."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._kafka.poller import KafkaPoller
from airflow_provider_connect.sources.kafka import KafkaSource
from airflow_provider_connect.window import Day
from tests.equipment.kafka.registry import SchemaRegistry
from tests.equipment.waiting import wait_until
from tests.integration.conftest import Driven, Submitter
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

DAY = "2026-11-01"
COLUMNS = {"id": "bigint", "amount": "decimal(12,2)"}
NUMBERS = itertools.count(1)


class Topic:
    """A topic of one test, with its writer."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.name = f"orders-{uuid.uuid4().hex}"
        self.settings = {"bootstrap.servers": broker.bootstrap}
        self.admin = AdminClient(self.settings)
        self.producer = Producer(self.settings)
        self.create()

    def create(self) -> None:
        self._wait(self.admin.create_topics([NewTopic(self.name, 3, 1)]))

    def delete(self) -> None:
        self._wait(self.admin.delete_topics([self.name]))

    def write(self, *ids: int) -> None:
        for number in ids:
            value = json.dumps({"id": number, "amount": number / 4}).encode()
            self.producer.produce(self.name, value, str(number))
        assert self.producer.flush(30) == 0

    def transaction(self, *ids: int) -> Producer:
        """Return a producer with an open transaction that holds the records."""
        producer = Producer(self.settings | {"transactional.id": uuid.uuid4().hex})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in ids:
            producer.produce(self.name, json.dumps({"id": number}).encode(), str(number))
        assert producer.flush(30) == 0
        return producer

    def add_partition(self, total: int) -> None:
        self._wait(self.admin.create_partitions([NewPartitions(self.name, total)]))

    @staticmethod
    def _wait(futures: dict[Any, Any]) -> None:
        for future in futures.values():
            future.result(30)


@pytest.fixture
def topic(broker: KafkaBroker) -> Iterator[Topic]:
    made = Topic(broker)
    yield made
    made.delete()


class Loads:
    """Runs of one task, each with a run id of its own unless it is named."""

    def __init__(self, submit: Submitter, topic: Topic, connection: Connection) -> None:
        submit.source_name = "kafka"
        self.submit, self.connection = submit, connection
        self.source: dict[str, Any] = {
            "topics": [topic.name],
            "stream": "orders",
            "columns": COLUMNS,
            "transaction_wait_seconds": 0.5,
        }

    def arguments(self, run: str = "", day: str = DAY, clear_number: int = 0, **source: Any) -> dict[str, Any]:
        number = next(NUMBERS)
        named = f"dag/{run or f'run-{number}'}/task"
        return {
            "days": [day],
            "run": named,
            "token": uuid.uuid4().hex,
            "clear_number": clear_number,
            "source": self.source | source,
            "connection": self.connection,
        }

    def load(self, *arguments: Any, **options: Any) -> Driven:
        loaded = self.submit.here(**self.arguments(*arguments, **options))
        assert loaded.report.exit_code == 0, loaded.output
        return loaded

    def refusal(self, **options: Any) -> str:
        loaded = self.submit.here(**self.arguments(**options))
        assert loaded.report.failure is not None
        return str(loaded.report.failure.message)

    def ids(self) -> Counter[int]:
        return Counter(DeltaTable(str(self.submit.table)).to_pyarrow_table(columns=["id"])["id"].to_pylist())


@pytest.fixture
def loads(submit: Submitter, topic: Topic, kafka_connection: Connection) -> Loads:
    return Loads(submit, topic, kafka_connection)


def test_each_record_arrives_once_over_runs_clears_and_spark_tasks(loads: Loads, topic: Topic) -> None:
    topic.write(*range(5_000))
    ended = loads.submit.run(**loads.arguments("first", records_per_task=1_000))
    assert ended.process.returncode == 0, ended.output
    assert loads.ids() == Counter(range(5_000))
    topic.write(*range(5_000, 5_100))
    assert loads.load("second").report.days[0].rows_written == 100
    assert loads.load("third").report.days[0].rows_written == 0, "nothing came"
    topic.write(*range(5_100, 5_200))
    cleared = loads.load("second", clear_number=1).report.days[0]
    assert (cleared.rows_written, cleared.generation) == (100, 2), "a cleared run reads its own offsets"
    loads.load("fourth", day="2026-11-02")
    assert loads.ids() == Counter(range(5_200))
    rows = DeltaTable(str(loads.submit.table)).to_pyarrow_table().to_pylist()
    assert {row["kafka_topic"] for row in rows} == {topic.name}
    assert all(row["amount"] * 4 == row["id"] == int(row["kafka_key"]) for row in rows)
    assert len({row["record_key"] for row in rows}) == 5_200


def test_records_of_transactions_wait_for_their_end(loads: Loads, topic: Topic) -> None:
    aborted = topic.transaction(100, 101)
    aborted.abort_transaction(30)
    topic.write(1, 2)
    pending = topic.transaction(*range(10, 40))
    topic.write(3, 4)
    loads.load()
    assert set(loads.ids()) <= {1, 2, 3, 4}, "what stands behind the open transaction waits"
    loads.load()
    pending.commit_transaction(30)
    loads.load()
    assert loads.ids() == Counter([1, 2, 3, 4, *range(10, 40)])
    loads.load()
    assert sum(loads.ids().values()) == 34


def test_an_end_in_a_gap_of_an_aborted_transaction_is_reached(loads: Loads, topic: Topic) -> None:
    topic.write(*range(20))
    topic.transaction(*range(100, 200)).abort_transaction(30)
    loads.load()
    loads.load()
    assert loads.ids() == Counter(range(20))


def test_new_partitions_are_read_from_their_beginning(loads: Loads, topic: Topic) -> None:
    topic.write(*range(30))
    loads.load()
    topic.add_partition(5)
    topic.write(*range(30, 90))
    loads.load()
    assert loads.ids() == Counter(range(90))


def test_a_killed_driver_s_run_is_loaded_once_by_its_retry(loads: Loads, topic: Topic) -> None:
    topic.write(*range(3_000))
    arguments = loads.arguments("killed", records_per_task=1_000)
    started = loads.submit.start(**arguments)
    wait_until(lambda: list(loads.submit.table.glob("_connect/attempts/*/*")))
    os.kill(started.process.pid, signal.SIGKILL)
    started.process.communicate()
    started.abandon()
    topic.write(*range(3_000, 3_100))
    retried = loads.submit.here(**arguments)
    assert retried.report.exit_code == 0, retried.output
    loads.load()
    assert loads.ids() == Counter(range(3_100))


def test_two_runs_at_once_and_their_retries_load_each_record_once(loads: Loads, topic: Topic) -> None:
    topic.write(*range(300))
    loads.load()
    topic.write(*range(300, 600))
    runs = [loads.arguments("left"), loads.arguments("right")]
    ended = [started.wait() for started in [loads.submit.start(**arguments) for arguments in runs]]
    assert 0 in [one.process.returncode for one in ended], [one.output for one in ended]
    assert loads.ids() == Counter(range(600)), "whoever came second has published nothing of the first one's records"
    topic.write(*range(600, 700))
    for arguments, one in zip(runs, ended, strict=True):
        if one.process.returncode:
            assert loads.submit.here(**arguments).report.exit_code == 0
    loads.load()
    assert loads.ids() == Counter(range(700))


def test_records_that_retention_deleted_unread_are_refused_or_told(loads: Loads, topic: Topic) -> None:
    topic.write(*range(30))
    loads.load()
    topic.write(*range(30, 60))
    ends = {TopicPartition(topic.name, number, -1) for number in range(3)}
    for future in topic.admin.delete_records(list(ends)).values():
        future.result(30)
    topic.write(*range(60, 70))
    message = loads.refusal()
    assert "were deleted before they were read" in message
    assert "on_lost='warn'" in message
    loads.load(on_lost="warn")
    assert loads.ids() == Counter([*range(30), *range(60, 70)])
    loads.load()
    assert sum(loads.ids().values()) == 40


def test_records_that_are_deleted_between_plan_and_poll_fail_the_run(
    topic: Topic, kafka_connection: Connection
) -> None:
    topic.write(*range(300))
    poller = KafkaPoller(KafkaSource(topics=[topic.name], columns=COLUMNS), kafka_connection)
    parts = poller.plan([Day(date=dt.date.fromisoformat(DAY))])
    for future in topic.admin.delete_records([TopicPartition(topic.name, 0, 1)]).values():
        future.result(30)
    with pytest.raises(ConfigError, match="records of this run were deleted while it read them"):
        [list(poller.poll(part, Tally())) for part in parts]


def test_a_first_run_whose_oldest_record_was_deleted_keeps_its_rows(loads: Loads, topic: Topic) -> None:
    topic.write(*range(300))
    loads.load("first")
    for future in topic.admin.delete_records([TopicPartition(topic.name, 0, 1)]).values():
        future.result(30)
    message = loads.refusal(run="first", clear_number=1)
    assert "the oldest records of this increment were deleted" in message
    assert loads.ids() == Counter(range(300))


def test_a_topic_that_was_made_again_is_refused_or_read_from_its_beginning(loads: Loads, topic: Topic) -> None:
    topic.write(*range(30))
    loads.load()
    topic.delete()
    wait_until(lambda: topic.name not in topic.admin.list_topics(timeout=10).topics)
    topic.create()
    wait_until(lambda: len(topic.admin.list_topics(topic.name, timeout=10).topics[topic.name].partitions) == 3)
    topic.write(*range(100, 130))
    assert "has another id than at the last run" in loads.refusal()
    loads.load(on_lost="warn")
    assert loads.ids() == Counter([*range(30), *range(100, 130)])


def test_a_missing_topic_a_wrong_value_and_changed_topics_are_told(loads: Loads, topic: Topic) -> None:
    assert "topic 'absent' does not exist, or is hidden" in loads.refusal(topics=["absent"])
    topic.write(1)
    topic.producer.produce(topic.name, b'{"id": "one"}', "2")
    assert topic.producer.flush(30) == 0
    message = loads.refusal()
    assert "field 'id' is no bigint" in message
    assert "one" not in message.replace("is no", "").replace("none", "")
    report = loads.load(errors_tolerance="all").report.days[0]
    assert (report.rows_written, report.rejected) == (1, 1)


def test_changes_by_key_merge_into_the_newest_version_of_each_row(loads: Loads, topic: Topic) -> None:
    def change(operation: str, number: int, note: str | None = None) -> None:
        row = {"id": number, "note": note}
        before, after = (row, None) if operation == "d" else (None, row)
        value = {"op": operation, "before": before, "after": after}
        topic.producer.produce(topic.name, json.dumps(value).encode(), json.dumps({"id": number}))
        if operation == "d":
            topic.producer.produce(topic.name, None, json.dumps({"id": number}))
        assert topic.producer.flush(30) == 0

    source = {"columns": {"id": "bigint", "note": "string"}, "envelope": "debezium"}
    sink = {"write_mode": "merge", "key": ["id"], "newest_by": "kafka_offset", "delete_where": "kafka_delete"}

    def load(day: str) -> list[tuple[int, str]]:
        loaded = loads.submit.here(**loads.arguments(day=day, **source), sink=sink)
        assert loaded.report.exit_code == 0, loaded.output
        rows = DeltaTable(str(loads.submit.table)).to_pyarrow_table(columns=["id", "note"]).to_pylist()
        return sorted((row["id"], row["note"]) for row in rows)

    for number in range(4):
        change("c", number, "made")
    change("u", 1, "changed")
    assert load("2026-11-01") == [(0, "made"), (1, "changed"), (2, "made"), (3, "made")]
    change("d", 2)
    change("u", 3, "later")
    change("c", 4, "new")
    assert load("2026-11-02") == [(0, "made"), (1, "changed"), (3, "later"), (4, "new")]
    change("c", 2, "again")
    assert load("2026-11-03") == [(0, "made"), (1, "changed"), (2, "again"), (3, "later"), (4, "new")]


def test_runs_of_a_topic_into_bigquery_and_into_another_topic(
    loads: Loads, topic: Topic, bigquery_target: Any, kafka_target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = loads.submit
    submit.staging.mkdir()
    options = {"table": bigquery_target.sink.table}
    for name, target in (("bigquery", bigquery_target), ("kafka", kafka_target)):
        if name == "kafka":
            options = {"topic": target.sink.topic, "ledger_topic": target.sink.ledger_topic, "key_fields": ["id"]}
        monkeypatch.setattr(submit, "sink_options", lambda options=options: options)
        submit.sink_name, submit.sink_connections = name, target.connections
        topic.write(*range(20))
        loads.load(f"{name}-first")
        topic.write(*range(20, 30))
        loads.load(f"{name}-second")
        loads.load(f"{name}-first", clear_number=1)
    ids = Counter(row["id"] for row in bigquery_target.query("SELECT id FROM {table}"))
    assert ids == Counter(range(30))
    mirrored = [json.loads(record.value) for record in kafka_target.records()]
    assert {row["id"] for row in mirrored} == set(range(30))
    newest = [record for record in kafka_target.records() if record.generation == 2]
    assert len(newest) == 50, "the cleared first run holds the topic's first fifty records"


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


def test_a_topic_of_our_own_sink_is_refused_by_offset(
    loads: Loads, topic: Topic, kafka_target: Any, kafka_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, sink = loads.submit, kafka_target.sink
    submit.staging.mkdir()
    options = {"topic": sink.topic, "ledger_topic": sink.ledger_topic, "key_fields": ["id"]}
    with monkeypatch.context() as patched:
        patched.setattr(submit, "sink_options", lambda: options)
        patched.setattr(submit, "sink_name", "kafka")
        patched.setattr(submit, "sink_connections", kafka_target.connections)
        topic.write(*range(20))
        loads.load()
    message = loads.refusal(topics=[sink.topic], ledger_topic=sink.ledger_topic)
    assert f"topic {sink.topic!r} was written by a KafkaSink: ledger topic {sink.ledger_topic!r} names it" in message
    message = loads.refusal(topics=[sink.topic], ledger_topic="no-such-ledger")
    assert "its records have the header connect.generation" in message, "a mirror of the topic, without its ledger"
    loads.load(topics=[sink.topic], ledger_topic=None)
    assert loads.ids() == Counter(range(20))
