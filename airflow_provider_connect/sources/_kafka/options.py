"""Options of the Kafka source. DAG files import this."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from airflow_provider_connect.source import Source
from airflow_provider_connect.sources._kafka.spans import OnLost, Start
from airflow_provider_connect.values.json.typed import decimal_digits
from airflow_provider_connect.window import SourceKind, ZoneName

Converter = Literal["string", "bytes", "json", "avro", "json_schema", "protobuf"]
FIELD_CONVERTERS = ("json", "avro", "json_schema", "protobuf")
"""Converters whose records have fields."""
Envelope = Literal["none", "connect", "debezium"]
OwnColumn = Literal["topic", "partition", "offset", "timestamp", "headers"]

PREFIX = "kafka_"
"""Begins the names of the columns that are not fields of the value."""
_STREAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PLAIN_TYPES = (
    "string", "bigint", "double", "boolean", "date", "timestamp", "json",
    "epoch_seconds", "epoch_millis", "epoch_micros", "epoch_days",
)  # fmt: skip


def _validate_topic(name: str) -> str:
    if not _LEGAL_TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError("write a topic's name of letters, digits, '.', '_' and '-'. topics_pattern takes patterns")
    return name


def _validate_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


def _validate_type(kind: str) -> str:
    if kind not in _PLAIN_TYPES and decimal_digits(kind) is None:
        raise ValueError(f"use {', '.join(_PLAIN_TYPES)} or decimal(p,s)")
    return kind


Columns = dict[str, Annotated[str, AfterValidator(_validate_type)]]


class KafkaOptions(Source):
    """Options of :class:`.KafkaSource`, in groups: topics, records, rows, limits."""

    conn_id: str = Field(default="kafka_default", description="Airflow connection of the cluster, of type kafka.")
    stream: str = Field(
        default="",
        description="Name of the stream in ledger and offset, unique for the connection. By default the topics' names, "
        "joined by dots. topics_pattern needs one.",
    )
    topics: list[Annotated[str, AfterValidator(_validate_topic)]] | None = Field(
        default=None, min_length=1, description="The topics to read.", examples=[["orders"]]
    )
    topics_pattern: Annotated[str, AfterValidator(_validate_pattern)] | None = Field(
        default=None,
        description="Regular expression that the whole name of a topic matches. New topics are found by each run. "
        "Internal topics, whose names begin with __, are left out.",
        examples=["shop\\.(orders|items)"],
    )
    zone: ZoneName = Field(default="UTC", description="IANA zone of the runs' days.")
    read_by: Literal["offset", "timestamp", "generation"] = Field(
        default="offset",
        description="The records of a run: those since the last run (offset), those whose timestamps lie in the "
        "run's day (timestamp), or the newest generation of the day in topics that a KafkaSink wrote (generation).",
    )
    published_stream: str = Field(
        default="",
        description="With read_by='generation': connector and stream of the sink's ledger, joined by a slash. Needed "
        "if the topics have several.",
        examples=["mixpanel/mixpanel_default.export"],
    )
    ledger_topic: Annotated[str, AfterValidator(_validate_topic)] | None = Field(
        default="__connect_ledger",
        description="Ledger topic of the cluster's KafkaSinks. A topic that they wrote holds every generation of a "
        "day, so reading it by offset is refused. None reads every generation.",
    )
    start: Start = Field(
        default="earliest",
        description="Where the stream's first run begins in each partition: at its oldest record, or after its newest. "
        "Partitions that appear later are read from their beginning.",
    )
    on_lost: OnLost = Field(
        default="fail",
        description="What happens if records were deleted before they were read: the run fails, or goes on behind "
        "them with a warning.",
    )
    key_converter: Converter = Field(
        default="string",
        description="Form of the records' keys. string and bytes give the column kafka_key, the others key_columns.",
    )
    value_converter: Converter = Field(
        default="json",
        description="Form of the records' values. string and bytes give the column value, and so do the others without "
        "columns, as checked JSON text. avro, json_schema and protobuf are forms of a schema registry. avro and "
        "protobuf read their schemas from schema.registry.url in the connection's extra.",
    )
    envelope: Envelope = Field(
        default="none",
        description="What a JSON value, and a JSON key, holds: the fields themselves (none), Connect's schema and "
        "payload (connect), or Debezium's before, after and op, with or without a schema (debezium).",
    )
    key_columns: Columns = Field(
        default_factory=dict,
        description="Columns from fields of JSON keys, with their types.",
        examples=[{"id": "bigint"}],
    )
    columns: Columns = Field(
        default_factory=dict,
        description="Columns from fields of JSON values, with their types. Other fields are left out.",
        examples=[{"id": "bigint", "amount": "decimal(12,2)", "created_at": "epoch_millis"}],
    )
    own_columns: list[OwnColumn] = Field(
        default=["topic", "partition", "offset", "timestamp"],
        description="Columns of the record itself, whose names begin with kafka_.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="A record that cannot be read fails the run (none), or is set aside and counted (all).",
    )
    dead_letter_topic: Annotated[str, AfterValidator(_validate_topic)] | None = Field(
        default=None,
        description="With errors_tolerance='all': an existing topic that gets the records set aside, with Kafka "
        "Connect's headers. The user needs DESCRIBE and WRITE on it. A retry sends them again.",
    )
    max_rejects: int = Field(default=1000, ge=0, description="Number of records of a partition that may be set aside.")
    records_per_task: int = Field(
        default=500_000,
        ge=1_000,
        description="About how many offsets one Spark task reads, of one or several partitions.",
    )
    timeout_seconds: float = Field(
        default=60.0, gt=0, description="Longest wait for the brokers' next answer, or for the next records."
    )
    transaction_wait_seconds: float = Field(
        default=5.0,
        ge=0,
        description="How long a run waits for open transactions to end. Later records are left to the next run.",
    )

    @property
    def kind(self) -> SourceKind:
        """An increment by offset, else a day."""
        return "increment" if self.read_by == "offset" else "day"

    @property
    def registry_converters(self) -> set[Converter]:
        """The converters of keys and values that ask a schema registry."""
        return {self.key_converter, self.value_converter} & {"avro", "protobuf"}

    @property
    def order_columns(self) -> tuple[str, ...]:
        """The offset, if it is a column: a key's records are in one partition, in the order of its versions."""
        return (f"{PREFIX}offset",) if "offset" in self.own_columns else ()

    @property
    def stream_name(self) -> str:
        """Option ``stream``, by default the topics' names."""
        return self.stream or ".".join(sorted(self.topics or ()))


