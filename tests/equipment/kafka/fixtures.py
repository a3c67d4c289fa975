"""Kafka as fixtures: one broker for the session, a new topic for each test; without it tests fail, not skip."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_connect.clients.kafka.connection import librdkafka_settings, make_admin_client
from airflow_provider_connect.clients.kafka.errors import ClientErrors
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sinks._kafka.topic_rules import TopicRules
from airflow_provider_connect.sinks._kafka.topics import TopicAdmin
from tests.standins.kafka_broker import KafkaBroker, Listener
from tests.standins.kafka_reader import Isolation, KafkaRecord, Reader, ledger_entries
from tests.standins.server import free_port

if TYPE_CHECKING:
    from tests.equipment.kafka.proxy import KafkaProxy


def opened_topics(connection: Connection, rules: TopicRules, timeout_seconds: float) -> TopicAdmin:
    """Return the topics of a cluster as a client of their own sees them."""
    reported = ClientErrors()
    return TopicAdmin(
        make_admin_client(connection, reported), rules, timeout_seconds, reported, librdkafka_settings(connection)
    )


def records(bootstrap: str, topic: str, isolation: Isolation = "read_committed") -> list[KafkaRecord]:
    """Return all records of a topic that a consumer sees now, by partition and offset; none if there is no topic."""
    with Reader(bootstrap, topic, isolation) as reader:
        return sorted(reader.read(), key=lambda record: (record.partition, record.offset))


@dataclass
class Target:
    """A sink whose topic is this test's own, and a reader of it; the key is the event."""

    sink: Any
    connections: dict[str, Connection]
    bootstrap: str

    def records(self, isolation: Isolation = "read_committed") -> list[KafkaRecord]:
        """Return all records of the topic."""
        return records(self.bootstrap, self.sink.topic, isolation)

    def rows(self) -> list[Any]:
        """Return day and event of every row of each day's and span's newest generation, which the ledger knows."""
        entries = ledger_entries(self.bootstrap, self.sink.ledger_topic)
        generations = {
            (key[3], str((entry["row"].get("span") or {}).get("number"))): entry["row"]["generation"]
            for key, entry in entries
        }
        return [
            (dt.date.fromisoformat(record.day), (record.key or b"").decode())
            for record in self.records()
            if record.generation == generations.get((record.day, record.headers.get("connect.span", "None")))
        ]


@pytest.fixture(scope="session")
def proxied() -> Iterator[tuple[Listener, KafkaProxy]]:
    """A listener that sends its clients through a proxy, and that proxy: both must stand before the broker does."""
    from tests.equipment.kafka.proxy import KafkaProxy

    port = free_port()
    with KafkaProxy(port) as proxy:
        yield Listener(port=port, advertised_port=proxy.port), proxy


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, proxied: tuple[Listener, KafkaProxy]) -> Iterator[KafkaBroker]:
    """One running broker for the whole session."""
    started = KafkaBroker(tmp_path_factory.mktemp("kafka"), listeners={"PROXIED": proxied[0]})
    started.start()
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture
def kafka_proxy(broker: KafkaBroker, proxied: tuple[Listener, KafkaProxy]) -> Iterator[KafkaProxy]:
    """A fault proxy in front of the broker, which breaks nothing yet: connect to its ``bootstrap``."""
    proxied[1].forget()
    yield proxied[1]
    proxied[1].forget()


@pytest.fixture(scope="session")
def kafka_connection(broker: KafkaBroker) -> Connection:
    """A connection straight to the broker."""
    return Connection(conn_id="kafka_default", conn_type="kafka", extra=broker.connection_extra)


@pytest.fixture
def kafka_target(broker: KafkaBroker, kafka_connection: Connection) -> Target:
    """A topic of this test's own, and a ledger too."""
    from airflow_provider_connect.sinks.kafka import KafkaSink

    own = uuid.uuid4().hex
    sink = KafkaSink(topic=f"events-{own}", key_fields=("event",), ledger_topic=f"ledger-{own}")
    return Target(sink, {"kafka_default": kafka_connection}, broker.bootstrap)
