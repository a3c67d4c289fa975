"""Kafka's own Java consumer beside days that are published at once: it never sees a part of one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import MONDAY, events
from tests.equipment.kafka.bench import PARTITIONS, SinkBench, running_bench
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

AT_ONCE = 8
ROWS = tuple(f"e{number}" for number in range(600))


class JavaWatch:
    """A plain consumer of committed records; at each end of what it may see it compares what it has of each day.

    Its own lag tells the end: 0 is where the last answer said that committed records end.
    """

    def __init__(self, java: Any, bootstrap: str, topic: str) -> None:
        kafka = java.org.apache.kafka
        settings = java.java.util.Properties()
        given = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        given |= {"enable.auto.commit": "false", "max.poll.records": "100000"}
        for name, value in given.items():
            settings.setProperty(name, value)
        text = kafka.common.serialization.StringDeserializer()
        self.consumer = kafka.clients.consumer.KafkaConsumer(settings, text, text)
        self.places = [kafka.common.TopicPartition(topic, number) for number in range(PARTITIONS)]
        self.consumer.assign(self.places)
        self.wait = java.java.time.Duration.ofMillis(50)
        self.found: Counter[tuple[int, str]] = Counter()
        self.whole: dict[tuple[int, str], int] = {}
        self.torn: list[str] = []

    def look(self) -> int:
        """Read what there is; return how many records that was."""
        records = self.consumer.poll(self.wait)
        for number, place in enumerate(self.places):
            some = records.records(place)
            for index in range(some.size()):
                header = some.get(index).headers().lastHeader("connect.day")
                self.found[number, bytes(header.value()).decode()] += 1
            lag = self.consumer.currentLag(place)
            if lag.isPresent() and lag.getAsLong() == 0:
                self._compare(number)
        return int(records.count())

    def _compare(self, number: int) -> None:
        for seen, count in self.found.items():
            if seen[0] == number and self.whole.setdefault(seen, count) != count:
                self.torn.append(f"{seen}: {self.whole[seen]} at one end, {count} at a later one")


@pytest.fixture
def bench(broker: KafkaBroker, tmp_path: Path) -> Iterator[SinkBench]:
    with running_bench(broker.bootstrap, tmp_path, timeout_seconds=60) as made:
        yield made


def test_a_java_consumer_never_sees_a_part_of_a_day(bench: SinkBench, kafka_java: Any) -> None:
    watch = JavaWatch(kafka_java, bench.bootstrap, bench.sink.topic)
    days = [MONDAY + ONE_DAY * number for number in range(AT_ONCE)]
    staged = [bench.stage(day, events(*ROWS), order=number + 1) for number, day in enumerate(days)]
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:

        def publish() -> list[int]:
            try:
                with ThreadPoolExecutor(AT_ONCE) as publishers:
                    return [row.rows for row in publishers.map(bench.publish, staged)]
            finally:
                done.set()

        publishing = pool.submit(publish)
        while not done.is_set():
            watch.look()
        assert publishing.result(60) == [len(ROWS)] * AT_ONCE
    bench.watch.caught_up()
    quiet = 0
    while quiet < 5:
        quiet = 0 if watch.look() else quiet + 1
    watch.consumer.close()
    assert watch.torn == []
    by_day = Counter[str]()
    for (_, day), count in watch.found.items():
        by_day[day] += count
    assert by_day == {str(day): len(ROWS) for day in days}
