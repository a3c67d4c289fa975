"""K11: a broker whose disk is full, and one that lets its clients wait: the wait is bounded, and nothing is lost."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_connect.errors import RetriableError
from tests.equipment.frozen import MONDAY, TUESDAY, events
from tests.equipment.kafka.bench import SinkBench, running_bench, shared_bench
from tests.equipment.stores.small_disk import Disk, small_disk
from tests.standins import server
from tests.standins.kafka_broker import KafkaBroker, class_path, fetched, java

pytestmark = pytest.mark.slow

SHORT_SECONDS = 3.0
QUOTA_BYTES = 300_000


def large(day: dt.date, size_bytes: int) -> tuple[str, ...]:
    """Return names that no compression makes small."""
    chance = random.Random(str(day))
    return tuple(f"{chance.randbytes(1000).hex()}{number}" for number in range(size_bytes // 2000))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", "64m") as mounted:
        yield mounted


def test_a_full_disk_ends_the_try_and_the_next_one_publishes_the_day(disk: Disk, tmp_path: Path) -> None:
    """The broker itself gives up: it has no other disk."""
    broker = KafkaBroker(disk.path / "kafka")
    broker.start()
    try:
        with running_bench(broker.bootstrap, tmp_path, timeout_seconds=20) as bench:
            bench.publish(bench.stage(MONDAY, events("other")))
            rows = large(TUESDAY, 6_000_000)
            staged = bench.stage(TUESDAY, events(*rows))
            disk.fill(free_pages=250)
            started = time.monotonic()
            with pytest.raises(RetriableError):
                bench.having(timeout_seconds=SHORT_SECONDS).publish(staged)
            assert time.monotonic() - started < 10 * SHORT_SECONDS
            disk.make_room()
            broker.kill()
            broker.start()
            assert bench.publish_at_last(staged).generation == 1
            bench.holds(TUESDAY, rows)
            bench.holds(MONDAY, ("other",))
    finally:
        broker.stop()


@contextmanager
def quota(broker: KafkaBroker) -> Iterator[None]:
    """Let every client send so many bytes a second, and no more; Kafka's own tool says so."""
    tool = [str(java()), "-cp", class_path(fetched()), "kafka.admin.ConfigCommand"]
    tool += ["--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", "clients", "--entity-default"]
    server.run([*tool, "--add-config", f"producer_byte_rate={QUOTA_BYTES}"], "setting a quota")
    try:
        yield
    finally:
        server.run([*tool, "--delete-config", "producer_byte_rate"], "taking the quota back")


@pytest.fixture(scope="module")
def bench(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkBench]:
    with shared_bench(broker.bootstrap, tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.mark.campaign
def test_a_quota_makes_a_day_slow_and_no_more(broker: KafkaBroker, bench: SinkBench) -> None:
    rows = large(TUESDAY, 5_000_000)
    staged = bench.stage(TUESDAY, events(*rows))
    started = time.monotonic()
    with quota(broker):
        assert bench.publish(staged).generation == 1
    assert time.monotonic() - started > 2, "the broker did not hold its clients back"
    bench.holds(TUESDAY, rows)
