"""Prepares a publish before its first record: topics, limits, schemas, and an estimate of its time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.clients.kafka.transaction import USABLE_TIME_SHARE
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.ledger.kafka_ledger import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger_check import mixed_topic_message, topics_of_other_targets
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan
from airflow_provider_connect.sinks._kafka.schema_resolver import SchemaResolver, Subject, key_subject, value_subject
from airflow_provider_connect.sinks._kafka.topic_names import topic_names
from airflow_provider_connect.sinks._kafka.topic_rules import IntendedWrites
from airflow_provider_connect.sinks._kafka.topics import TopicAdmin
from airflow_provider_connect.stage.rows import open_parquet
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.values.converters import Converter, SchemaRef
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._kafka.options import KafkaOptions

ROWS_PER_SECOND = 10_000
"""Rate assumed if the ledger has no measured day."""
_MEASURED_DAYS = 30
_MANY_ROWS = 100_000
_UNMEASURED_SHARE = 0.5
"""Usable share of the transaction timeout at the assumed rate."""
MAX_TOPICS_PER_DAY = 1000
"""Limit of a day's topics, which share the day's ledger record (at most 1 MB)."""


class Planner:
    """Prepares a stream's publishes in the driver."""

    def __init__(self, cluster: Cluster, schema: pa.Schema) -> None:
        self.cluster = cluster
        self.options = cluster.options
        self.schema = schema

    def plan(self, publish: Publish) -> DayPlan:
        """Create a day's missing topics and schemas. Returns its plan.

        :raises ConfigError: an unusable topic, or too large a day.
        :raises DataError: the registry refuses the schema.
        """
        options, ledger = self.options, self.cluster.ledger
        content = self._choose_content(publish)
        topic_of = map_values_to_topics(options, publish)
        names = sorted(set(topic_of.values()))
        if options.route_column is not None:
            other_targets = topics_of_other_targets(ledger)
            if mixed_topics := [
                mixed_topic_message(ledger, name, other_targets[name]) for name in names if name in other_targets
            ]:
                raise ConfigError("; ".join(mixed_topics))
        needs_dead_letters = options.errors_tolerance == "all" or bool(publish.manifest.polled.rejects)
        topics = self.cluster.topics()
        problems = self.topic_problems(topics, names, publish.day)
        if needs_dead_letters:
            dead_letter_topic = options.effective_dead_letter_topic
            problems += topics.ensure_dead_letter_topic(dead_letter_topic) or topics.missing_rights(
                {dead_letter_topic: ("WRITE",)}
            )
        if problems:
            raise ConfigError("; ".join(problems))
        if options.delivery == "exactly_once":
            rows = [file.rows for file in publish.manifest.polled.files]
            require_transaction_time(options, sum(rows) if options.atomicity == "day" else max(rows, default=0), ledger)
        refs, key_refs = self._find_schemas(names)
        return DayPlan(
            publish=publish,
            content=content,
            topic_by_value=topic_of,
            value_schemas=refs,
            key_schemas=key_refs,
            limits={
                name: topics.limits(name)
                for name in [*names, *([options.effective_dead_letter_topic] if needs_dead_letters else [])]
            },
            dead_letter_topic=options.effective_dead_letter_topic if needs_dead_letters else None,
        )

    def snapshot_problems(self, kind: SourceKind) -> list[str]:
        """Return messages about options that prevent comparing a snapshot with its topic."""
        options = self.options
        if problems := options.kind_problems(kind):
            return [f"topic {options.topic!r}: {problem}" for problem in problems]
        if kind != "snapshot" or options.cleanup == "delete":
            return []
        if options.is_one_transaction and options.route_column is None and options.headers:
            return []
        return [
            f"topic {options.topic!r}: a snapshot is compared with one topic of its own, in one "
            "transaction: use delivery='exactly_once', atomicity='day', headers=True and a topic without a column, or "
            "cleanup='delete'"
        ]

    def topic_problems(self, topics: TopicAdmin, names: Sequence[str], oldest: Day | None) -> list[str]:
        """Create missing data topics. Returns the topics' problems."""
        writing = self.intended_writes(oldest)
        complaints = topics.problems_if_created(names, writing) or topics.create_missing(names) + topics.problems(
            names, writing
        )
        return complaints or topics.missing_rights(dict.fromkeys(names, ("WRITE",)))

    def intended_writes(self, oldest: Day | None) -> IntendedWrites:
        """Return the properties of the records, to check topic settings."""
        options = self.options
        if options.timestamp_field is None:
            return IntendedWrites(bool(options.key_fields))
        return IntendedWrites(bool(options.key_fields), "event", oldest.start if oldest else None)

    def schema_problems(self, name: str) -> list[str]:
        """Return the registry's objections to a topic's schemas. Registers nothing."""
        if self.options.registry_conn_id is None:
            return []
        with closing(self._registry()) as registry:
            return registry.problems(self._value_subject(name), self._key_subject(name))

    def _find_schemas(self, names: Sequence[str]) -> tuple[dict[str, SchemaRef], dict[str, SchemaRef]]:
        if self.options.registry_conn_id is None:
            return {}, {}
        subjects = [(name, self._value_subject(name), self._key_subject(name)) for name in names]
        with closing(self._registry()) as registry:
            values = {name: registry.value_schema(*value) for name, value, _ in subjects if value}
            return values, {name: registry.key_schema(*key) for name, _, key in subjects if key}

    def _registry(self) -> SchemaResolver:
        options = self.options
        assert options.registry_conn_id is not None
        connection = self.cluster.connections[options.registry_conn_id]
        return SchemaResolver(connection, options.timeout_seconds, options.schema_registration)

    def _value_subject(self, topic: str) -> Subject | None:
        options = self.options
        if not options.value_is_registered:
            return None
        subject = value_subject(options.subject_strategy, topic, options.record_name_for(self.schema))
        return _make_subject(subject, options.value_converter_for(self.schema, dt.date.min))

    def _key_subject(self, topic: str) -> Subject | None:
        key_converter = self.options.key_encoder_for(self.schema).converter
        return (
            None
            if key_converter is None or key_converter.kind is None
            else _make_subject(key_subject(topic), key_converter)
        )

    def _choose_content(self, publish: Publish) -> Literal["rows", "changes"]:
        if publish.kind != "snapshot" or self.options.cleanup == "delete":
            return "rows"
        if problems := self.snapshot_problems(publish.kind):
            raise ConfigError("; ".join(problems))
        if rejected_rows := sum(file.rows for file in publish.manifest.polled.rejects):
            raise DataError(
                f"topic {self.options.topic!r}: the source has rejected {rejected_rows:,} rows of the snapshot. "
                "Without their keys, vanished keys cannot be found. Correct the rows in the source"
            )
        return "changes"


