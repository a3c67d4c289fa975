"""One publisher's access to its Kafka cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.kafka.connection import librdkafka_settings, make_admin_client
from airflow_provider_connect.clients.kafka.errors import ClientErrors
from airflow_provider_connect.clients.kafka.topic_reader import EndOffsets, read_end_offsets
from airflow_provider_connect.clients.kafka.transaction import Transaction
from airflow_provider_connect.sink import Connections, StreamKey
from airflow_provider_connect.sinks._kafka.ledger.kafka_ledger import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.view import LedgerHandover, TopicView
from airflow_provider_connect.sinks._kafka.topics import TopicAdmin
from airflow_provider_connect.sinks._kafka.turn import Turn

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from airflow_provider_connect.sinks._kafka.options import KafkaOptions


class Cluster:
    """Admin client, ledger, transactions and turns for one stream. Thread-safe."""

    def __init__(self, options: KafkaOptions, stream_key: StreamKey, connections: Connections) -> None:
        self.options = options
        self.key = stream_key
        self.connections = connections
        self.connection = connections[options.conn_id]
        self.client_errors = ClientErrors()
        self._admin: AdminClient | None = None
        self._ledger: KafkaLedger | None = None
        self._lock = threading.Lock()

    @property
    def admin(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                self._admin = make_admin_client(self.connection, self.client_errors)
            return self._admin

    def end_offsets(self, topics: Iterable[str], *, committed: bool = False) -> EndOffsets:
        """Return the topics' end offsets. ``committed`` ends at the first open transaction."""
        return read_end_offsets(
            self.admin, topics, self.options.timeout_seconds, self.client_errors, committed=committed
        )

    @property
    def ledger(self) -> KafkaLedger:
        with self._lock:
            if self._ledger is None:
                self._ledger = self.ledger_from(None)
            return self._ledger

    def ledger_from(self, handover: LedgerHandover | None) -> KafkaLedger:
        """Return a ledger that continues from the driver's handover, if given."""
        return KafkaLedger(self.connection, self.options, self.key, handover)

    def transaction(
        self, transactional_id: str, settings: dict[str, Any] | None = None, *, description: str | None = None
    ) -> Transaction:
        timeouts = self.options.timeout_seconds, self.options.transaction_timeout_seconds
        return Transaction(self.connection, transactional_id, *timeouts, settings, description=description)

    def turn(self, view: TopicView, transactional_id: str, topics: list[str], description: str, begin_id: str) -> Turn:
        timeouts = self.options.transaction_timeout_seconds, self.options.timeout_seconds
        return Turn(self.connection, view, transactional_id, topics, description, begin_id, *timeouts)

    def topics(self) -> TopicAdmin:
        options = self.options
        return TopicAdmin(
            self.admin,
            options.topic_rules,
            options.timeout_seconds,
            self.client_errors,
            librdkafka_settings(self.connection),
        )

    def close(self) -> None:
        with self._lock:
            self._admin = None
