"""Runs of a Kafka source into a Delta table, and the topic that they read."""

from __future__ import annotations

import itertools
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from deltalake import DeltaTable

from airflow_provider_connect.connection import Connection
from tests.standins.kafka_broker import KafkaBroker

if TYPE_CHECKING:
    from tests.integration.conftest import Driven, Submitter

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
