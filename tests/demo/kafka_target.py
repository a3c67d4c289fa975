"""The demo's Kafka topic: in its own broker, read by the package's reader and by a plain consumer."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from airflow_provider_connect.readers.kafka import newest_days, records
from tests.demo.target import Target
from tests.standins.kafka_broker import KafkaBroker, fetched
from tests.standins.kafka_reader import Reader, ledger_entries

TOPIC = "mixpanel_events"
LEDGER = "__connect_ledger"


class KafkaTarget(Target):
    """A topic of three partitions in a broker, which stays up until ``make demo-stop``."""

    name: ClassVar[str] = "kafka"
    dag_id: ClassVar[str] = "mixpanel_to_kafka"
    reader: ClassVar[str] = "a read_committed consumer"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.broker = KafkaBroker(folder / "kafka", settings={"num.partitions": "3"})

    @property
    def connections(self) -> list[dict[str, Any]]:
        """The Kafka connection: its extra holds librdkafka's settings."""
        extra = json.dumps(self.broker.connection_extra)
        return [{"connection_id": "kafka_default", "conn_type": "kafka", "extra": extra}]

    def as_kept(self, properties: str) -> str:
        """Return the document: a record holds it as part of its JSON, not as text."""
        return json.dumps(json.loads(properties), sort_keys=True)

    def where_to_look(self, dag_url: str) -> str:
        """Return where to find the UI and the broker."""
        return f"{super().where_to_look(dag_url)}, Kafka at {self.broker.bootstrap}"

    def start(self, environment: dict[str, str]) -> str:
        """Fetch Kafka if it is missing, and start a broker without topics."""
        fetched()
        shutil.rmtree(self.broker.folder, ignore_errors=True)
        self.broker.env = environment
        self.broker.start()
        return f"a Kafka broker listens on {self.broker.bootstrap}"

    def rows(self) -> int:
        """Return how many rows the ledger counts; 0 while there is none."""
        return sum(entry["row"]["rows"] for _, entry in self._ledger())

    def events(self) -> Iterator[tuple[dt.date, str, str]]:
        """Yield day, event and properties of every record of its day's newest generation."""
        settings = self.broker.connection_extra
        for day, message in records(settings, newest_days(settings, TOPIC, ledger_topic=LEDGER)):
            value = json.loads(message.value() or b"null")
            yield day.day, value["event"], json.dumps(value["properties"])

    def sample(self) -> list[tuple[Any, ...]]:
        """Return place, headers and value of the first three records."""
        with self._read() as reader:
            return [
                (
                    f"partition {record.partition} offset {record.offset}",
                    *(f"{name}={value}" for name, value in record.headers.items()),
                    f"{(record.value or b'').decode()[:80]}…",
                )
                for record in islice(reader.read(), 3)
            ]

    def more(self) -> list[str]:
        """Return lines with every partition's offsets and the ledger."""
        with self._read() as reader:
            offsets = reader.offsets().items()
        lines = ["", f"Offsets of {TOPIC}, each commit's marker counted:"]
        lines += [f"  partition {partition}: {low:,} to {high:,}" for partition, (low, high) in offsets]
        lines += ["", f"The ledger, {LEDGER}:"]
        for key, entry in self._ledger():
            row = entry["row"]
            lines.append(f"  {key[3]}: generation {row['generation']}, {row['rows']:,} rows, by {row['run']}")
        return lines

    def _read(self) -> Reader:
        return Reader(self.broker.bootstrap, TOPIC)

    def _ledger(self) -> list[tuple[list[Any], dict[str, Any]]]:
        return ledger_entries(self.broker.bootstrap, LEDGER)
