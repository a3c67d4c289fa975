"""Reads the days of a Kafka topic in their present state: only the records of each day's newest generation.

A reload appends the day to its topic again, as the next generation. The ledger topic holds each day's newest generation
and the offsets of its records, and for increments those of each of the day's spans. So a reader first reads the ledger,
then the topic up to these offsets::

    from airflow_provider_connect.readers.kafka import newest_days, records

    settings = {"bootstrap.servers": "broker:9092"}
    for day, message in records(settings, newest_days(settings, "mixpanel_events")):
        print(day.day, day.generation, message.value())

``settings`` are librdkafka's, as in the extra of the sink's connection. Everything committed before the call is read.
The reader joins no group and commits no offset. Memory holds one entry for each day.

Not for compacted topics of snapshots (``cleanup="compact"``). There the newest record of each key counts.

``sinks/_kafka/ledger/records.py`` defines the ledger's format. A test compares this reader with the sink's records.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.kafka.connection import make_consumer
from airflow_provider_connect.clients.kafka.errors import ClientErrors, translate_kafka_errors
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, refuse_text
from airflow_provider_connect.readers._kafka_ledger import (
    ACTION,
    PartitionId,
    SpanIndex,
    newest_entries,
    partition_of,
    read_messages,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

DayOf = Callable[["Message"], "dt.date | None"]
_MOST_NAMES = 5


@dataclass(frozen=True)
class PublishedDay:
    """The newest generation of one day or, for increments, of one span of a day, from the ledger.

    :param connector: the source's connector. ``stream`` is its name of the stream.
    :param generation: 1 for the first publish, plus one for each reload.
    :param exact: True if a transaction wrote exactly ``rows`` records. False if there may be more.
    :param spans: first offset and offset after the last record, by topic and partition. Records of other days may lie
        between. Empty for a day without rows.
    :param span: number of the increment's span. None for other days.
    """

    connector: str
    stream: str
    day: dt.date
    generation: int
    rows: int
    exact: bool
    spans: Mapping[PartitionId, tuple[int, int]] = field(repr=False, compare=False)
    span: int | None = None

    def __str__(self) -> str:
        """Return stream, day, the number of an increment, and generation."""
        increment = "" if self.span is None else f" increment {self.span}"
        return f"{self.connector}/{self.stream} {self.day}{increment} generation {self.generation}"


def newest_days(
    settings: Mapping[str, Any], topic: str, *, ledger_topic: str = "__connect_ledger", timeout_seconds: float = 60.0
) -> list[PublishedDay]:
    """Return the newest generation of each day published into a topic, sorted by connector, stream, day and span.

    :param topic: the sink's option, also if it is a template: ``mixpanel_{event}``.
    :param timeout_seconds: wait for a broker that does not answer, or for an open transaction.
    :raises ConfigError: the ledger has no day of the topic, is missing, or holds records that no Kafka sink wrote. Or
        the topic only receives changes of snapshots, or the cluster refuses the settings.
    :raises RetriableError: the broker does not answer, or a transaction in the ledger stays open.
    """
    entries, topics = newest_entries(_connection(settings), ledger_topic, timeout_seconds, topic)
    if not entries:
        topic_names = ", ".join(sorted(topics)[:_MOST_NAMES]) or "none at all"
        raise ConfigError(
            f"ledger topic {ledger_topic!r} has no day of topic {topic!r}: nothing is published yet, or the sink has "
            f"another topic or ledger_topic. The ledger has days of: {topic_names}"
        )
    if any(entry.only_changes for entry in entries.values()):
        raise ConfigError(
            f"topic {topic!r} only receives changes of snapshots: read it to its end, and keep the newest record of "
            "each key"
        )
    return [
        PublishedDay(
            connector=key.connector,
            stream=key.stream,
            day=key.day,
            generation=entry.generation,
            rows=entry.rows,
            exact=entry.built_on is None,
            spans=entry.spans,
            span=entry.span_number,
        )
        for key, entry in sorted(entries.items())
    ]


def records(
    settings: Mapping[str, Any],
    days: Iterable[PublishedDay],
    *,
    day_of: DayOf | None = None,
    timeout_seconds: float = 60.0,
) -> Iterator[tuple[PublishedDay, Message]]:
    """Yield the records of these days' newest generation, each with its day.

    Records are in each partition's order, so days come mixed. Use them only after the iteration has ended without an
    error, because only its end shows whether the days are complete.

    :param day_of: returns a record's day, for records without headers (``KafkaSink(headers=False)``): :func:`json_day`,
        or your own function. None for a value without a day. Such records, and records without a value, are assigned by
        their offsets, unless records of other days lie between. All days must then be of one stream.
    :param timeout_seconds: wait for new records, from a broker that does not answer or behind an open transaction.
    :raises DataError: records are lost, by retention or compaction, or the topic was recreated. Or ``day_of`` returns
        no day for a record that cannot be assigned by its offset.
    :raises RetriableError: the broker does not answer, or a transaction stays open.
    :raises ConfigError: a topic is missing, or the cluster refuses the settings.
    """
    refuse_text("days", days)
    finder = _DayFinder(days, day_of)
    records_found = dict.fromkeys(finder.days, 0)
    client_errors = ClientErrors()
    consumer_settings = {"check.crcs": True, "fetch.wait.max.ms": 50}
    with (
        closing(make_consumer(_connection(settings), client_errors, **consumer_settings)) as reader,
        translate_kafka_errors(ACTION, client_errors),
    ):
        for message in read_messages(reader, finder.spans(), timeout_seconds, client_errors):
            day = finder.find_day(message)
            if day is not None:
                records_found[_key(day)] += 1
                yield day, message
    for key, day in finder.days.items():
        if records_found[key] < day.rows or (day.exact and records_found[key] > day.rows):
            raise DataError(
                f"{day}: found {records_found[key]:,} of {day.rows:,} published records: the topic has lost "
                "some (retention, compaction, deletion), or day_of returns wrong days. Clear the day's "
                "task to publish it again"
            )


def json_day(message: Message) -> dt.date:
    """Return the field ``day`` of a record with ``value_converter="json"``, for ``day_of``.

    :raises DataError: the value is no JSON object with a day.
    """
    try:
        value = json.loads(message.value() or b"null")
        return dt.date.fromisoformat(value["day"])
    except (ValueError, TypeError, KeyError):
        raise _no_day_error(
            message, "is not a JSON object with a day. Give records() a day_of that reads your values"
        ) from None


def _no_day_error(message: Message, problem: str) -> DataError:
    return DataError(
        f"topic {message.topic()!r}, partition {message.partition()}, offset {message.offset()}: the value "
        f"{problem}, or publish with headers=True"
    )


Key = tuple[str, str, str, int]


def _key(day: PublishedDay) -> Key:
    return day.connector, day.stream, str(day.day), day.span or 0


class _DayFinder:
    def __init__(self, days: Iterable[PublishedDay], day_of: DayOf | None) -> None:
        self.days: dict[Key, PublishedDay] = {_key(day): day for day in days}
        self.day_of = day_of
        streams = sorted({key[:2] for key in self.days})
        if day_of is not None and len(streams) > 1:
            names = ", ".join("/".join(stream) for stream in streams[:_MOST_NAMES])
            raise ConfigError(
                f"day_of cannot tell streams apart, but the days are of several: {names}. Read each stream alone"
            )
        self._days_by_header: dict[tuple[Any, ...], dict[Any, PublishedDay]] = {}
        for key, day in sorted(self.days.items()):
            by_span = self._days_by_header.setdefault(tuple(part.encode() for part in key[:3]), {})
            # An earlier version wrote no span into the headers of a day's first span.
            by_span.setdefault(None, day)
            by_span[b"%d" % key[3]] = day
        # As many offsets as rows: the spans hold no records of other days or older generations.
        self._undivided_days = {
            d for d in self.days.values() if sum(end - first for first, end in d.spans.values()) == d.rows
        }
        self._holders = SpanIndex((day, day.spans) for day in self.days.values())

    def spans(self) -> dict[PartitionId, tuple[int, int]]:
        partition_spans: dict[PartitionId, tuple[int, int]] = {}
        for day in self.days.values():
            for partition, (first, end) in day.spans.items():
                low, high = partition_spans.get(partition, (first, end))
                partition_spans[partition] = (min(first, low), max(end, high))
        return partition_spans

    def find_day(self, message: Message) -> PublishedDay | None:
        holders = self._holders.holders_at(partition_of(message), message.offset() or 0)
        if not holders:
            return None
        day = (
            self._day_by_headers(message) if self.day_of is None else self._day_by_value(message, self.day_of, holders)
        )
        return day if day in holders else None

    def _day_by_value(self, message: Message, day_of: DayOf, holders: tuple[PublishedDay, ...]) -> PublishedDay | None:
        """Return the day in the record's value, else the only day whose records stand before and after it, or None."""
        undivided_day = next((day for day in holders if day in self._undivided_days), None)
        if undivided_day is not None and message.value() is None:
            return undivided_day
        date = day_of(message)
        if date is None and undivided_day is None:
            raise _no_day_error(message, "has no day, and records of other days lie around it. Give another day_of")
        # The publishes of one stream's increments follow each other, so that their offsets do not overlap.
        day_around = next((day for day in holders if day.day == date), None)
        return undivided_day if date is None else day_around

    def _day_by_headers(self, message: Message) -> PublishedDay | None:
        headers: dict[str, Any] = dict(message.headers() or [])
        key = tuple(headers.get(f"connect.{name}") for name in ("connector", "stream", "day"))
        day = self._days_by_header.get(key, {}).get(headers.get("connect.span"))
        is_newest = day is not None and headers.get("connect.generation") == b"%d" % day.generation
        return day if is_newest else None


def _connection(settings: Mapping[str, Any]) -> Connection:
    return Connection(conn_id="reader", conn_type="kafka", extra=dict(settings))
