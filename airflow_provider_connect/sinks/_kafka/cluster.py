"""What one publisher keeps of the cluster: a client to ask with, and the stream's ledger."""

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
    """One stream and the cluster it is published into; safe to use from several threads.

    Kept is what librdkafka makes safe for threads, the admin client, and what is known of the ledger. Producers belong
    to one transaction, and consumers to one thread: whoever needs one opens it.
    """

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
        """The client to ask about topics.

        :raises ConfigError: librdkafka refuses a setting of the connection.
        """
        with self._lock:
            if self._admin is None:
                self._admin = make_admin_client(self.connection, self.client_errors)
            return self._admin

    def end_offsets(self, topics: Iterable[str], *, committed: bool = False) -> EndOffsets:
        """Return where topics end: for all readers, or for those of committed records."""
        return read_end_offsets(
            self.admin, topics, self.options.timeout_seconds, self.client_errors, committed=committed
        )

    @property
    def ledger(self) -> KafkaLedger:
        """The stream's ledger."""
        with self._lock:
            if self._ledger is None:
                self._ledger = self.ledger_from(None)
            return self._ledger

    def ledger_from(self, handover: LedgerHandover | None) -> KafkaLedger:
        """Return the stream's ledger, read on from what a driver handed over; from what this process knows for None."""
        return KafkaLedger(self.connection, self.options, self.key, handover)

    def transaction(
        self, transactional_id: str, settings: dict[str, Any] | None = None, *, description: str | None = None
    ) -> Transaction:
        """Return a producer with a transactional id; see :class:`.Transaction`."""
        timeouts = self.options.timeout_seconds, self.options.transaction_timeout_seconds
        return Transaction(self.connection, transactional_id, *timeouts, settings, description=description)

    def turn(self, view: TopicView, transactional_id: str, topics: list[str], description: str, begin_id: str) -> Turn:
        """Return the way of one publish, or erase, through the queue of its topics; see :class:`.Turn`."""
        timeouts = self.options.transaction_timeout_seconds, self.options.timeout_seconds
        return Turn(self.connection, view, transactional_id, topics, description, begin_id, *timeouts)

    def topics(self) -> TopicAdmin:
        """Return the cluster's topics; each of these looks anew."""
        options = self.options
        return TopicAdmin(
            self.admin,
            options.topic_rules,
            options.timeout_seconds,
            self.client_errors,
            librdkafka_settings(self.connection),
        )

    def close(self) -> None:
        """Let go of the admin client; a later question makes another."""
        with self._lock:
            self._admin = None