def option_problems(options: KafkaOptions) -> list[str]:
    """Return the problems of options that do not fit together."""
    problems = _topic_problems(options)
    problems += _reject_problems(options)
    if options.columns and options.value_converter not in FIELD_CONVERTERS:
        problems.append(f"columns: value_converter={options.value_converter!r} gives the column value. Use json")
    if options.key_columns and options.key_converter not in FIELD_CONVERTERS:
        problems.append(f"key_columns: key_converter={options.key_converter!r} gives the column kafka_key. Use json")
    if options.key_converter in FIELD_CONVERTERS and not options.key_columns:
        problems.append(f"key_converter={options.key_converter!r}: name the fields in key_columns, or use bytes")
    if options.envelope != "none" and not (options.columns and options.value_converter in FIELD_CONVERTERS):
        problems.append(f"envelope={options.envelope!r}: set columns, and a value_converter of fields such as json")
    if both := options.columns.keys() & options.key_columns.keys():
        problems.append(f"columns, key_columns: {', '.join(sorted(both))} would come twice")
    if taken := [name for name in (*options.columns, *options.key_columns) if is_reserved(name)]:
        problems.append(f"columns: {', '.join(taken)} is a name of our own columns. Rename it with a shape")
    return problems


def _reject_problems(options: KafkaOptions) -> list[str]:
    problems = []
    if options.dead_letter_topic is not None and options.errors_tolerance == "none":
        problems.append("dead_letter_topic: set errors_tolerance='all', or the first such record fails the run")
    if options.dead_letter_topic in (options.topics or ()) and options.dead_letter_topic is not None:
        problems.append("dead_letter_topic: it cannot be one of the topics")
    return problems


def _topic_problems(options: KafkaOptions) -> list[str]:
    problems = []
    if (options.topics is None) == (options.topics_pattern is None):
        problems.append("set topics, or topics_pattern")
    elif not options.stream_name:
        problems.append("stream: topics_pattern needs a name for its stream")
    elif not _STREAM.fullmatch(options.stream_name):
        problems.append("stream: use at most 200 letters, digits, '_', '-' and '.'")
    if options.read_by == "generation" and options.ledger_topic is None:
        problems.append("read_by='generation': set ledger_topic, which knows the generations")
    if options.published_stream and options.read_by != "generation":
        problems.append("published_stream: set read_by='generation'")
    return problems


def is_reserved(name: str) -> bool:
    """Return True for a name that the source or a sink uses for a column of its own."""
    return name.lower().startswith(PREFIX) or name.lower() in ("day", "record_key")
