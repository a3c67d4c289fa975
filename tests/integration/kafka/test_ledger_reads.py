"""The ledger's topic is read once from its beginning in a process, and on from there; what a day's record keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.clients.kafka.topic_reader import TopicReader
from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry, LedgerKey
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import KEY, MONDAY, TUESDAY, events
from tests.equipment.kafka.bench import SinkBench, drop_topic, make_topic, running_bench
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(broker: KafkaBroker, tmp_path: Path) -> Iterator[SinkBench]:
    with running_bench(broker.bootstrap, tmp_path, timeout_seconds=60) as made:
        yield made


@pytest.fixture
def reads(bench: SinkBench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From which offset each reading of the ledger began."""
    found: list[int] = []
    batches = TopicReader.read_batches

    def counted(self: TopicReader, starts: dict[int, int], ends: dict[int, int]) -> Iterator[list[Any]]:
        if self.topic == bench.sink.ledger_topic:
            found.extend(starts.values())
        return batches(self, starts, ends)

    monkeypatch.setattr(TopicReader, "read_batches", counted)
    return found


def test_a_process_reads_the_ledger_once_whatever_it_publishes(bench: SinkBench, reads: list[int]) -> None:
    """Driver and executors of a job, and the questions between its days."""
    bench.publish(bench.stage(MONDAY, events("a", "b")))
    assert bench.ledger.row(MONDAY).generation == 1  # until here the ledger was empty when it was read
    reads.clear()
    for number in range(1, 4):
        day = MONDAY + ONE_DAY * number
        assert bench.ledger.published(day, "t") is None
        assert bench.preflight(day) == []
        assert bench.publish(bench.stage(day, events("a", "b"), order=number)).generation == 1
        assert len(bench.ledger.days()) == number + 1
    assert len(reads) > 10
    assert 0 not in reads


def test_an_executor_goes_on_where_its_driver_stood(bench: SinkBench, reads: list[int]) -> None:
    for number in range(3):
        bench.publish(bench.stage(MONDAY + ONE_DAY * number, events("a"), order=number + 1))
    staged = bench.stage(TUESDAY + ONE_DAY * 5, events("a"), order=9)
    token = bench.begin(staged)
    stood = token.handover.positions[0]
    assert stood > 6
    assert set(token.handover.values) == {
        LedgerKey(*KEY.model_dump().values(), bench.sink.topic, TUESDAY + ONE_DAY).encode()
    }
    reads.clear()
    bench.put(token, staged)
    assert min(reads) == stood


def test_what_others_publish_meanwhile_is_seen_at_the_next_question(bench: SinkBench) -> None:
    assert bench.ledger.row(MONDAY) is None
    entry = DayEntry.model_validate({"row": {"day": str(MONDAY), "generation": 3, "token": "t", "rows": 1}})
    producer = Producer({"bootstrap.servers": bench.bootstrap})
    key = LedgerKey(KEY.connector, KEY.stream, bench.sink.topic, MONDAY).encode()
    producer.produce(bench.sink.ledger_topic, entry.model_dump_json().encode(), key)
    assert producer.flush(10) == 0
    assert bench.ledger.row(MONDAY).generation == 3
    producer.produce(bench.sink.ledger_topic, None, key)
    assert producer.flush(10) == 0
    assert bench.ledger.row(MONDAY) is None


def test_a_ledger_that_was_made_anew_is_read_anew(bench: SinkBench) -> None:
    bench.publish(bench.stage(MONDAY, events("a")))
    drop_topic(bench.bootstrap, bench.sink.ledger_topic)
    assert bench.ledger.row(MONDAY) is None
    make_topic(bench.bootstrap, bench.sink.ledger_topic, cleanup__policy="compact")
    assert bench.ledger.row(MONDAY) is None
    assert list(bench.ledger.days()) == []


EARLIER_ROW = {"day": str(MONDAY), "generation": 2, "token": "t", "order": 17, "rows": 1}
EARLIER_CLAIM = {"token": "t", "order": 17, "run": "dag/run/task", "attempt": "a", "at": "2026-10-05T00:00:00Z"}
REFUSED = (
    "another version of this package, or another program, wrote it. Use the version that wrote it, or another ledger"
)


