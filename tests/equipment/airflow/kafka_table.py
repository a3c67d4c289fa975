"""A Kafka topic of the system tests, read by a consumer without the sink's code."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_provider_connect.sinks.kafka import KafkaSink
from tests.equipment.airflow.tables import Published, Table
from tests.equipment.kafka.fixtures import records
from tests.standins.kafka_broker import KafkaBroker
from tests.standins.kafka_reader import KafkaRecord, Reader, ledger_entries

LEDGER = "__connect_ledger"
AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)


def newest(bootstrap: str, topic: str) -> Iterator[KafkaRecord]:
    """Yield the records of each day's newest generation, by their headers only, without the ledger."""
    generations: dict[str, int] = {}
    with Reader(bootstrap, topic) as reader:
        for record in reader.read():
            generations[record.day] = max(record.generation, generations.get(record.day, 0))
    with Reader(bootstrap, topic) as reader:
        yield from (record for record in reader.read() if record.generation == generations.get(record.day))


@dataclass
class OnKafka(Table):
    """One topic and its broker, which may be killed."""

    broker: KafkaBroker
    topic: str
    bouncing: threading.Lock = field(default_factory=threading.Lock)
    reader: Reader | None = None
    counted: Counter[tuple[str, int]] = field(default_factory=Counter)

    @property
    def target(self) -> str:
        return KafkaSink(topic=self.topic).target

    def records(self) -> list[KafkaRecord]:
        """Return all committed records, those of older generations too."""
        return records(self.broker.bootstrap, self.topic)

    def events(self) -> Iterator[tuple[object, str, str]]:
        for record in newest(self.broker.bootstrap, self.topic):
            value = json.loads(record.value or b"null")
            assert value["day"] == record.day
            yield record.day, value["event"], json.dumps(value["properties"])

    def counts(self) -> dict[str, int]:
        """Return the row count of each day's newest generation that a reader sees who continues from its last read.

        While the broker is away it sees nothing; the next read goes on.
        """
        try:
            if self.reader is None:
                self.reader = Reader(self.broker.bootstrap, self.topic)
            self.counted.update((record.day, record.generation) for record in self.reader.read())
        except KafkaException as error:
            if error.args[0].code() not in AWAY:
                raise
            return {}
        return {day: rows for (day, _), rows in sorted(self.counted.items())}

    def ledger(self) -> dict[str, Published]:
        published = ledger_entries(self.broker.bootstrap, LEDGER)
        rows = [(key[3], entry["row"]) for key, entry in published if key[2] == self.topic]
        return {day: Published(row["generation"], row["rows"]) for day, row in rows}

    def left_after_sweep(self) -> list[str]:
        """Return the partitions where an open transaction blocks readers of committed records."""
        committed, all_there_is = (self._ends(level) for level in IsolationLevel)
        return sorted(partition for partition, end in committed.items() if end != all_there_is[partition])

    def bounce(self, away_seconds: float) -> bool:
        with self.bouncing:
            self.broker.kill()
            time.sleep(away_seconds)
            self.broker.start()
        return True

    def _ends(self, level: IsolationLevel) -> dict[str, int]:
        admin = AdminClient(self.broker.connection_extra)
        topics = admin.list_topics(timeout=30).topics
        places = [TopicPartition(name, number) for name in (self.topic, LEDGER) for number in topics[name].partitions]
        ends = admin.list_offsets(dict.fromkeys(places, OffsetSpec.latest()), isolation_level=level, request_timeout=30)
        return {
            f"{partition.topic}/{partition.partition}": future.result(30).offset for partition, future in ends.items()
        }
