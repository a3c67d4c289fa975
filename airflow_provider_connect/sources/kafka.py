"""Topics of a Kafka cluster, as increments: each run reads the records since the last run's, each of them once.

.. code-block:: python

    KafkaSource(topics=["orders"], columns={"id": "bigint", "amount": "decimal(12,2)"})

``docs/topics.md`` has the converters, envelopes and sinks.

**Connection** (type ``kafka``, that of Airflow's Kafka provider)

============ =====================================================================================
host, port   a broker, where the extra has no ``bootstrap.servers``
login        user of SASL
password     password of the user
extra        ``schema.registry.url``, ``.login`` and ``.password`` for Avro and Protobuf, and librdkafka's settings: https://docs.confluent.io/platform/current/clients/librdkafka/html/md_CONFIGURATION.html
             (2026-11)
============ =====================================================================================

The user needs DESCRIBE and READ on the topics. The consumer joins no group and commits no offset.

**Days.** A run reads from the offsets where the sink's newest increment ended up to the stable end at its start: the
records of finished transactions (``read_committed``). The rows get the run's day in ``zone``. A run that is cleared
reads its own offsets again. What a transaction hides that is open then, the next run reads.
With ``read_by="timestamp"`` a run reads the records whose timestamps lie in its day, with
``read_by="generation"`` its day as a KafkaSink published it last.

**Rows.** With ``key_columns`` and ``columns`` their fields stand in place of ``kafka_key`` and ``value``

.. code-block:: sql

    kafka_key        STRING,              -- BINARY for key_converter="bytes"
    value            STRING,              -- BINARY for value_converter="bytes"
    kafka_delete     BOOLEAN NOT NULL,    -- a record without a value, or Debezium's delete
    kafka_topic      STRING NOT NULL,
    kafka_partition  INT NOT NULL,
    kafka_offset     BIGINT NOT NULL,
    kafka_timestamp  TIMESTAMP,
    record_key       STRING NOT NULL      -- 32 hex digits

``own_columns`` adds ``kafka_headers``, a JSON array of names and values. A value that is no JSON object, or does not
fit its column's type, fails the run, unless ``errors_tolerance`` is ``all``. A field that a record lacks is null.

**Key.** ``record_key`` is XXH3-128 over topic id, partition and offset. A topic that is made again has another id.

**Counts** in the report: ``rejected`` (records set aside) and ``without_row`` (Debezium's truncations, messages and,
without ``key_columns``, the tombstones that follow its deletes), ``records_of_day`` (of a generation),
``without_timestamp`` and, by timestamp, late records.

**Limits.** Spark tasks share the offsets (``records_per_task``), at most 64 tasks. A consumer holds about 32 MB of
fetched records, and a batch has about 8 MB. A stream has room for
about 10,000 partitions.

**Errors.** Retriable: a broker that does not answer, a topic made again during the run. A person must correct
credentials, rights and names, and decide on records that were deleted before they were read (``on_lost``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from pydantic import model_validator

from airflow_provider_connect.capabilities.source import CountsLate, Inspects, NamesColumns
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.connector import C
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.findings import Finding
from airflow_provider_connect.polling.quota.turns import KeyStore
from airflow_provider_connect.source import PollContext, Poller
from airflow_provider_connect.sources._kafka.options import KafkaOptions, option_problems
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import Day


class KafkaSource(KafkaOptions, CountsLate, NamesColumns, Inspects):
    """The records of one or more topics, by offset.

    :raises ConfigError: lists all problems of the options.
    """

    name: ClassVar[str] = "kafka"
    connection_types: ClassVar[tuple[str, ...]] = ("kafka",)
    row_options: ClassVar[Mapping[str, RowRole]] = {
        "topics": "narrowing",
        "topics_pattern": "narrowing",
        "start": "narrowing",
        "read_by": "reading",
        "published_stream": "narrowing",
        "key_converter": "reading",
        "value_converter": "reading",
        "envelope": "reading",
        "zone": "reading",
    }

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if problems := option_problems(self):
            raise ValueError("; ".join(problems))
        return self

    @property
    def stream_key(self) -> str:
        """Connection and stream, joined by a dot."""
        return f"{self.conn_id}.{self.stream_name}"

    @property
    def timezone(self) -> str:
        """Option ``zone``."""
        return self.zone

    def capability(self, kind: type[C]) -> C | None:
        """Return a capability, or None. Only timestamps show late records."""
        return None if kind is CountsLate and self.read_by != "timestamp" else super().capability(kind)

    def column_names(self) -> list[str]:
        """Return the names of all columns."""
        from airflow_provider_connect.sources._kafka.rows import schema_of  # noqa: PLC0415  # not for DAG files

        return list(schema_of(self).names)

    def check(self, connection: Connection) -> list[str]:
        """Return the problems of the connection."""
        from airflow_provider_connect.clients.kafka.connection import check_connection  # noqa: PLC0415  # not for DAG files

        problems = check_connection(connection)
        return problems + self._registry_problems(connection) if self.registry_converters else problems

    def _registry_problems(self, connection: Connection) -> list[str]:
        from airflow_provider_connect.clients.kafka.connection import registry_connection  # noqa: PLC0415  # not for DAG files
        from airflow_provider_connect.clients.kafka.registry import check_connection  # noqa: PLC0415  # not for DAG files

        try:
            return check_connection(registry_connection(connection))
        except ConfigError as error:
            return [str(error)]

    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> Sequence[Finding]:
        """Return the number of topics, partitions and offsets that a first run would read. Reads no record."""
        from airflow_provider_connect.sources._kafka.cluster import Cluster  # noqa: PLC0415  # not for DAG files

        cluster = Cluster(connection, self.timeout_seconds)
        states = cluster.topic_states(cluster.topic_names(self))
        bounds = [partition for state in states for partition in state.bounds.values()]
        offsets = sum(partition.stable_end - partition.first for partition in bounds)
        text = f"{len(states)} topics with {len(bounds)} partitions and {offsets:,} offsets of records"
        return [Finding("topics", "ok", text)]

    def dataset(self, connection: Connection) -> Dataset:
        """Return the first bootstrap server and the topics."""
        from airflow_provider_connect.clients.kafka.connection import broker_namespace  # noqa: PLC0415  # not for DAG files

        return Dataset(broker_namespace(connection), self.stream_name)

    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the poller."""
        from airflow_provider_connect.sources._kafka.opening import open_poller  # noqa: PLC0415  # too heavy for a DAG file

        return open_poller(self, connection)
