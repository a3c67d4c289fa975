"""Topics into tables: a real broker, a real Spark where it matters, and what may happen to a topic between two runs."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic
from deltalake import DeltaTable

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._kafka.poller import KafkaPoller
from airflow_provider_connect.sources.kafka import KafkaSource
from airflow_provider_connect.window import Day
from tests.equipment.kafka.fixtures import records
from tests.equipment.kafka.loads import COLUMNS, DAY, Loads, Topic
from tests.equipment.waiting import wait_until
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow


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


def test_unreadable_records_become_dead_letters_with_connect_s_headers(
    loads: Loads, topic: Topic, broker: KafkaBroker
) -> None:
    letters = f"letters-{topic.name}"
    topic.write(1)
    topic.producer.produce(topic.name, b'{"id": "one"}', b"k", partition=1, headers=[("trace", b"7")])
    topic.producer.produce(topic.name, b"no json", b"k", partition=1)
    assert topic.producer.flush(30) == 0
    options = {"errors_tolerance": "all", "dead_letter_topic": letters}
    assert f"topic {letters!r} does not exist" in loads.refusal(**options)
    for future in topic.admin.create_topics([NewTopic(letters, 1)]).values():
        future.result(30)
    assert loads.load(**options).report.days[0].rejected == 2
    first, second = sorted(records(broker.bootstrap, letters), key=lambda letter: letter.offset)
    assert (first.key, first.value, second.value) == (b"k", b'{"id": "one"}', b"no json")
    assert first.headers["trace"] == "7"
    texts = {name.removeprefix("__connect.errors."): text for name, text in second.headers.items()}
    assert (texts["topic"], texts["partition"]) == (topic.name, "1")
    assert int(texts["offset"]) == int(first.headers["__connect.errors.offset"]) + 1
    assert (texts["stage"], texts["exception.message"]) == ("TASK_POLL", "the value is no JSON object")
    loads.load(**options)
    assert len(records(broker.bootstrap, letters)) == 2


def test_a_thousand_partitions_are_followed(loads: Loads, topic: Topic) -> None:
    topic.add_partition(1_000)
    topic.write(*range(3_000))
    loads.load("first")
    topic.write(*range(3_000, 3_100))
    assert loads.load("second").report.days[0].rows_written == 100
    assert loads.load("first", clear_number=1).report.days[0].rows_written == 3_000
    loads.load("third")
    assert loads.ids() == Counter(range(3_100))
    notes = list(loads.submit.table.glob("_connect/notes/position-*.json"))
    assert len(notes) == 2, "a run without records, and a cleared one, end at a position that is known"
    for note in notes:
        note.unlink()
    assert "its note is missing" in loads.refusal()


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
