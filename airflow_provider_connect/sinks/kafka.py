"""Kafka topic: a day is one transaction, and appears whole to readers of committed records.

One producer sends the frozen day and its ledger record in **one** transaction. A consumer with
``isolation.level=read_committed`` sees all of it or nothing; any other sees aborted tries as well.

**Connection.** Airflow's own ``kafka`` type, with that provider installed or without it: the extra holds librdkafka's
settings (``bootstrap.servers``, ``security.protocol``, ``sasl.…``, ``ssl.…``). Rights: WRITE and DESCRIBE on the topics
and on transactional ids that begin with ``connect-``, READ on the ledger's topic, CREATE where topics are made.

**Delivery.** ``delivery="exactly_once"`` (default): each (day, generation) once. ``atomicity="day"``: one transaction.
``"partition"``: a transaction for each staged file, in parallel, for days that take longer than a transaction may: a
part of a day is visible before the rest. ``"at_least_once"``: an idempotent producer without a transaction; a retry may
send records again, with the same key and event id. A reload appends the day once more, as the next generation.

**Ledger.** Compacted topic ``__connect_ledger``: a record for each (connector, stream, topic, day), written by the
transaction of the data: generation, intent, rows, digest, counts, and the offsets between which the records lie. Others
say which definition of the stream is in force, and hold its notes.

**Records.** Key: ``key_fields``, by ``key_converter``. Value: ``value_converter``, with the day as first field ``day``
unless the topic is compacted. Headers ``connect.…``: connector, stream, day, generation, event_id, position and, with a
registry, schema_version; ``headers=False`` is faster.
``topic="mixpanel_{event}"`` makes a topic of each value of a column. Tombstones where ``delete_where`` is true.

**Schema.** With ``avro``, ``json_schema`` and ``protobuf`` a Confluent-compatible Schema Registry is asked before the
first record; an incompatible schema fails the day with the field's name. For the other converters the ledger remembers
the columns: new ones are written, a changed type fails the day with the column's name (``schema_contract``).

**Limits.** One transaction lasts as long as ``transaction_timeout_seconds`` and the broker's
``transaction.max.timeout.ms`` allow; days that are too large for that are refused before the first record. While a day
is being sent, readers of committed records wait at its first record, also for other days in the same partitions.

**Turns.** Days of one topic are sent one at a time (``turns="topic"``), by a queue in the ledger's topic, so that a
plain reader of committed records sees each whole. With ``turns="off"``, with ``atomicity="partition"``, or with two
ledgers over one topic, it sees a part of a day while another one is being sent.

**Errors.** A broker that is away, a full disk and a fenced producer are retriable. Rights, unknown topics, TLS and SASL
are for a person to mend. Rows that cannot become records fail the day, or go to ``dead_letter_topic`` in the same
transaction with ``errors_tolerance="all"``.

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

    def check(self, connections: Connections) -> list[str]:
        """Say what is wrong with the options and the connections; no network."""
        from airflow_provider_connect.clients.kafka.connection import check_connection  # noqa: PLC0415

        problems = check_connection(connections[self.conn_id], self.delivery)
        if self.registry_conn_id is not None:
            from airflow_provider_connect.clients.kafka.registry import check_connection as check_registry  # noqa: PLC0415

            problems += check_registry(connections[self.registry_conn_id])
        return problems

    def dataset(self, connections: Connections) -> Dataset:
        """Return the first bootstrap server, and the topic."""
        from airflow_provider_connect.clients.kafka.connection import librdkafka_settings  # noqa: PLC0415

        servers = librdkafka_settings(connections[self.conn_id]).get("bootstrap.servers", "")
        host = servers.split(",")[0].strip().rpartition("/")[2]
        return Dataset(f"kafka://{host if ':' in host else f'{host}:9092'}", self.topic)

    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return what publishes the days of one stream into the topic."""
        from airflow_provider_connect.sinks._kafka.publisher import KafkaPublisher  # noqa: PLC0415

        return KafkaPublisher(self, key, connections)
