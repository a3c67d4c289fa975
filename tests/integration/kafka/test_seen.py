"""A day that is published and that readers cannot see is told.

Another's open transaction is in its way here; with one that a broker has lost the end of, see broken/test_lost_ends.py.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.sinks._kafka import whole_day
from tests.equipment.frozen import MONDAY, events
from tests.equipment.kafka.bench import SinkBench, running_bench
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

ROWS = tuple(f"e{number}" for number in range(100))


@pytest.fixture
def bench(broker: KafkaBroker, tmp_path: Path) -> Iterator[SinkBench]:
    with running_bench(broker.bootstrap, tmp_path) as made:
        yield made


@contextmanager
def open_before(bench: SinkBench, topic: str) -> Iterator[Producer]:
    """Have another program's transaction open at the end of a topic's first partition, which never commits."""
    other = Producer({"bootstrap.servers": bench.bootstrap, "transactional.id": uuid.uuid4().hex})
    other.init_transactions(20)
    other.begin_transaction()
    # in the ledger, a key that its readers know
    other.produce(topic, key=f'["other","events","{topic}","2020-01-01","claim"]', value=None, partition=0)
    other.flush(20)
    try:
        yield other
    finally:
        other.abort_transaction(20)


@pytest.mark.parametrize("where", ["topic", "ledger"])
def test_a_published_day_that_readers_cannot_see_gives_a_warning(
    bench: SinkBench, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(whole_day, "VISIBILITY_SECONDS", 0.3)
    topic = bench.sink.topic if where == "topic" else bench.sink.ledger_topic
    staged = bench.stage(MONDAY, events(*ROWS))
    with open_before(bench, topic):
        assert bench.publish(staged).generation == 1
    [said] = [message for message in caplog.messages if "is published" in message]
    assert f"{topic!r} partition 0 at offset " in said
    assert staged.day.date.isoformat() in said
    assert "'connect-" in said
    bench.watch.look_away()


def test_a_day_that_readers_see_soon_gives_no_warning(bench: SinkBench, caplog: pytest.LogCaptureFixture) -> None:
    """Nor is anything said of a day in nobody's way."""
    assert bench.publish(bench.stage(MONDAY, events(*ROWS), order=1)).generation == 1
    staged = bench.stage(MONDAY, events(*ROWS), order=2)
    with open_before(bench, bench.sink.topic) as other:
        ends = threading.Timer(1.0, lambda: other.abort_transaction(20))
        ends.start()
        assert bench.publish(staged).generation == 2
        ends.join()
        other.begin_transaction()
    assert "is published" not in caplog.text
    bench.holds(MONDAY, ROWS, ROWS)


def test_days_without_turns_are_not_waited_for(
    bench: SinkBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """There the open transactions of other days are in the way all the time, and nothing is wrong."""
    monkeypatch.setattr(whole_day, "VISIBILITY_SECONDS", 0.3)
    without = bench.having(turns="off")
    with open_before(bench, bench.sink.topic):
        assert without.publish(without.stage(MONDAY, events(*ROWS))).generation == 1
    assert "is published" not in caplog.text
    bench.holds(MONDAY, ROWS)
