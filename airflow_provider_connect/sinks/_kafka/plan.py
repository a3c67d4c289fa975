"""What the driver finds out before a day's first record: topics, limits, schemas, and whether the time suffices."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.clients.kafka.transaction import SHARE_OF_TIME
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import Connections, Publish
from airflow_provider_connect.sinks._kafka.converters import Converter, Kind, SchemaRef, converter
from airflow_provider_connect.sinks._kafka.keys import Keys
from airflow_provider_connect.sinks._kafka.ledger.days import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.history import mixed, published_elsewhere
from airflow_provider_connect.sinks._kafka.names import topics as names_of
from airflow_provider_connect.sinks._kafka.records import Plan
from airflow_provider_connect.sinks._kafka.topics import Topics, Use
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks.kafka import KafkaSink

ROWS_PER_SECOND = 10_000
"""Taken where the ledger knows no measured day."""
_MEASURED_DAYS = 30
_MANY_ROWS = 100_000
_UNMEASURED_SHARE = 0.5
"""Of a transaction's time, what a day may take by an assumed rate."""
MOST_TOPICS = 1000
"""Of one day: each costs questions before the first record and a place in the ledger's record, of at most 1 MB."""


def make_plan(
    sink: KafkaSink, publish: Publish, schema: pa.Schema, connections: Connections, ledger: KafkaLedger
) -> Plan:
    """Make topics and schemas of a day ready. Driver, once an attempt.

    :raises ConfigError: a topic cannot be made or used, or the day is too large for one transaction.
    :raises DataError: the registry does not take the schema.
    """
    content = _content(sink, publish)
    routes = _routes(sink, publish)
    if sink.route_column is not None:
        elsewhere = published_elsewhere(ledger)
        if both := [mixed(ledger, name, elsewhere[name]) for name in sorted(set(routes.values()) & elsewhere.keys())]:
            raise ConfigError("; ".join(both))
    needs_letters = sink.errors_tolerance == "all" or bool(publish.manifest.polled.rejects)
    names = sorted(set(routes.values()))
    topics = Topics.open(connections[sink.conn_id], sink.rules, sink.timeout_seconds)
    problems = looked_at(sink, topics, names, publish.day)
    if needs_letters:
        problems += topics.ensure_plain(sink.dead_letters) or topics.lacking({sink.dead_letters: ("WRITE",)})
    if problems:
        raise ConfigError("; ".join(problems))
    if sink.delivery == "exactly_once":
        check_time(sink, _largest(sink, publish), ledger)
    refs, key_refs = schemas(sink, schema, names, connections)
    return Plan(
        publish=publish,
        content=content,
        routes=routes,
        refs=refs,
        key_refs=key_refs,
        columns={field.name: str(field.type) for field in schema},
        limits={name: topics.limits(name) for name in [*names, *([sink.dead_letters] if needs_letters else [])]},
        dead_letters=sink.dead_letters if needs_letters else None,
    )


def _content(sink: KafkaSink, publish: Publish) -> Literal["rows", "changes"]:
    """Return what is sent of the source's rows.

    :raises ConfigError: the sink cannot compare a snapshot with its topic.
    :raises DataError: the source has set rows aside, whose keys would count as vanished.
    """
    if publish.kind == "day" or sink.cleanup == "delete":
        return "rows"
    if problems := snapshot_problems(sink, publish.kind):
        raise ConfigError("; ".join(problems))
    if aside := sum(file.rows for file in publish.manifest.polled.rejects):
        raise DataError(
            f"topic {sink.topic!r}: the source has set {aside:,} rows of the snapshot aside; without their keys nobody "
            "knows which ones have vanished. Mend them in the source"
        )
    return "changes"


def snapshot_problems(sink: KafkaSink, kind: SourceKind) -> list[str]:
    """Say why the rows of a snapshot cannot be compared with what the topic holds."""
    if kind == "day" or sink.cleanup == "delete":
        return []
    whole = sink.delivery == "exactly_once" and sink.atomicity == "day"
    if whole and sink.route_column is None and sink.headers:
        return []
    return [
        f"topic {sink.topic!r}: a snapshot is compared with what one topic of its own holds, in one transaction: "
        "use delivery='exactly_once', atomicity='day', headers=True and a topic without a column, or cleanup='delete'"
    ]


def looked_at(sink: KafkaSink, topics: Topics, names: Sequence[str], oldest: Day | None) -> list[str]:
    """Make the topics of the data that are missing; say what is wrong with those that are there, or would be made."""
    use = use_of(sink, oldest)
    found = topics.foreseen(names, use) or topics.ensure(names) + topics.problems(names, use)
    return found or topics.lacking(dict.fromkeys(names, ("WRITE",)))


def use_of(sink: KafkaSink, oldest: Day | None) -> Use:
    """Return what the topics of the data are for."""
    by_event = sink.timestamp_field is not None
    return Use(bool(sink.key_fields), "event" if by_event else "now", oldest.start if by_event and oldest else None)


Refs = dict[str, SchemaRef]


def schemas(sink: KafkaSink, schema: pa.Schema, names: Iterable[str], connections: Connections) -> tuple[Refs, Refs]:
    """Return the registered schema of each topic's values, and that of its keys; nothing for a converter without one.

    :raises DataError: an earlier schema of the subject is incompatible, or none of a key's subject holds the keys.
    :raises RetriableError: the registry is away.
    """
    if sink.registry_conn_id is None:
        return {}, {}
    from airflow_provider_connect.sinks._kafka.registry import Registry  # noqa: PLC0415  # few need it

    topics, how = list(names), sink.schema_registration
    values = {name: asked for name in topics if (asked := _question(sink, schema, name)) is not None}
    keys = {name: asked for name in topics if (asked := _key_question(sink, schema, name)) is not None}
    with Registry(connections[sink.registry_conn_id], sink.timeout_seconds) as registry:
        return (
            {name: registry.resolve(*asked, how) for name, asked in values.items()},
            {name: registry.pinned(*asked, how) for name, asked in keys.items()},
        )


