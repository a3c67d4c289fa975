"""The Kafka sink's ledger: hidden behind others, deleted, shortened, or written by somebody else. Never guessed at."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._kafka import whole_day
from airflow_provider_connect.sinks._kafka.ledger.records import LedgerKey
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.frozen import KEY, MONDAY, SCHEMA, TUESDAY, events
from tests.equipment.kafka.bench import SinkBench, drop_topic, make_topic, running_bench, set_topic
from tests.equipment.kafka.fixtures import records
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

SECONDS = 2.0
ROWS, NEWER = ("a", "b", "b", "c"), ("n",)


@pytest.fixture
def bench(broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SinkBench]:
    monkeypatch.setattr(whole_day, "VISIBILITY_SECONDS", 0.2)  # tests hold the ledger on purpose
    with running_bench(broker.bootstrap, tmp_path, timeout_seconds=SECONDS) as made:
        yield made


@contextmanager
def open_transaction(bench: SinkBench, day: Any = MONDAY - ONE_DAY) -> Iterator[Producer]:
    """Hold the ledger as a publish of a day does that stands still between its ledger record and its commit."""
    key = LedgerKey(KEY.connector, KEY.stream, bench.sink.topic, day)
    producer = Producer({"bootstrap.servers": bench.bootstrap, "transactional.id": f"holds-{bench.sink.topic}"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(bench.sink.ledger_topic, b"{}", key.encode())
    assert producer.flush(10) == 0
    try:
        yield producer
    finally:
        producer.abort_transaction(10)


def test_a_published_day_is_found_behind_the_open_transaction_of_another_day(bench: SinkBench) -> None:
    """Readers of committed records do not see it there; the sink waits for it, and sends nothing twice."""
    staged = bench.stage(MONDAY, events(*ROWS))
    token = bench.begin(staged)
    with ThreadPoolExecutor(1) as pool:
        with open_transaction(bench):
            bench.put(token, staged)
            again = pool.submit(bench.put, token, staged)
            time.sleep(1.0)
            assert not again.done()
        [sent] = again.result(20)
    assert sent.entry.row.generation == 1
    bench.holds(MONDAY, ROWS)


def test_a_day_that_stays_hidden_is_not_sent_again(bench: SinkBench) -> None:
    staged = bench.stage(MONDAY, events(*ROWS))
    token = bench.begin(staged)
    hidden = rf"an open transaction of {KEY} {MONDAY - ONE_DAY} into '{bench.sink.topic}' hides records of this stream"
    with open_transaction(bench):
        bench.put(token, staged)
        for asked in (
            lambda: bench.put(token, staged),
            lambda: bench.publish(staged),
            lambda: bench.ledger.row(MONDAY),
        ):
            with pytest.raises(RetriableError, match=hidden):
                asked()
        assert MONDAY not in bench.ledger.days()
    assert bench.publish(staged).generation == 1
    assert MONDAY in bench.ledger.days()
    bench.holds(MONDAY, ROWS)


def test_what_hides_nothing_of_a_day_is_not_waited_for(bench: SinkBench) -> None:
    bench = bench.having(timeout_seconds=60.0)
    bench.publish(bench.stage(MONDAY, events(*ROWS)))
    with open_transaction(bench):
        started = time.monotonic()
        assert bench.ledger.row(MONDAY).generation == 1
        row = bench.publish(bench.stage(TUESDAY, events(*ROWS)))
        assert (row.generation, time.monotonic() - started < bench.sink.timeout_seconds) == (1, True)
    bench.holds(TUESDAY, ROWS)


def test_an_open_transaction_of_the_day_itself_is_ended_and_not_waited_for(bench: SinkBench) -> None:
    """Of a publish that died there; whoever waits for it waits for ever."""
    with open_transaction(bench, MONDAY):
        started = time.monotonic()
        assert bench.ledger.row(MONDAY) is None
        assert time.monotonic() - started < bench.sink.timeout_seconds


# K14


def test_a_ledger_that_is_gone_since_begin(bench: SinkBench) -> None:
    staged = bench.stage(MONDAY, events(*ROWS))
    token = bench.begin(staged)
    drop_topic(bench.bootstrap, bench.sink.ledger_topic)
    started = time.monotonic()
    with pytest.raises(ConfigError, match=f"ledger topic '{bench.sink.ledger_topic}' .*after this publish began"):
        bench.put(token, staged)
    assert time.monotonic() - started < 10
    assert records(bench.bootstrap, bench.sink.topic) == []


def test_a_ledger_that_was_emptied_since_begin(bench: SinkBench) -> None:
    """Else the day would be sent a second time as the same generation."""
    bench.publish(bench.stage(MONDAY, events(*ROWS)))
    staged = bench.stage(MONDAY, events(*NEWER), order=2)
    token = bench.begin(staged)
    drop_topic(bench.bootstrap, bench.sink.ledger_topic)
    make_topic(bench.bootstrap, bench.sink.ledger_topic, cleanup__policy="compact")
    with pytest.raises(ConfigError, match="after this publish began"):
        bench.put(token, staged)
    assert [record.generation for record in records(bench.bootstrap, bench.sink.topic)] == [1] * len(ROWS)


def test_a_lost_ledger_is_told_from_a_new_one(bench: SinkBench) -> None:
    bench.publish(bench.stage(MONDAY, events(*ROWS)))
    drop_topic(bench.bootstrap, bench.sink.ledger_topic)
    [problem] = bench.preflight()
    assert "has no day of it" in problem


@pytest.mark.parametrize("options", [{"delivery": "at_least_once"}, {"atomicity": "partition"}])
def test_a_first_day_that_broke_in_the_middle_is_no_lost_ledger(bench: SinkBench, options: dict[str, Any]) -> None:
    """The topic holds records then, and the ledger knows no day."""
    loose = bench.having(**options)
    bench.watch.look_away()
    staged = loose.stage(MONDAY, events(*ROWS), events(*NEWER))
    token = loose.begin(staged)
    loose.publisher.put(token, staged.stage, staged.manifest.polled.files[:1])
    assert records(bench.bootstrap, bench.sink.topic)
    assert loose.preflight() == []
    assert loose.publish(staged).rows == len(ROWS) + len(NEWER)


@pytest.mark.parametrize("topic", ["{event}", "plain"])
@pytest.mark.parametrize("options", [{}, {"headers": False}])
def test_a_lost_ledger_is_noticed_whatever_the_topic_is(bench: SinkBench, topic: str, options: dict[str, Any]) -> None:
    other = bench.having(topic=f"{bench.sink.topic}-{topic}", **options)
    assert other.preflight() == []
    other.publish(other.stage(MONDAY, events(*ROWS)))
    drop_topic(bench.bootstrap, bench.sink.ledger_topic)
    [problem] = other.preflight()
    assert f"ledger topic {bench.sink.ledger_topic!r} has no day of it" in problem
    make_topic(bench.bootstrap, f"{bench.sink.ledger_topic}-2", cleanup__policy="compact")
    later = other.having(ledger_topic=f"{bench.sink.ledger_topic}-2")
    with pytest.raises(ConfigError, match="has no day of it"):
        later.publish(later.stage(MONDAY, events(*ROWS), order=2))


def test_records_of_others_without_headers_are_in_the_way_of_records_without_headers(bench: SinkBench) -> None:
    producer = Producer({"bootstrap.servers": bench.bootstrap})
    producer.produce(bench.sink.topic, b"theirs")
    assert producer.flush(10) == 0
    [problem] = bench.having(headers=False).preflight()
    assert "publish the first day with headers=True" in problem
    assert bench.preflight() == []


@pytest.mark.parametrize("topic", ["{event}", "plain"])
def test_a_topic_that_lost_what_the_ledger_knows(bench: SinkBench, topic: str) -> None:
    """Made again it would stay empty of days that count as published."""
    other = bench.having(topic=f"{bench.sink.topic}-{topic}")
    assert other.preflight() == []
    other.publish(other.stage(MONDAY, events(*ROWS)))
    name = f"{bench.sink.topic}-{'a' if '{' in topic else topic}"
    assert other.preflight() == []
    drop_topic(bench.bootstrap, name)
    gone = f"topic {name!r} is missing, but ledger topic .* has days of it"
    [problem] = other.preflight()
    assert re.search(gone, problem)
    with pytest.raises(ConfigError, match=gone):
        other.publish(other.stage(TUESDAY, events(*ROWS)))
    assert name not in AdminClient({"bootstrap.servers": bench.bootstrap}).list_topics(timeout=10).topics
    make_topic(bench.bootstrap, name, partitions=1)
    short = f"topic {name!r}, partition [012] ends at offset 0, but ledger topic .* has records up to"
    [problem] = other.preflight()
    assert re.search(short, problem)
    with pytest.raises(ConfigError, match=short):
        other.publish(other.stage(TUESDAY, events(*ROWS)))


def test_a_ledger_that_loses_records_to_retention(bench: SinkBench) -> None:
    for order in (1, 2, 3):
        bench.publish(bench.stage(MONDAY, events(*ROWS), order=order))
    set_topic(bench.bootstrap, bench.sink.ledger_topic, cleanup__policy="delete")
    [problem] = bench.preflight()
    assert "cleanup.policy must be compact alone" in problem
    admin = AdminClient({"bootstrap.servers": bench.bootstrap})
    admin.delete_records([TopicPartition(bench.sink.ledger_topic, 0, 4)])[
        TopicPartition(bench.sink.ledger_topic, 0)
    ].result(20)
    set_topic(bench.bootstrap, bench.sink.ledger_topic, cleanup__policy="compact")
    for asked in (lambda: bench.ledger.row(MONDAY), lambda: bench.publish(bench.stage(MONDAY, events(), order=4))):
        with pytest.raises(ConfigError, match="has lost its oldest records"):
            asked()


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"{}"), (b"somebody else's", b"{}"), (b'{"a": 1}', b"{}"), (b'["a","b","c","2026-99-99","day"]', b"{}")],
)
def test_records_of_somebody_else_are_no_ledger(bench: SinkBench, key: bytes | None, value: bytes) -> None:
    set_topic(bench.bootstrap, bench.sink.ledger_topic, cleanup__policy="delete")  # takes records without a key
    producer = Producer({"bootstrap.servers": bench.bootstrap})
    producer.produce(bench.sink.ledger_topic, value, key)
    assert producer.flush(10) == 0
    set_topic(bench.bootstrap, bench.sink.ledger_topic, cleanup__policy="compact")
    assert "no Kafka sink wrote" in " ".join(bench.preflight())
    with pytest.raises(ConfigError, match="no Kafka sink wrote"):
        bench.publish(bench.stage(MONDAY, events(*ROWS)))
    assert records(bench.bootstrap, bench.sink.topic) == []


def test_a_record_of_another_version_is_not_guessed_at(bench: SinkBench) -> None:
    producer = Producer({"bootstrap.servers": bench.bootstrap})
    key = LedgerKey(KEY.connector, KEY.stream, bench.sink.topic, MONDAY).encode()
    producer.produce(bench.sink.ledger_topic, b'{"row": {"format": 9}}', key)
    assert producer.flush(10) == 0
    for day in (MONDAY, TUESDAY):
        with pytest.raises(ConfigError, match="cannot be read"):
            bench.publish(bench.stage(day, events(*ROWS)))


def test_a_changed_column_is_refused_by_the_ledger_that_knows_it(bench: SinkBench) -> None:
    bench.publish(bench.stage(MONDAY, events(*ROWS)))
    changed = pa.schema([SCHEMA.field("event"), pa.field("n", pa.string())])
    [problem] = bench.publisher.preflight(changed, [Day(date=TUESDAY)], "day")
    assert "column 'n' was int64" in problem