def _make_subject(name: str, schema_converter: Converter) -> Subject:
    document = schema_converter.document
    assert document is not None
    assert schema_converter.kind is not None
    return name, document, schema_converter.kind


def require_transaction_time(options: KafkaOptions, rows: int, ledger: KafkaLedger) -> None:
    """Refuse a transaction that would exceed its timeout.

    :param rows: of the largest transaction.
    :raises ConfigError: it would take too long.
    """
    seconds = options.transaction_timeout_seconds
    if rows < _MANY_ROWS and rows < _UNMEASURED_SHARE * seconds * ROWS_PER_SECOND:
        return  # without reading the ledger
    rate, origin, share = _fastest_rate(ledger)
    if rows / rate > share * seconds:
        raise ConfigError(
            f"topic {options.topic!r}: {rows:,} rows in one transaction take about {rows / rate:,.0f} s at {rate:,.0f} "
            f"rows/s ({origin}), and transaction_timeout_seconds={seconds:,.0f} is too short: raise it (the "
            "broker's transaction.max.timeout.ms must allow it), or set atomicity='partition'"
        )


def _fastest_rate(ledger: KafkaLedger) -> tuple[float, str, float]:
    """Return rows per second of the fastest recent large day, a text that names it, and the timeout's usable part."""
    rates_by_day = {
        row.day: row.rows / (row.counts["publish_ms"] / 1000)
        for row in (entry.row for entry in ledger.newest_entries(_MEASURED_DAYS))
        if row.rows >= _MANY_ROWS and row.counts.get("publish_ms")
    }
    if not rates_by_day:
        assumption = "assumed, because the ledger has no large day yet"
        return float(ROWS_PER_SECOND), assumption, _UNMEASURED_SHARE
    fastest, slowest = max(rates_by_day, key=rates_by_day.__getitem__), min(rates_by_day, key=rates_by_day.__getitem__)
    origin = f"measured on {fastest}"
    if fastest != slowest:
        origin += (
            f", the fastest of {len(rates_by_day)} large days. The slowest, {slowest}, reached "
            f"{rates_by_day[slowest]:,.0f} rows/s"
        )
    return rates_by_day[fastest], origin, USABLE_TIME_SHARE


def map_values_to_topics(options: KafkaOptions, publish: Publish) -> dict[str | None, str]:
    """Return the topic of each value that the template's column has in this publish.

    :raises ConfigError: too many values.
    """
    if options.route_column is None:
        return {None: options.topic}
    import pyarrow.compute as pc

    values: set[str | None] = set()
    folder = Folder(publish.stage)
    for file in publish.manifest.polled.files:
        with open_parquet(folder, file.path) as parquet_file:
            for batch in parquet_file.iter_batches(columns=[options.route_column]):
                batch_values = pc.unique(batch.column(0)).to_pylist()
                values.update(value if value is None else str(value) for value in batch_values)
                if len(values) > MAX_TOPICS_PER_DAY:
                    raise ConfigError(
                        f"topic {options.topic!r}: column {options.route_column!r} has {len(values):,} values or more "
                        f"on {publish.day}, each of which is a topic, and one day may have {MAX_TOPICS_PER_DAY:,}. "
                        "Name a column with fewer"
                    )
    return topic_names(
        options.topic,
        sorted(values, key=str),
        reserved_names=(options.ledger_topic, options.effective_dead_letter_topic),
    )