def schema_problems(sink: KafkaSink, schema: pa.Schema, name: str, connections: Connections) -> list[str]:
    """Say why the registry would not take the schemas of one topic; nothing is registered.

    :raises RetriableError: the registry is away.
    """
    if sink.registry_conn_id is None:
        return []
    from airflow_provider_connect.sinks._kafka.registry import Registry  # noqa: PLC0415  # few need it

    value, key = _question(sink, schema, name), _key_question(sink, schema, name)
    with Registry(connections[sink.registry_conn_id], sink.timeout_seconds) as registry:
        found = registry.problems(*value, sink.schema_registration) if value else []
        return found + (registry.pinned_problems(*key, sink.schema_registration) if key else [])


def _question(sink: KafkaSink, schema: pa.Schema, name: str) -> tuple[str, str, Kind] | None:
    """Return the subject of a topic's values, and the schema that it is to take; None where they have none."""
    from airflow_provider_connect.sinks._kafka.registry import subject  # noqa: PLC0415  # few need it

    if not sink.value_is_registered:
        return None
    made = converter(sink.value_converter, schema, sink.value_day(dt.date.min), record_name=sink.full_record_name)
    return subject(sink.subject_strategy, name, sink.full_record_name), *_registered(made)


def _key_question(sink: KafkaSink, schema: pa.Schema, name: str) -> tuple[str, str, Kind] | None:
    """Do the same for its keys."""
    from airflow_provider_connect.sinks._kafka.registry import key_subject  # noqa: PLC0415  # few need it

    made = Keys(sink.key_converter, schema, sink.key_fields, sink.key_record_name).converter
    return None if made is None or made.kind is None else (key_subject(name), *_registered(made))


def _registered(made: Converter) -> tuple[str, Kind]:
    document = made.document()
    assert document is not None
    assert made.kind is not None
    return document, made.kind


def check_time(sink: KafkaSink, rows: int, ledger: KafkaLedger) -> None:
    """Refuse what one transaction has no time for, before its first record.

    :param rows: of the largest transaction.
    :raises ConfigError: with the numbers, and what to set instead.
    """
    seconds = sink.transaction_timeout_seconds
    if rows < _MANY_ROWS and rows < _UNMEASURED_SHARE * seconds * ROWS_PER_SECOND:
        return  # without a question to the ledger
    rate, origin, share = _fastest(ledger)
    if rows / rate > share * seconds:
        raise ConfigError(
            f"topic {sink.topic!r}: {rows:,} rows in one transaction take about {rows / rate:,.0f} s at {rate:,.0f} "
            f"rows/s ({origin}), and transaction_timeout_seconds={seconds:,.0f} leaves no room for that: raise it (the "
            "broker's transaction.max.timeout.ms must allow it), or set atomicity='partition'"
        )


def _fastest(ledger: KafkaLedger) -> tuple[float, str, float]:
    """Return rows per second of the fastest large day of late, where that comes from, and the share of time to use.

    A slow day, or many, is no reason to refuse the next: nothing would be published that could show better.
    """
    measured = {
        row.day: row.rows / (row.counts["publish_ms"] / 1000)
        for row in (entry.row for entry in ledger.newest_entries(_MEASURED_DAYS))
        if row.rows >= _MANY_ROWS and row.counts.get("publish_ms")
    }
    if not measured:
        assumed = "assumed, as the ledger knows no large day yet"
        return float(ROWS_PER_SECOND), assumed, _UNMEASURED_SHARE
    fastest, slowest = max(measured, key=measured.__getitem__), min(measured, key=measured.__getitem__)
    origin = f"measured on {fastest}"
    if fastest != slowest:
        origin += (
            f", the fastest of {len(measured)} large days; the slowest, {slowest}, made {measured[slowest]:,.0f} rows/s"
        )
    return measured[fastest], origin, SHARE_OF_TIME


def _largest(sink: KafkaSink, publish: Publish) -> int:
    rows = [file.rows for file in publish.manifest.polled.files]
    return sum(rows) if sink.atomicity == "day" else max(rows, default=0)


def _routes(sink: KafkaSink, publish: Publish) -> dict[str | None, str]:
    """Return the topic of each value that the day has in the column of the topic's template.

    :raises ConfigError: there are too many.
    """
    if sink.route_column is None:
        return {None: sink.topic}
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    values: set[str | None] = set()
    folder = Folder(publish.stage)
    for file in publish.manifest.polled.files:
        with folder.filesystem.open_input_file(folder.path(file.path)) as source:
            for batch in pq.ParquetFile(source).iter_batches(columns=[sink.route_column]):
                found = pc.unique(batch.column(0)).to_pylist()
                values.update(value if value is None else str(value) for value in found)
                if len(values) > MOST_TOPICS:
                    raise ConfigError(
                        f"topic {sink.topic!r}: column {sink.route_column!r} has {len(values):,} values or more on "
                        f"{publish.day}, each of which is a topic, and one day may have {MOST_TOPICS:,}: name a column "
                        "with fewer"
                    )
    return names_of(sink.topic, sorted(values, key=str), reserved=(sink.ledger_topic, sink.dead_letters))
