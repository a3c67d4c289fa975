"""Kafka topic: a day is one transaction, and appears whole to readers of committed records.

One producer sends the frozen day and its ledger record in **one** transaction. A consumer with
``isolation.level=read_committed`` sees all of it or nothing; one without sees aborted tries as well.

**Connection.** Airflow's own ``kafka`` type, with that provider installed or without it: the extra holds librdkafka's
settings (``bootstrap.servers``, ``security.protocol``, ``sasl.…``, ``ssl.…``). Rights: WRITE and DESCRIBE on the topics
and on transactional ids that begin with ``connect-``, READ on the ledger's topic, CREATE where topics are made.

**Delivery.** ``delivery="exactly_once"`` (default): each (day, generation) once. ``atomicity="day"``: one transaction.
``"partition"``: a transaction for each staged file, in parallel, for days that take longer than a transaction may: a
part of a day is visible before the rest. ``"at_least_once"``: an idempotent producer without a transaction; a retry may
send records again, with the same key and event id. A reload appends the day once more, as the next generation.

**Ledger.** Compacted topic ``__connect_ledger``: a record for each (connector, stream, topic, day), written by the
transaction of the data: generation, intent, rows, digest, counts, and the offsets between which the records lie.

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
are for a person to mend. Rows that are no records fail the day, or go to ``dead_letter_topic`` in the same transaction
with ``errors_tolerance="all"``.

Vendor facts: https://kafka.apache.org/documentation/, https://github.com/confluentinc/librdkafka (2026-11).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from urllib.parse import quote

from pydantic import Field, field_validator, model_validator

from airflow_provider_connect.sink import Connections, LedgerRow, Publish, Sink, StreamKey
from airflow_provider_connect.sinks._kafka.converters import ConverterName
from airflow_provider_connect.sinks._kafka.keys import KeyConverterName
from airflow_provider_connect.sinks._kafka.names import MAX_NAME, check_template, check_topic, column
from airflow_provider_connect.sinks._kafka.topic_rules import TopicGroup, TopicRules
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._kafka.ledger.days import KafkaLedger
    from airflow_provider_connect.sinks._kafka.ledger.view import Handed
    from airflow_provider_connect.sinks._kafka.publisher import Publisher
    from airflow_provider_connect.sinks._kafka.records import Plan

_DEAD_LETTERS = ".dead_letters"
_REGISTRY_CONVERTERS = ("avro", "json_schema", "protobuf")
_REGISTERED = f"value_converter {', '.join(_REGISTRY_CONVERTERS)}"
_OR_KEY = ", or such a key_converter"
_NAMED = f"{_REGISTERED}, json_schema_envelope"


class KafkaSink(Sink):
    """Options of a Kafka topic as a sink."""

    name: ClassVar[str] = "kafka"
    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {
        "conn_id": ("kafka",),
        "registry_conn_id": ("http", "https", "generic"),
    }

    conn_id: str = Field(default="kafka_default", description="Airflow connection of type kafka.")
    topic: str = Field(
        description="Topic, or a template with one column of the source: 'mixpanel_{event}' makes one of each event.",
        examples=["mixpanel_events"],
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once", description="'at_least_once' takes no transaction; a retry may send records again."
    )
    atomicity: Literal["day", "partition"] = Field(
        default="day",
        description="What one transaction holds: the day, or one staged file each, sent in parallel, for days that "
        "take longer than a transaction may. For delivery='exactly_once'.",
    )
    turns: Literal["topic", "off"] = Field(
        default="topic",
        description="Whether days of one topic are sent one at a time, so that every reader of committed records sees "
        "each whole. With 'off' a reader may see a part of a day while another day is being sent. For "
        "delivery='exactly_once' with atomicity='day'.",
    )
    value_converter: ConverterName = Field(
        default="json", description="What a value looks like; avro, json_schema and protobuf need registry_conn_id."
    )
    value_field: str | None = Field(
        default=None, description="Source column that is the whole value; for value_converter='string' and 'bytes'."
    )
    record_name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$",
        description="Full name of the record in its schema, 'com.example.Event'; made of the topic's without it. For "
        "avro, json_schema, protobuf and json_schema_envelope.",
    )
    key_fields: tuple[str, ...] = Field(
        default=("record_key",),
        description="Source columns that make the record's key: one as its text, several as a JSON array; () for none.",
    )
    key_converter: KeyConverterName = Field(
        default="string",
        description="What a key looks like: 'string' as key_fields says; the others make a record of the key_fields. "
        "avro, json_schema and protobuf need registry_conn_id; the subject is '<topic>-key'.",
    )
    registry_conn_id: str | None = Field(
        default=None,
        description="Airflow connection of the Schema Registry: host is its URL, login and password the user.",
    )
    subject_strategy: Literal["topic", "record", "topic_record"] = Field(
        default="topic", description="How a schema's subject is named: '<topic>-value', the record's name, or both."
    )
    schema_registration: Literal["auto_register", "use_latest"] = Field(
        default="auto_register",
        description="Whether the source's schema is registered, or the newest registered one must hold its rows.",
    )
    schema_contract: Literal["evolve", "freeze", "ignore"] = Field(
        default="evolve",
        description="Without a registry: 'evolve' takes new columns and fails the day where a type changed since the "
        "newest published day, 'freeze' fails new columns too, 'ignore' looks at neither.",
    )
    headers: bool = Field(
        default=True, description="Whether records carry the connect.… headers; sending is faster without them."
    )
    timestamp_field: str | None = Field(
        default=None, description="Source column whose time is the record's timestamp; without it the time of sending."
    )
    delete_where: str | None = Field(
        default=None, description="Boolean source column: where it is true the record is a tombstone of its key."
    )
    partitioner: Literal[
        "murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a", "random"
    ] = Field(default="murmur2_random", description="librdkafka's partitioner; the default agrees with Java clients.")
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="lz4", description="Compression of what is sent."
    )
    create_disposition: Literal["if_needed", "never"] = Field(
        default="if_needed",
        description="Whether topics, the ledger's included, are made when they are missing. With 'never', "
        "the options of new topics count only in the command that the message shows.",
    )
    partitions: int | None = Field(
        default=None, ge=1, description="Of a new topic; the broker's own number without it."
    )
    replication_factor: int | None = Field(
        default=None, ge=1, description="Of a new topic; the broker's own number without it."
    )
    topic_config: dict[str, str] = Field(default_factory=dict, description="More settings of a new topic.")
    topic_groups: tuple[TopicGroup, ...] = Field(
        default=(), description="Other settings for new topics whose names match; the first group that does counts."
    )
    cleanup: Literal["delete", "compact"] = Field(
        default="delete",
        description="cleanup.policy of a new topic. With 'compact', a snapshot source's rows are compared with the "
        "topic: only what changed is sent, and a tombstone for what vanished.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="What happens to a row that is no record: 'none' fails the day, 'all' sends it to "
        "dead_letter_topic.",
    )
    max_rejects: int = Field(
        default=1000,
        ge=0,
        description="How many rows may be set aside before the day fails; for errors_tolerance='all'.",
    )
    dead_letter_topic: str | None = Field(
        default=None, description="Topic of dead letters; '<topic>.dead_letters' without it."
    )
    ledger_topic: str = Field(
        default="__connect_ledger",
        description="Compacted topic of the ledger; all streams of a cluster may share it.",
    )
    transaction_timeout_seconds: float = Field(
        default=900.0,
        ge=10,
        description="How long a transaction may be open; the broker's own limit is 900 by default.",
    )
    timeout_seconds: float = Field(
        default=60.0, gt=0, description="How long to wait for a broker that does not answer, or takes nothing."
    )

    @field_validator("topic")
    @classmethod
    def _is_topic(cls, topic: str) -> str:
        if problem := check_template(topic):
            raise ValueError(problem)
        return topic

    @model_validator(mode="after")
    def _modes(self) -> Self:
        problems = []
        if self.atomicity != "day" and self.delivery != "exactly_once":
            problems.append("atomicity: only with delivery='exactly_once'")
        if (self.value_field is not None) != (self.value_converter in ("string", "bytes")):
            problems.append("value_field belongs to value_converter='string' or 'bytes', which need it")
        if (self.registry_conn_id is not None) != (self.value_is_registered or self._key_is_registered):
            problems.append(f"registry_conn_id belongs to {_REGISTERED}{_OR_KEY}, which need it")
        if any("cleanup.policy" in config for config in (self.topic_config, *(g.config for g in self.topic_groups))):
            problems.append("cleanup.policy is the option cleanup: take it out of topic_config and topic_groups")
        if not self.key_fields and (self.delete_where or self.cleanup == "compact"):
            problems.append("tombstones and compacted topics need key_fields")
        problems += [
            f"{option}: {problem}"
            for option, name in (("dead_letter_topic", self.dead_letters), ("ledger_topic", self.ledger_topic))
            if (problem := check_topic(name))
        ]
        problems += self._without_effect()
        if len({self.topic, self.ledger_topic, self.dead_letters}) < 3:
            problems.append("topic, ledger_topic and dead_letter_topic must be three topics")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _without_effect(self) -> list[str]:
        """Name the options that were changed, and that others make meaningless."""
        registered, key = self.value_is_registered, self._key_is_registered
        belonging = {
            "key_converter": (bool(self.key_fields), "key_fields"),
            "record_name": (registered or key or self.value_converter == "json_schema_envelope", _NAMED + _OR_KEY),
            "subject_strategy": (registered, _REGISTERED),
            "schema_registration": (registered or key, _REGISTERED + _OR_KEY),
            "schema_contract": (not registered, "converters without a registry, which decides itself"),
            "turns": (
                self.delivery == "exactly_once" and self.atomicity == "day",
                "delivery='exactly_once' with atomicity='day'",
            ),
            "max_rejects": (self.errors_tolerance == "all", "errors_tolerance='all'"),
        }
        fields = type(self).model_fields
        return [
            f"{option} belongs to {where}: leave it out"
            for option, (matters, where) in belonging.items()
            if not matters and getattr(self, option) != fields[option].default
        ]

    @property
    def value_is_registered(self) -> bool:
        """Whether a schema registry has the values' schema."""
        return self.value_converter in _REGISTRY_CONVERTERS

    @property
    def _key_is_registered(self) -> bool:
        return self.key_converter in _REGISTRY_CONVERTERS

    @property
    def target(self) -> str:
        """``kafka://``, the connection's name and the topic as it was given."""
        return f"kafka://{self.conn_id}/{self.topic}"

    @property
    def asset_uri(self) -> str:
        """The target as a URI."""
        return f"kafka://{self.conn_id}/{quote(self.topic)}"

    @property
    def route_column(self) -> str | None:
        """The column in the topic's template, None where the topic is one."""
        return column(self.topic)

    @property
    def dead_letters(self) -> str:
        """The topic of dead letters."""
        if self.dead_letter_topic is not None:
            return self.dead_letter_topic
        name = re.sub(r"[^A-Za-z0-9._-]", "_", re.sub(r"[{}]", "", self.topic))
        return f"{name[: MAX_NAME - len(_DEAD_LETTERS)]}{_DEAD_LETTERS}"

    @property
    def full_record_name(self) -> str:
        """The record's name in its schema."""
        words = re.findall(r"[A-Za-z0-9]+", self.topic)
        name = "".join(word[0].upper() + word[1:] for word in words) or "Record"
        return self.record_name or f"connect.{'_' if name[0].isdigit() else ''}{name}"

    @property
    def key_record_name(self) -> str:
        """The key's name in its schema."""
        return f"{self.full_record_name}Key"

    def value_day(self, day: dt.date) -> dt.date | None:
        """Return the day that a value begins with; None in a compacted topic, which shows each key's newest state."""
        return None if self.cleanup == "compact" else day

    @property
    def rules(self) -> TopicRules:
        """How topics of the data are made."""
        return TopicRules(
            create_disposition=self.create_disposition,
            partitions=self.partitions,
            replication_factor=self.replication_factor,
            config={"cleanup.policy": self.cleanup} | self.topic_config,
            groups=self.topic_groups,
        )

    def replaces(self, kind: SourceKind) -> bool:
        """Not the days of a compacted topic: they bring keys up to date, and an empty one leaves all as they are."""
        return kind == "snapshot" or self.cleanup != "compact"

    def check(self, connections: Connections) -> list[str]:
        """Say what is wrong with the options and the connections; no network."""
        from airflow_provider_connect.clients.kafka.connection import check_connection  # noqa: PLC0415

        problems = check_connection(connections[self.conn_id], self.delivery)
        if self.registry_conn_id is not None:
            from airflow_provider_connect.sinks._kafka.registry import check_connection as check_registry  # noqa: PLC0415

            problems += check_registry(connections[self.registry_conn_id])
        return problems

    def preflight(
        self, schema: pa.Schema, key: StreamKey, days: Sequence[Day], connections: Connections, kind: SourceKind = "day"
    ) -> list[str]:
        """Find what would fail the publish; make the topic and the ledger's when nothing would."""
        from airflow_provider_connect.sinks._kafka.preflight import Preflight  # noqa: PLC0415

        return Preflight(self, key, days, connections, kind).problems(schema)

    def ledger(self, key: StreamKey, connections: Connections) -> KafkaLedger:
        """Return the ledger that lies in the cluster's ledger topic."""
        return self._publisher(key, connections).ledger

    def shares(self, files: Sequence[StagedFile]) -> list[tuple[StagedFile, ...]]:
        """Give one transaction the whole day, an empty one too; else each file alone."""
        if self.delivery == "exactly_once" and self.atomicity == "day":
            return [tuple(files)]
        return super().shares(files)

    def begin(self, publish: Publish, schema: pa.Schema, connections: Connections) -> Plan:
        """Make ready the day's topics and schemas, and claim the day in the ledger."""
        return self._publisher(publish.key, connections).begin(publish, schema)

    def put(self, token: Plan, files: tuple[StagedFile, ...], schema: pa.Schema, connections: Connections) -> Any:
        """Send a share; with its transaction it is published."""
        return self._publisher(token.publish.key, connections, token.handed).put(token, files, schema)

    def commit(
        self, publish: Publish, schema: pa.Schema, token: Plan, receipts: list[Any], connections: Connections
    ) -> LedgerRow:
        """Return what the day's transaction has published; write the day's row where there were several."""
        return self._publisher(publish.key, connections).commit(token, receipts)

    def abort(self, publish: Publish, token: Plan, connections: Connections) -> None:
        """End what an executor left open that died: readers wait for it, and so do the next days."""
        from airflow_provider_connect.sinks._kafka.publisher import abort  # noqa: PLC0415

        abort(self, token, connections)

    def _publisher(self, key: StreamKey, connections: Connections, handed: Handed | None = None) -> Publisher:
        from airflow_provider_connect.sinks._kafka.publisher import Publisher  # noqa: PLC0415  # a DAG file does without it

        return Publisher(self, key, connections, handed)
