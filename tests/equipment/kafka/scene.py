"""A Kafka sink of any options and columns over the session's broker, and its topics as a consumer sees them."""

from __future__ import annotations

import datetime as dt
import json
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.readers.kafka import newest_days
from airflow_provider_connect.readers.kafka import records as read
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks.kafka import KafkaSink
from tests.equipment.frozen import MONDAY, SCHEMA, freeze
from tests.equipment.kafka.bench import connection_to
from tests.equipment.kafka.fixtures import records
from tests.equipment.kafka.steps import Steps
from tests.standins.kafka_reader import KafkaRecord, ledger_entries

SETTLE_SECONDS = 10.0


@dataclass(frozen=True)
class Scene(Steps):
    """A sink, its connections, and its topics.

    :param name: begins the names of all topics of this scene.
    """

    sink: KafkaSink
    connections: dict[str, Connection]
    bootstrap: str
    root: Path
    name: str
    schema: pa.Schema = SCHEMA

    def having(self, schema: pa.Schema | None = None, **options: Any) -> Scene:
        """Return the same scene with other options of the sink, checked as a DAG's are."""
        chosen = {name: getattr(self.sink, name) for name in self.sink.model_fields_set} | options
        return replace(self, sink=KafkaSink(**chosen), schema=schema or self.schema)

    def connecting(self, **settings: str) -> Scene:
        """Return the same scene with more in the connection's extra; the ``__`` in names of settings stand for dots."""
        extra = {name.replace("__", "."): value for name, value in settings.items()}
        known = self.connections[self.sink.conn_id]
        connection = known.model_copy(update={"extra": known.extra | extra})
        return replace(self, connections=self.connections | {known.conn_id: connection})

    def stage(self, day: dt.date, *files: pa.Table, **how: Any) -> Publish:
        """Look into the ledger and freeze a day, as a driver does."""
        found = {"seen": seen_publish(self.ledger.newest(day, "day")), "schema": self.schema}
        return freeze(self.root, day, *files, **found | how)

    def commit(self, token: Any, staged: Publish, receipts: list[Any]) -> LedgerRow:
        return self.publisher.commit(staged, token, receipts)

    def publish(self, staged: Publish) -> LedgerRow:
        token = self.begin(staged)
        return self.commit(token, staged, self.put(token, staged))

    def entry(self, day: dt.date = MONDAY) -> dict[str, Any]:
        """Return a day's ledger entry, as JSON."""
        self.settle(self.sink.ledger_topic)
        found = {key[3]: entry for key, entry in ledger_entries(self.bootstrap, self.sink.ledger_topic)}
        return found[str(day)]

    def records(self, topic: str | None = None, isolation: Any = "read_committed") -> list[KafkaRecord]:
        """Return the records of a topic, the sink's own by default."""
        name = topic or self.sink.topic
        if isolation == "read_committed":
            self.settle(name)
        return records(self.bootstrap, name, isolation)

    def settle(self, topic: str) -> None:
        """Wait until readers see what is committed: a commit is answered before every partition has its marker."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._ends(topic, "read_committed") != self._ends(topic, "read_uncommitted"):
            assert time.monotonic() < deadline, f"a transaction is open in {topic}"
            time.sleep(0.01)

    def _ends(self, topic: str, isolation: str) -> dict[int, int]:
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "ends", "isolation.level": isolation})
        try:
            partitions = reader.list_topics(topic, timeout=10).topics[topic].partitions
            return {part: reader.get_watermark_offsets(TopicPartition(topic, part), 10)[1] for part in partitions}
        finally:
            reader.close()

    def values(self, topic: str | None = None) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"null") for record in self.records(topic)]

    def keys(self, day: dt.date = MONDAY, topic: str | None = None) -> dict[int, list[str]]:
        """Return the keys of a day's records, sorted, by the generation that their headers name."""
        found: dict[int, list[str]] = defaultdict(list)
        for record in self.records(topic):
            if record.day == str(day):
                found[record.generation].append((record.key or b"").decode())
        return {generation: sorted(keys) for generation, keys in found.items()}

    def newest_keys(self, **how: Any) -> list[str]:
        """Return the keys of each day's newest generation, sorted, as the package's own reader finds them."""
        settings = {"bootstrap.servers": self.bootstrap}
        days = newest_days(settings, self.sink.topic, ledger_topic=self.sink.ledger_topic, timeout_seconds=20)
        return sorted((message.key() or b"").decode() for _, message in read(settings, days, timeout_seconds=20, **how))

    def topics(self) -> set[str]:
        """Return the topics of this scene."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return {name for name in admin.list_topics(timeout=10).topics if name.startswith(self.name)}

    def config(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic."""
        from confluent_kafka.admin import ConfigResource, ResourceType

        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return {name: entry.value for name, entry in future.result(20).items()}


def scene_of(bootstrap: str, root: Path, **options: Any) -> Scene:
    """Return a scene with its own topic and ledger, not yet created."""
    name = f"s-{uuid.uuid4().hex[:12]}"
    own = {"topic": f"{name}-events", "ledger_topic": f"{name}-ledger", "key_fields": ("event",), "timeout_seconds": 20}
    return Scene(KafkaSink(**own | options), {"kafka_default": connection_to(bootstrap)}, bootstrap, root, name)
