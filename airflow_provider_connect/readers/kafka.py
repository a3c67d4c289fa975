"""Reads each day of a Kafka topic as it is now: the records of the day's newest generation, and no others.

A reload appends a day to its topic once more, as its next generation. The ledger topic says which one counts and where
its records are. So a reader asks the ledger first, then reads the topic as far as the ledger says::

    from airflow_provider_connect.readers.kafka import newest_days, records

    settings = {"bootstrap.servers": "broker:9092"}
    for day, message in records(settings, newest_days(settings, "mixpanel_events")):
        print(day.day, day.generation, message.value())

``settings`` are librdkafka's, as in the extra of the sink's connection. Everything committed before the call is read:
a reader waits for open transactions that hide it, until nothing new has come for ``timeout_seconds``. It joins no group
and commits no offset. It keeps one entry for each day and what librdkafka has fetched ahead, never a day's records.

Not for topics of snapshots that send changes only (``cleanup="compact"``): there the newest record of each key is what
counts, and no ledger is needed.

The format of the ledger is written down in ``docs/kafka.md``; a test compares what is read here with what the sink
writes.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.kafka.connection import consumer
from airflow_provider_connect.clients.kafka.errors import Heard, kafka_errors
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.readers._kafka.ledger import Entry, ledger_records
from airflow_provider_connect.readers._kafka.spans import DOING, Place, messages, place_of

if TYPE_CHECKING:
    from confluent_kafka import Message

DayOf = Callable[["Message"], dt.date]
_MOST_NAMES = 5


@dataclass(frozen=True)
class PublishedDay:
    """The newest generation of one day, as the ledger knows it.

    :param connector: the source's connector, and ``stream`` its name for what it reads.
    :param generation: 1 for the first publish, one more for each reload.
    :param rows: how many records this generation has.
    :param exact: whether there are exactly that many, as a transaction decided; else at least.
    :param spans: by topic and partition the offset of the first record and the one behind the last; records of other
        days may lie between them. Empty for a day without rows.
    """

    connector: str
    stream: str
    day: dt.date
    generation: int
    rows: int
    exact: bool
    spans: Mapping[Place, tuple[int, int]] = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return stream, day and generation."""
        return f"{self.connector}/{self.stream} {self.day} generation {self.generation}"


