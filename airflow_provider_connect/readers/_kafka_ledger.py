"""Reads ledger records and the offset spans in them, for :mod:`.readers.kafka`.

A span may contain records of other days, lack records, or be hidden by an open transaction. The sink reads the ledger
with its own code, and a test compares the two.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from airflow_provider_connect.clients.kafka.errors import ClientErrors, classify
from airflow_provider_connect.clients.kafka.topic_reader import open_topic
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


PartitionId = tuple[str, int]
"""Topic and partition number."""
T = TypeVar("T")
ACTION = "reading the days"
_BATCH = 1000
_LOOK_SECONDS = 0.1


class SpanIndex(Generic[T]):
    """Finds the holders of spans that contain an offset. Spans may overlap."""

    def __init__(self, spans: Iterable[tuple[T, Mapping[PartitionId, tuple[int, int]]]]) -> None:
        by_partition: dict[PartitionId, list[tuple[int, int, T]]] = {}
        for holder, holder_spans in spans:
            for partition, (first, end) in holder_spans.items():
                by_partition.setdefault(partition, []).append((first, end, holder))
        self._by_partition = {partition: _steps(partition_spans) for partition, partition_spans in by_partition.items()}

    def holders_at(self, partition: PartitionId, offset: int) -> tuple[T, ...]:
        """Return the holders of spans that contain this offset."""
        edges, holders = self._by_partition.get(partition, ([], []))
        at = bisect_right(edges, offset) - 1
        return holders[at] if at >= 0 else ()


def _steps(spans: list[tuple[int, int, T]]) -> tuple[list[int], list[tuple[T, ...]]]:
    """Return the offsets at which spans begin or end, and for each offset the holders up to the next."""
    edges = sorted({edge for first, end, _ in spans for edge in (first, end)})
    begun: dict[int, list[tuple[int, T]]] = {}
    for first, end, holder in spans:
        begun.setdefault(first, []).append((end, holder))
    holders: list[tuple[T, ...]] = []
    current: list[tuple[int, T]] = []
    for edge in edges:
        current = [(end, holder) for end, holder in current if end > edge] + begun.get(edge, [])
        holders.append(tuple(holder for _, holder in current))
    return edges, holders


def read_messages(
    reader: Consumer, spans: Mapping[PartitionId, tuple[int, int]], timeout_seconds: float, client_errors: ClientErrors
) -> Iterator[Message]:
    """Yield the committed records of each span."""
    from confluent_kafka import TopicPartition

    reader.assign([TopicPartition(*partition, first) for partition, (first, _) in spans.items()])
    unread = {partition: end for partition, (_, end) in spans.items()}
    deadline = time.monotonic() + timeout_seconds
    while unread:
        batch = reader.consume(_BATCH, _LOOK_SECONDS)
        for message in batch:
            partition, offset = partition_of(message), message.offset() or 0
            reached_offset = offset + 1 if message.error() is None else _end_offset(message)
            if partition not in unread:
                continue
            if message.error() is None and offset < unread[partition]:
                yield message
            if reached_offset >= unread[partition]:
                del unread[partition]
                reader.pause([TopicPartition(*partition)])
        if any(message.error() is None for message in batch):
            deadline = time.monotonic() + timeout_seconds
        elif time.monotonic() > deadline:
            raise client_errors.lasting_error(ACTION) or _stuck_error(reader, unread, timeout_seconds)


def _end_offset(message: Message) -> int:
    """Return the offset up to which an error's partition was read, or -1 for an error that passes."""
    from confluent_kafka import KafkaError, KafkaException

    error = message.error()
    assert error is not None
    if error.code() == KafkaError._PARTITION_EOF:
        return message.offset() or 0
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise _lost_records_error(*partition_of(message))
    failure = classify(KafkaException(error), f"reading topic {message.topic()!r}")
    # librdkafka looks for a group even though this consumer joins none, and reports that here.
    if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED and not isinstance(failure, RetriableError):
        raise failure
    return -1


def _stuck_error(reader: Consumer, unread: Mapping[PartitionId, int], timeout_seconds: float) -> Exception:
    from confluent_kafka import TopicPartition

    for partition_id, end in sorted(unread.items()):
        watermarks = reader.get_watermark_offsets(TopicPartition(*partition_id), cached=True)
        if watermarks is not None and 0 <= watermarks[1] < end:
            return _lost_records_error(*partition_id)
    topic, partition = min(unread)
    return RetriableError(
        f"topic {topic!r}, partition {partition} could not be read up to offset {unread[topic, partition]:,} for "
        f"{timeout_seconds:.0f} s: an open transaction, which its timeout ends, "
        "hides the rest. Or the topic was deleted, or the broker does not answer. Try again"
    )