def test_a_ledger_of_an_earlier_version_is_refused_and_nothing_is_sent(bench: SinkBench) -> None:
    """It is not taken for an empty one: the day would be published once more, as its first generation."""
    staged = bench.stage(MONDAY, events("a"), order=2)
    entry = {"row": EARLIER_ROW, "run": "dag/run/task", "offsets": {}, "columns": {}}
    producer = Producer({"bootstrap.servers": bench.bootstrap})
    key = LedgerKey(KEY.connector, KEY.stream, bench.sink.topic, MONDAY)
    producer.produce(bench.sink.ledger_topic, json.dumps(EARLIER_CLAIM), key._replace(kind="claim").encode())
    producer.produce(bench.sink.ledger_topic, json.dumps(entry), key.encode())
    assert producer.flush(10) == 0
    asked: list[Callable[[], object]] = [
        lambda: bench.ledger.row(MONDAY),
        lambda: bench.ledger.published(MONDAY, "t"),
        lambda: bench.publish(staged),
    ]
    for ask in asked:
        with pytest.raises(ConfigError, match=f"ledger topic '{bench.sink.ledger_topic}' .*{REFUSED}"):
            ask()
    [problem] = bench.preflight(MONDAY)
    assert REFUSED in problem
    assert list(bench.ledger.days()) == [MONDAY]
    assert bench.records(MONDAY, "read_uncommitted") == []


def test_a_claim_of_an_earlier_version_is_refused_too(bench: SinkBench) -> None:
    producer = Producer({"bootstrap.servers": bench.bootstrap})
    key = LedgerKey(KEY.connector, KEY.stream, bench.sink.topic, MONDAY, "claim")
    producer.produce(bench.sink.ledger_topic, json.dumps(EARLIER_CLAIM), key.encode())
    assert producer.flush(10) == 0
    with pytest.raises(ConfigError, match=REFUSED):
        bench.publish(bench.stage(MONDAY, events("a")))
    assert bench.records(MONDAY, "read_uncommitted") == []


@pytest.mark.parametrize("options", [{}, {"atomicity": "partition"}, {"delivery": "at_least_once"}])
def test_the_older_answer_of_two_is_refused_and_sends_nothing(bench: SinkBench, options: dict[str, Any]) -> None:
    """Whichever run started first: it looked before the other one published, and polls again."""
    bench = bench.having(**options)
    bench.watch.look_away()
    older = bench.stage(MONDAY, events("old"), order=7)
    bench.publish(bench.stage(MONDAY, events("new"), order=6))
    before = len(bench.records(MONDAY, "read_uncommitted"))
    with pytest.raises(OvertakenError, match="dag/run-6/task has published generation 1"):
        bench.publish(older)
    assert len(bench.records(MONDAY, "read_uncommitted")) == before
    again = bench.publish(bench.stage(MONDAY, events("newest"), order=7, attempt="2"))
    assert (again.generation, again.run) == (2, "dag/run-7/task")


@pytest.mark.parametrize("options", [{}, {"atomicity": "partition"}])
def test_a_day_published_between_begin_and_put_is_not_published_over(bench: SinkBench, options: dict[str, Any]) -> None:
    bench = bench.having(**options)
    bench.watch.look_away()
    older, newer = bench.stage(MONDAY, events("old"), order=7), bench.stage(MONDAY, events("new"), order=6)
    token = bench.begin(older)
    published = bench.publish(newer)
    assert published.run == "dag/run-6/task"
    with pytest.raises(OvertakenError, match="dag/run-6/task has published"):
        bench.put(token, older)
    assert bench.ledger.row(MONDAY) == published
    assert not any(record.key == b"old" for record in bench.records(MONDAY, "read_uncommitted"))


def test_reloads_are_remembered_up_to_a_bound(bench: SinkBench) -> None:
    for order in range(1, 5):
        bench.publish(bench.stage(MONDAY, events(*"abcd"[:order]), order=order))
    for order in range(1, 5):
        row = bench.ledger.published(MONDAY, f"{order:032x}")
        assert (row.generation, row.rows) == (order, order)
    assert bench.ledger.published(MONDAY, f"{9:032x}") is None
    assert [earlier.generation for earlier in bench.ledger.entry(MONDAY).covered] == [3, 2, 1]


def test_turns_are_for_whole_days() -> None:
    with pytest.raises(ConfigError, match="turns belongs to delivery='exactly_once' with atomicity='day'"):
        KafkaSink(topic="t", atomicity="partition", turns="off")
