"""Reads the days of a Kafka topic as they are now: only the records of each day's newest generation.

A reload appends the day to its topic again, as the next generation. The ledger topic says which generation counts and
where its records are. So a reader first reads the ledger, then the topic as far as the ledger says::

    from airflow_provider_connect.readers.kafka import newest_days, records

    settings = {"bootstrap.servers": "broker:9092"}
    for day, message in records(settings, newest_days(settings, "mixpanel_events")):
        print(day.day, day.generation, message.value())

``settings`` are librdkafka's, as in the extra of the sink's connection. Everything committed before the call is read: a
reader waits for open transactions that hide it, until nothing new comes for ``timeout_seconds``. It joins no group and
commits no offset. Memory holds one entry for each day and what librdkafka fetches ahead, never a day's records.

Not for topics of snapshots that only receive changes (``cleanup="compact"``): there the newest record of each key
counts, and no ledger is needed.

``docs/kafka.md`` defines the format of the ledger; a test compares this reader with what the sink writes.
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
    LedgerEntry,
    PartitionId,
    SpanIndex,
    ledger_records,
    partition_of,
    read_messages,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

DayOf = Callable[["Message"], "dt.date | None"]
_MOST_NAMES = 5


@dataclass(frozen=True)
class PublishedDay:
    """The newest generation of one day, as the ledger knows it.

    :param connector: the source's connector; ``stream`` is its name for what it reads.
    :param generation: 1 for the first publish, one more for each reload.
    :param rows: how many records this generation has.
    :param exact: whether there are exactly ``rows``, because a transaction wrote them; otherwise at least ``rows``.
    :param spans: by topic and partition, the offset of the first record and the one after the last; records of other
        days may be between them. Empty for a day without rows.
    """

    connector: str
    stream: str
    day: dt.date
    generation: int
    rows: int
    exact: bool
    spans: Mapping[PartitionId, tuple[int, int]] = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return stream, day and generation."""
        return f"{self.connector}/{self.stream} {self.day} generation {self.generation}"


