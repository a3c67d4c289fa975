"""Kafka sink: publishes a day into a topic as one transaction, so that readers of committed records see all or nothing.

Readers need ``isolation.level=read_committed``. Guide: ``docs/kafka.md``.

**Connection.** Airflow's ``kafka`` type. The extra holds librdkafka's settings.

**Delivery.** ``delivery="exactly_once"`` (default) publishes each (day, generation) once, in one transaction or with
``atomicity="partition"`` in one for each staged file. ``"at_least_once"`` uses none, and a retry may repeat records
with the same key and event id. A reload appends the day as the next generation.

**Ledger.** Compacted topic ``__connect_ledger``, written in the day's transaction, with a record for each (connector,
stream, topic, day).

**Records.** Key: ``key_fields`` in the format of ``key_converter``. Value: ``value_converter``, with ``day`` as the
first field unless the topic is compacted. Headers ``connect.…``: connector, stream, day, generation, event_id, position
and, with a registry, schema_version.

**Schema.** ``avro``, ``json_schema`` and ``protobuf`` need a Schema Registry with Confluent's API. An incompatible
schema fails the day before its first record. Without a registry, a changed type fails the day (``schema_contract``).

**Limits.** ``transaction_timeout_seconds`` and the broker's ``transaction.max.timeout.ms``. Larger days are refused
before the first record. Days of a topic are sent one at a time (``turns="topic"``). Without turns, or with two ledgers
for one topic, readers see parts of a day while another day is sent.

**Errors.** An absent broker, a full disk and a fenced producer are retried. Missing rights, unknown topics, TLS and
SASL errors are not. Rows that cannot become records fail the day, or go to ``dead_letter_topic`` with
``errors_tolerance="all"``.

Vendor facts: https://kafka.apache.org/documentation/, https://github.com/confluentinc/librdkafka (2026-11).
"""

from __future__ import annotations

from typing import ClassVar

from airflow_provider_connect.connection import Dataset
from airflow_provider_connect.sink import Connections, Publisher, StreamKey
from airflow_provider_connect.sinks._kafka.options import KafkaOptions


class KafkaSink(KafkaOptions):
    """Options of a Kafka topic as a sink."""

    name: ClassVar[str] = "kafka"
    stream_option: ClassVar[str] = "topic"

    def check(self, connections: Connections) -> list[str]:
        """Validate options and connections without network access."""
        from airflow_provider_connect.clients.kafka.connection import check_connection  # noqa: PLC0415

        problems = check_connection(connections[self.conn_id], self.delivery)
        if self.registry_conn_id is not None:
            from airflow_provider_connect.clients.kafka.registry import check_connection as check_registry  # noqa: PLC0415

            problems += check_registry(connections[self.registry_conn_id])
        return problems

    def dataset(self, connections: Connections) -> Dataset:
        """Return the first bootstrap server and the topic."""
        from airflow_provider_connect.clients.kafka.connection import broker_namespace  # noqa: PLC0415

        return Dataset(broker_namespace(connections[self.conn_id]), self.topic)

    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return a publisher for one stream."""
        from airflow_provider_connect.sinks._kafka.publisher import KafkaPublisher  # noqa: PLC0415

        return KafkaPublisher(self, key, connections)