def _lost_records_error(topic: str, partition: int) -> DataError:
    return DataError(
        f"topic {topic!r}, partition {partition} lacks records that the ledger has: retention deleted them, or the "
        "topic was recreated. Leave out the lost days, or clear their tasks to publish them again"
    )


def partition_of(message: Message) -> PartitionId:
    return str(message.topic()), int(message.partition() or 0)


@dataclass(frozen=True)
class LedgerEntry:
    """Fields of a day's ledger record that a reader needs."""

    generation: int
    checks: int
    rows: int
    token: str
    attempt: str | None
    only_changes: bool
    spans: Mapping[PartitionId, tuple[int, int]]
    built_on: int | None
    built_on_checks: int
    beaten: frozenset[str]
    span_number: int | None = None

    @classmethod
    def parse(cls, value: str | bytes) -> LedgerEntry:
        """Parse a record's value.

        :raises ValueError, KeyError, TypeError, AttributeError: no Kafka sink wrote it.
        """
        entry = json.loads(value)
        row = entry["row"]
        counts = row.get("counts", {})
        return cls(
            int(row["generation"]),
            int(row.get("checks", 0)),
            int(row["rows"]),
            row["token"],
            row.get("attempt"),
            bool(counts.get("unchanged") or counts.get("vanished")),
            {
                (topic, int(number)): (int(first), int(end))
                for topic, partitions in entry.get("offsets", {}).items()
                for number, (first, end) in partitions.items()
            },
            entry.get("built_on"),
            int(entry.get("built_on_checks", 0)),
            frozenset(entry.get("beaten", ())),
            (row.get("span") or {}).get("number"),
        )

    def supersedes(self, earlier: LedgerEntry) -> bool:
        """Return True if this later record counts instead of an earlier one.

        If two runs publish a day on the same generation without transactions, the first record counts.
        """
        is_repeated = (self.token, self.attempt, self.checks) == (earlier.token, earlier.attempt, earlier.checks)
        if self.built_on is None or is_repeated:
            return True
        confirmation_name = f"{earlier.token}/{earlier.generation}/{earlier.checks}"
        earlier_name = confirmation_name if earlier.checks else earlier.attempt
        base = (self.built_on, self.built_on_checks)
        return base >= (earlier.generation, earlier.checks) or earlier_name in self.beaten


class EntryKey(NamedTuple):
    """Key of a day's ledger record.

    :param topic: the sink's option, perhaps a template.
    :param part: number of a later span of the day. 0 for the first one, and for days that are no increments.
    """

    connector: str
    stream: str
    topic: str
    day: dt.date
    part: int


def newest_entries(
    connection: Connection, ledger_topic: str, timeout_seconds: float, topic: str | None = None
) -> tuple[dict[EntryKey, LedgerEntry], set[str]]:
    """Return the counting entry of each published day, and the topics that the ledger has, as options of sinks.

    :param topic: return only entries of this option. None returns all.
    :raises ConfigError: the ledger is missing, or holds records that no Kafka sink wrote.
    """
    entries: dict[EntryKey, LedgerEntry] = {}
    topics: set[str] = set()
    for message in ledger_records(connection, ledger_topic, timeout_seconds):
        try:
            connector, stream, target, day, record_type, *part = json.loads(message.key() or b"null")
            if record_type != "day":
                continue
            topics.add(target)
            if topic not in (None, target):
                continue
            key = EntryKey(connector, stream, target, dt.date.fromisoformat(day), *(part or (0,)))
            value = message.value()
            entry = None if value is None else LedgerEntry.parse(value)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ConfigError(
                f"ledger topic {ledger_topic!r} holds a record at offset {message.offset()} that cannot be read: "
                "another version of this package, or another program, wrote it. Use the version that wrote it, or name "
                "the right ledger_topic"
            ) from None
        if entry is None:
            entries.pop(key, None)
        elif key not in entries or entry.supersedes(entries[key]):
            entries[key] = entry
    return entries, topics


class MissingLedgerError(ConfigError):
    """The ledger topic does not exist."""


def ledger_records(connection: Connection, topic: str, timeout_seconds: float) -> Iterator[Message]:
    """Yield the ledger's committed records up to its present end, after waiting for transactions open before it."""
    with open_topic(connection, topic, timeout_seconds, "read_uncommitted", "ledger topic") as partitions:
        numbers = partitions.partition_numbers()
        if not numbers:
            raise MissingLedgerError(
                f"ledger topic {topic!r} is missing: nothing is published yet, or the sink has another ledger_topic"
            )
        ends = {number: partitions.read_bounds(number)[1] for number in numbers}
    with open_topic(connection, topic, timeout_seconds, "read_committed", "ledger topic") as partitions:
        for batch in partitions.read_batches(dict.fromkeys(ends, 0), ends):
            yield from batch