def newest_days(
    settings: Mapping[str, Any], topic: str, *, ledger_topic: str = "__connect_ledger", timeout_seconds: float = 60.0
) -> list[PublishedDay]:
    """Return the newest generation of each day published into a topic, sorted by connector, stream and day.

    :param topic: the sink's option; for a template the template itself: ``mixpanel_{event}``.
    :param timeout_seconds: how long to wait for a broker that does not answer, or for an open transaction.
    :raises ConfigError: the ledger has no day of the topic, is missing, or holds records that no Kafka sink wrote; or
        the topic only receives changes of snapshots; or the cluster refuses the settings.
    :raises RetriableError: the broker does not answer, or a transaction in the ledger stays open.
    """
    entries: dict[tuple[str, str, str], LedgerEntry] = {}
    topics: set[str] = set()
    for message in ledger_records(_connection(settings), ledger_topic, timeout_seconds):
        try:
            connector, stream, target, day, what, *_ = json.loads(message.key() or b"null")
            if what != "day":
                continue
            topics.add(target)
            if target != topic:
                continue
            key, value = (connector, stream, day), message.value()
            entry = None if value is None else LedgerEntry.parse(value)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ConfigError(
                f"ledger topic {ledger_topic!r} holds a record at offset {message.offset()} that cannot be read: "
                "another version of this package, or somebody else, wrote it. Use the version that wrote it, or name "
                "the right ledger_topic"
            ) from None
        if entry is None:
            entries.pop(key, None)
        elif key not in entries or entry.supersedes(entries[key]):
            entries[key] = entry
    if not entries:
        known = ", ".join(sorted(topics)[:_MOST_NAMES]) or "none at all"
        raise ConfigError(
            f"ledger topic {ledger_topic!r} has no day of topic {topic!r}: nothing is published yet, or the sink has "
            f"another topic or ledger_topic. The ledger has days of: {known}"
        )
    if any(entry.only_changes for entry in entries.values()):
        raise ConfigError(
            f"topic {topic!r} only receives changes of snapshots: read it to its end, and keep the newest record of "
            "each key"
        )
    return [
        PublishedDay(
            connector=key[0],
            stream=key[1],
            day=dt.date.fromisoformat(key[2]),
            generation=entry.generation,
            rows=entry.rows,
            exact=entry.built_on is None,
            spans=entry.spans,
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
    """Yield the records of the newest generation of some days, each with its day, in the order of each partition.

    Records of several days come mixed. Only the end shows whether a day is complete: use the records only after the
    iteration has ended without an error.

    :param days: from :func:`newest_days`, all of them or some.
    :param day_of: returns a record's day, for records without headers (``KafkaSink(headers=False)``): :func:`json_day`,
        or a function that reads your values; None for a value that has no day. Such records, and those without a value,
        are assigned by their offsets, unless records of other days lie among the day's own. All days must then be of
        one stream. By default the headers name the day.
    :param timeout_seconds: how long to wait for a broker that does not answer, or for an open transaction.
    :raises DataError: records are gone, by retention or compaction, or the topic was recreated; or ``day_of`` finds no
        day in a record that has none by its offset.
    :raises RetriableError: the broker does not answer, or a transaction stays open.
    :raises ConfigError: a topic is gone, or the cluster refuses the settings.
    """
    refuse_text("days", days)
    wanted = _Wanted(days, day_of)
    found = dict.fromkeys(wanted.days, 0)
    heard = ClientErrors()
    own = {"check.crcs": True, "fetch.wait.max.ms": 50}
    with closing(make_consumer(_connection(settings), heard, **own)) as reader, translate_kafka_errors(ACTION, heard):
        for message in read_messages(reader, wanted.spans(), timeout_seconds, heard):
            day = wanted.wanted_day(message)
            if day is not None:
                found[_key(day)] += 1
                yield day, message
    for key, day in wanted.days.items():
        if found[key] < day.rows or (day.exact and found[key] > day.rows):
            raise DataError(
                f"{day}: found {found[key]:,} of {day.rows:,} published records: the topic has lost some (retention, "
                "compaction, deletion), or day_of returns wrong days. Clear the day's task to publish it again"
            )


def json_day(message: Message) -> dt.date:
    """Return the day that a value of ``value_converter="json"`` names, for ``day_of``.

    :raises DataError: the value is not such JSON.
    """
    try:
        value = json.loads(message.value() or b"null")
        return dt.date.fromisoformat(value["day"])
    except (ValueError, TypeError, KeyError):
        raise _without_day(
            message, "is not a JSON object with a day. Give records() a day_of that reads your values"
        ) from None


def _without_day(message: Message, why: str) -> DataError:
    return DataError(
        f"topic {message.topic()!r}, partition {message.partition()}, offset {message.offset()}: the value {why}, or "
        "publish with headers=True"
    )


Key = tuple[str, str, str]


def _key(day: PublishedDay) -> Key:
    return day.connector, day.stream, str(day.day)


class _Wanted:
    """Finds the wanted day of each record, if it belongs to that day's newest generation."""

    def __init__(self, days: Iterable[PublishedDay], day_of: DayOf | None) -> None:
        self.days: dict[Key, PublishedDay] = {_key(day): day for day in days}
        self.day_of = day_of
        streams = sorted({key[:2] for key in self.days})
        if day_of is not None and len(streams) > 1:
            names = ", ".join("/".join(stream) for stream in streams[:_MOST_NAMES])
            raise ConfigError(
                f"day_of cannot tell streams apart, but the days are of several: {names}. Read each stream alone"
            )
        self._by_header: dict[tuple[Any, ...], PublishedDay] = {
            tuple(part.encode() for part in key): day for key, day in self.days.items()
        }
        self._by_date = {day.day: day for day in self.days.values()}
        # As many offsets as rows: no others' records lie there, and no older generation's.
        self._alone = {d for d in self.days.values() if sum(end - first for first, end in d.spans.values()) == d.rows}
        self._holders = SpanIndex((day, day.spans) for day in self.days.values())

    def spans(self) -> dict[PartitionId, tuple[int, int]]:
        """Return the span to read of each partition: from the first wanted record to the last."""
        found: dict[PartitionId, tuple[int, int]] = {}
        for day in self.days.values():
            for place, (first, end) in day.spans.items():
                low, high = found.get(place, (first, end))
                found[place] = (min(first, low), max(end, high))
        return found

    def wanted_day(self, message: Message) -> PublishedDay | None:
        """Return the wanted day of a record, None if its day is not wanted or its generation is not the newest."""
        holders = self._holders.holders_at(partition_of(message), message.offset() or 0)
        if not holders:
            return None
        day = self._by_headers(message) if self.day_of is None else self._by_value(message, self.day_of, holders)
        return day if day in holders else None

    def _by_value(self, message: Message, day_of: DayOf, holders: tuple[PublishedDay, ...]) -> PublishedDay | None:
        """Return the day that the value names; where it names none, the day whose records alone are in its spans."""
        alone = next((day for day in holders if day in self._alone), None)
        if alone is not None and message.value() is None:
            return alone
        date = day_of(message)
        if date is None and alone is None:
            raise _without_day(message, "tells no day, and records of other days lie around it. Give another day_of")
        return alone if date is None else self._by_date.get(date)

    def _by_headers(self, message: Message) -> PublishedDay | None:
        headers: dict[str, Any] = dict(message.headers() or [])
        key = tuple(headers.get(f"connect.{name}") for name in ("connector", "stream", "day"))
        day = self._by_header.get(key)
        of_generation = day is not None and headers.get("connect.generation") == b"%d" % day.generation
        return day if of_generation else None


def _connection(settings: Mapping[str, Any]) -> Connection:
    return Connection(conn_id="reader", conn_type="kafka", extra=dict(settings))
