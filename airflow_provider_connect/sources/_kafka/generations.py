"""The newest generation of a day that a KafkaSink published: its offsets, and which records belong to it. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.readers._kafka_ledger import EntryKey, LedgerEntry, PartitionId
from airflow_provider_connect.sources._kafka.published import topics_of
from airflow_provider_connect.sources._kafka.records import Record

_MOST_NAMES = 5


class PublishedSpan(NamedTuple):
    """One publish of a day: all of it or, for increments, one of its spans.

    :param number: the header ``connect.span``. None for a day that is no increment.
    :param is_first: True if an earlier version of the sink may have written no ``connect.span``.
    :param is_undivided: True if there are as many offsets as rows, so that no other record lies between.
    :param offsets: first offset and the one after the last, by topic and partition.
    """

    generation: int
    number: int | None
    is_first: bool
    is_undivided: bool
    offsets: Mapping[PartitionId, tuple[int, int]]


@dataclass(frozen=True)
class PublishedDay:
    """The newest generation of a day of one stream.

    :param rows: records of the generation.
    :param is_exact: True if there cannot be more records than ``rows``.
    :param is_whole: False if the selected topics hold only a part of the rows.
    """

    connector: str
    stream: str
    day: str
    spans: Sequence[PublishedSpan]
    rows: int = 0
    is_exact: bool = True
    is_whole: bool = True
    _by_header: dict[bytes | None, PublishedSpan] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the spans by their header."""
        for span in self.spans:
            if span.is_first:
                self._by_header.setdefault(None, span)
            self._by_header[None if span.number is None else b"%d" % span.number] = span

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> PublishedDay:
        """Read :meth:`params`."""
        spans = []
        for generation, number, is_first, is_undivided, offsets in params["spans"]:
            by_partition = {(topic, partition): (begin, end) for topic, partition, begin, end in offsets}
            spans.append(PublishedSpan(generation, number, is_first, is_undivided, by_partition))
        return cls(params["connector"], params["stream"], params["day"], spans)

    def params(self, partitions: Collection[PartitionId]) -> dict[str, Any]:
        """Return what an input partition needs to select its records, as plain JSON."""
        spans = [
            [*span[:-1], [[*partition, *span.offsets[partition]] for partition in sorted(span.offsets)
                          if partition in partitions]]
            for span in self.spans
        ]  # fmt: skip
        return {"connector": self.connector, "stream": self.stream, "day": self.day, "spans": spans}

    def stretches(self) -> list[tuple[PartitionId, int, int]]:
        """Return the offsets to read, without overlaps: partition, first offset, and the one after the last."""
        merged: list[tuple[PartitionId, int, int]] = []
        for partition, begin, end in sorted(
            (p, *offsets) for span in self.spans for p, offsets in span.offsets.items()
        ):
            if merged and merged[-1][0] == partition and begin <= merged[-1][2]:
                merged[-1] = (partition, merged[-1][1], max(end, merged[-1][2]))
            else:
                merged.append((partition, begin, end))
        return merged

    def has(self, record: Record) -> bool:
        """Return True if a record belongs to this generation."""
        headers = dict(record.headers)
        names = tuple(headers.get(f"connect.{name}") for name in ("connector", "stream", "day"))
        span = self._by_header.get(headers.get("connect.span"))
        if span is not None and names == (self.connector.encode(), self.stream.encode(), self.day.encode()):
            is_newest = headers.get("connect.generation") == b"%d" % span.generation
            return is_newest and _holds(span, record)
        return any(span.is_undivided and _holds(span, record) for span in self.spans)


def published_day(
    entries: Mapping[EntryKey, LedgerEntry], names: Collection[str], day: dt.date, stream: str = ""
) -> PublishedDay:
    """Return the newest generation of a day in the selected topics.

    :param names: the topics.
    :param stream: connector and stream of the ledger, joined by a slash. "" if the topics have only one.
    :raises ConfigError: the ledger has no stream of the topics, or several.
    :raises RetriableError: the day is not published yet, or may get further increments.
    """
    targets = {key[:3] for key, entry in entries.items() if topics_of([entry]) & set(names) or key.topic in names}
    entries = {key: entry for key, entry in entries.items() if key[:3] in targets}
    streams = sorted({(key.connector, key.stream) for key in entries})
    connector, stream_name = _choose(streams, stream, names)
    own = sorted((key, entry) for key, entry in entries.items() if key[:2] == (connector, stream_name))
    if any(entry.only_changes for _, entry in own):
        raise ConfigError(
            f"{connector}/{stream_name} is a snapshot of which only changes are sent. Read it with read_by='offset'"
        )
    of_day = [(key, entry) for key, entry in own if key.day == day]
    if not of_day:
        raise RetriableError(f"day {day} of {connector}/{stream_name} is not published yet in {_label(names)}")
    _require_later_day(own, day, f"{connector}/{stream_name}")
    return PublishedDay(
        connector,
        stream_name,
        str(day),
        [_span(key, entry, names) for key, entry in of_day],
        rows=sum(entry.rows for _, entry in of_day),
        is_exact=all(entry.built_on is None for _, entry in of_day),
        is_whole=topics_of(entry for _, entry in of_day) <= set(names),
    )


def _choose(streams: Sequence[tuple[str, str]], stream: str, names: Collection[str]) -> tuple[str, str]:
    labels = ["/".join(names_of_stream) for names_of_stream in streams]
    shown = ", ".join(labels[:_MOST_NAMES])
    if not streams:
        raise ConfigError(
            f"the ledger has no day of {_label(names)}: nothing is published yet, or the sink has another "
            "ledger_topic. Correct topics or ledger_topic"
        )
    if stream and stream not in labels:
        raise ConfigError(f"published_stream={stream!r} is not in {_label(names)}. The ledger has: {shown}")
    if not stream and len(streams) > 1:
        raise ConfigError(f"{_label(names)} has several streams. Set published_stream to one of: {shown}")
    return streams[labels.index(stream)] if stream else streams[0]


def _require_later_day(own: Iterable[tuple[EntryKey, LedgerEntry]], day: dt.date, label: str) -> None:
    """Check that a day of increments has all of them: the newest one is of a later day."""
    numbered = [(entry.span_number, key.day) for key, entry in own if entry.span_number is not None]
    if numbered and max(numbered)[1] <= day:
        raise RetriableError(f"day {day} of {label} may get further increments: none of a later day is published yet")


def _span(key: EntryKey, entry: LedgerEntry, names: Collection[str]) -> PublishedSpan:
    offsets = {partition: bounds for partition, bounds in entry.spans.items() if partition[0] in names}
    is_undivided = sum(end - begin for begin, end in entry.spans.values()) == entry.rows
    return PublishedSpan(entry.generation, entry.span_number, key.part == 0, is_undivided, offsets)


def _holds(span: PublishedSpan, record: Record) -> bool:
    begin, end = span.offsets.get((record.topic, record.partition), (0, 0))
    return begin <= record.offset < end


def _label(names: Collection[str]) -> str:
    return "topic " + ", ".join(repr(name) for name in sorted(names)[:_MOST_NAMES])