def newest_days(
    settings: Mapping[str, Any], topic: str, *, ledger_topic: str = "__connect_ledger", timeout_seconds: float = 60.0
) -> list[PublishedDay]:
    """Return the newest generation of each day that is published into a topic, by connector, stream and day.

    :param topic: as the sink's option says; of a template the template: ``mixpanel_{event}``.
    :param timeout_seconds: how long a broker that does not answer, or an open transaction, is waited for.
    :raises ConfigError: the ledger has no day of the topic, is missing, or holds what no Kafka sink wrote; or the
        topic holds snapshots of which only the changes are sent; or the cluster refuses the settings.
    :raises RetriableError: the broker is away, or a transaction in the ledger stays open.
    """
    entries: dict[tuple[str, str, str], Entry] = {}
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
            entry = None if value is None else Entry.parse(value)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ConfigError(
                f"ledger topic {ledger_topic!r} holds a record at offset {message.offset()} that cannot be read: "
                "another version of this package, or somebody else, wrote it. Use the version that wrote it, or name "
                "the right ledger_topic"
            ) from None
        if entry is None:
            entries.pop(key, None)
        elif key not in entries or entry.counts_over(entries[key]):
            entries[key] = entry
    if not entries:
        known = ", ".join(sorted(topics)[:_MOST_NAMES]) or "none at all"
        raise ConfigError(
            f"ledger topic {ledger_topic!r} knows no day of topic {topic!r}: nothing is published yet, or the sink's "
            f"topic or ledger_topic is another one. It knows days of: {known}"
        )
    if any(entry.only_changes for entry in entries.values()):
        raise ConfigError(
            f"topic {topic!r} holds snapshots of which only the changes are sent: read it to its end, and keep the "
            "newest record of each key"
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
    """Yield the records of some days' newest generation, each with its day; in the order of each partition.

    Records of several days come mixed. That a day is not whole is an error at the end: so use what was read after the
    iteration has ended.

    :param days: of :func:`newest_days`, all of them or those that are wanted.
    :param day_of: tells a record's day, for records without headers (``KafkaSink(headers=False)``): :func:`json_day`,
        or a function that reads your values. The days must then be of one stream. By default the headers tell.
    :param timeout_seconds: how long a broker that does not answer, or an open transaction, is waited for.
    :raises DataError: records are gone, by retention or compaction, or a topic was made anew; or ``day_of`` cannot
        tell a record's day.
    :raises RetriableError: the broker is away, or a transaction stays open.
    :raises ConfigError: a topic is gone, or the cluster refuses the settings.
    """
    wanted = _Wanted(days, day_of)
    found = dict.fromkeys(wanted.days, 0)
    heard = Heard()
    own = {"check.crcs": True, "fetch.wait.max.ms": 50}
    with closing(consumer(_connection(settings), heard, **own)) as reader, kafka_errors(DOING, heard):
        for message in messages(reader, wanted.spans(), timeout_seconds, heard):
            day = wanted.of(message)
            if day is not None:
                found[_key(day)] += 1
                yield day, message
    for key, day in wanted.days.items():
        if found[key] < day.rows or (day.exact and found[key] > day.rows):
            raise DataError(
                f"{day}: {found[key]:,} records were found and {day.rows:,} were published: the topic has lost some "
                "(retention, compaction, deletion), or day_of misjudges them. Clear the day's task to publish it anew"
            )


def json_day(message: Message) -> dt.date:
    """Return the day that a value of ``value_converter="json"`` names, for ``day_of``.

    :raises DataError: the value is no such JSON.
    """
    try:
        value = json.loads(message.value() or b"null")
        return dt.date.fromisoformat(value["day"])
    except (ValueError, TypeError, KeyError):
        raise DataError(
            f"topic {message.topic()!r}, partition {message.partition()}, offset {message.offset()}: the value is no "
            "JSON object with a day. Give records() a day_of that reads your values, or publish with headers=True"
        ) from None


Key = tuple[str, str, str]


def _key(day: PublishedDay) -> Key:
    return day.connector, day.stream, str(day.day)


class _Wanted:
    """Tells of each record whether it is of a wanted day's newest generation."""

    def __init__(self, days: Iterable[PublishedDay], day_of: DayOf | None) -> None:
        self.days: dict[Key, PublishedDay] = {_key(day): day for day in days}
        self.day_of = day_of
        streams = sorted({key[:2] for key in self.days})
        if day_of is not None and len(streams) > 1:
            names = ", ".join("/".join(stream) for stream in streams[:_MOST_NAMES])
            raise ConfigError(f"day_of cannot tell streams apart, and the days are of several: {names}")
        self._by_header: dict[tuple[Any, ...], PublishedDay] = {
            tuple(part.encode() for part in key): day for key, day in self.days.items()
        }
        self._by_date = {day.day: day for day in self.days.values()}

    def spans(self) -> dict[Place, tuple[int, int]]:
        """Return what must be read of each partition: from the first wanted record to the last."""
        found: dict[Place, tuple[int, int]] = {}
        for day in self.days.values():
            for place, (first, end) in day.spans.items():
                low, high = found.get(place, (first, end))
                found[place] = (min(first, low), max(end, high))
        return found

    def of(self, message: Message) -> PublishedDay | None:
        """Return the day that a record belongs to, None where it is of no wanted one or of another generation."""
        day = self._by_headers(message) if self.day_of is None else self._by_date.get(self.day_of(message))
        if day is None:
            return None
        first, end = day.spans.get(place_of(message), (0, 0))
        return day if first <= (message.offset() or 0) < end else None

    def _by_headers(self, message: Message) -> PublishedDay | None:
        headers: dict[str, Any] = dict(message.headers() or [])
        key = tuple(headers.get(f"connect.{name}") for name in ("connector", "stream", "day"))
        day = self._by_header.get(key)
        of_generation = day is not None and headers.get("connect.generation") == b"%d" % day.generation
        return day if of_generation else None


def _connection(settings: Mapping[str, Any]) -> Connection:
    return Connection(conn_id="reader", conn_type="kafka", extra=dict(settings))
