"""Sends staged rows as records or dead letters."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.outbox import Headers, Outbox
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._kafka.dead_letters import DeadLetterSender
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan, OutgoingRecords, RecordEncoder, RejectedRow
from airflow_provider_connect.sinks._kafka.snapshot_diff import SnapshotDiff
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.rows import read_batches
from airflow_provider_connect.stage.soft_deletes import DELETED, DELETED_AT

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._kafka.options import KafkaOptions

BATCH_BYTES = 3_000_000
SLICE_BYTES = 4_500_000
"""Bytes of values encoded in one slice.

A slice costs some milliseconds at any size, but 8 MB need 60 MB more memory.
"""
_FIRST_ROWS = 1000
_GROWTH = 8
_CHUNK_RECORDS = 1000
_READY_BYTES = 16_000_000
"""Bytes encoded before a day's turn."""


@dataclass(frozen=True)
class SentShare:
    """Result of sending one share of a day.

    :param rows: rows that became records, or matched existing records.
    :param tombstones: rows that became records without a value.
    :param unchanged: snapshot rows that the topic already has.
    :param vanished: tombstones for keys that the snapshot lacks.
    :param soft_deleted: vanished keys, sent again.
    """

    rows: int
    rejected: int
    tombstones: int = 0
    unchanged: int = 0
    vanished: int = 0
    soft_deleted: int = 0
    offsets: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    seconds: float = 0.0
    entry: DayEntry | None = None

    @classmethod
    def from_entry(cls, entry: DayEntry) -> SentShare:
        """Return an earlier attempt's result from its ledger record."""
        counts = entry.row.counts
        row_counts = {name: counts.get(name, 0) for name in ("rejected", "tombstones")}
        seconds = counts.get("publish_ms", 0) / 1000
        return cls(entry.row.rows, **row_counts, offsets=entry.offsets, seconds=seconds, entry=entry)

    @classmethod
    def total(cls, receipts: list[SentShare], source_rejects: int) -> SentShare:
        """Sum the results of a day's shares and merge their offsets."""
        offsets: dict[str, dict[int, tuple[int, int]]] = {}
        for share in receipts:
            for topic, partitions in share.offsets.items():
                spans = offsets.setdefault(topic, {})
                for partition, (begin, end) in partitions.items():
                    low, high = spans.get(partition, (begin, end))
                    spans[partition] = (min(low, begin), max(high, end))
        return cls(
            rows=sum(share.rows for share in receipts),
            rejected=sum(share.rejected for share in receipts) + source_rejects,
            tombstones=sum(share.tombstones for share in receipts),
            offsets=offsets,
            seconds=sum(share.seconds for share in receipts),  # the time that one transaction would have taken
        )

    def require_all(self, files: tuple[StagedFile, ...], outbox: Outbox, source_rejects: int = 0) -> None:
        """Check that the client accepted a record for each row to send.

        :raises RetriableError: another number.
        """
        rows = sum(file.rows for file in files)
        records = rows - self.unchanged + self.vanished + self.soft_deleted + source_rejects
        if self.rows + self.rejected != rows or outbox.accepted_records != records:
            raise RetriableError(
                f"{rows:,} rows were staged and {records:,} records were expected, but the client accepted "
                f"{outbox.accepted_records:,}. Nothing is committed, and the day is retried"
            )


class ShareSender:
    """Sends one share through one producer, with one generation."""

    def __init__(
        self, options: KafkaOptions, plan: DayPlan, outbox: Outbox, files: tuple[StagedFile, ...], generation: int
    ) -> None:
        self.options = options
        self.plan = plan
        self.outbox = outbox
        self.files = files
        self._records = RecordEncoder(options, plan, generation)
        self._rejected = 0
        self._outgoing = self._encode()

    def encode_ahead(self) -> None:
        """Encode the first rows, up to 16 MB. Sends nothing."""
        ready, size_bytes = [], 0
        for outgoing in self._outgoing:
            ready.append(outgoing)
            size_bytes += outgoing.size_bytes
            if size_bytes >= _READY_BYTES:
                break
        self._outgoing = chain(_drain(ready), self._outgoing)

    def send(self, snapshot: SnapshotDiff | None = None) -> SentShare:
        """Pass every row to the producer, without waiting for acknowledgements.

        :param snapshot: only its changes are sent.
        :raises DataError: too many rejected rows.
        """
        rows = tombstones = 0
        total = sum(file.rows for file in self.files)
        for outgoing in self._outgoing:
            rows += len(outgoing.values)
            tombstones += outgoing.values.count(None)
            if outgoing.refused:
                self.set_aside(outgoing.refused)
            self._hand_over(outgoing if snapshot is None else snapshot.select_changes(outgoing))
            self.outbox.require_time_left(rows, total)
        share = SentShare(rows, self._rejected, tombstones)
        if snapshot is None:
            return share
        vanished = self._send_tombstones(snapshot)
        soft_deleted = vanished if self.options.deletes == "soft" else 0
        return replace(share, unchanged=snapshot.unchanged_rows, vanished=vanished, soft_deleted=soft_deleted)

    def set_aside(self, refused: list[RejectedRow]) -> None:
        """Count rejected rows and send them to the dead letter topic.

        :raises DataError: too many.
        """
        self._rejected += len(refused)
        first_row = refused[0]
        message = (
            f"row {first_row.position}"
            + (f", column {first_row.column!r}" if first_row.column else "")
            + f": {first_row.reason}"
        )
        message = f"{len(refused)} rows cannot become records of topic {first_row.topic!r}, the first: {message}"
        self.options.tolerance.require(self._rejected, message)
        DeadLetterSender(self.plan, self.outbox, self.options.topic).send_refused(refused)

    def _encode(self) -> Iterator[OutgoingRecords]:
        rows = _FIRST_ROWS
        for file in self.files:
            for start, batch in read_batches(self.plan.publish.stage, file.path, BATCH_BYTES):
                encoded_rows = 0
                while encoded_rows < batch.num_rows:
                    encoded_slice = _first_rows(batch.slice(encoded_rows, rows), SLICE_BYTES)
                    size_bytes = 0
                    for outgoing in self._records.encode(encoded_slice, start + encoded_rows):
                        size_bytes += outgoing.size_bytes
                        yield outgoing
                    encoded_rows += encoded_slice.num_rows
                    fitting_rows = SLICE_BYTES * encoded_slice.num_rows // max(1, size_bytes)
                    rows = max(1, min(fitting_rows, _GROWTH * encoded_slice.num_rows))

    def _hand_over(self, outgoing: OutgoingRecords) -> None:
        keys, values = outgoing.keys, outgoing.values
        bytes_per_record = outgoing.size_bytes // max(1, len(values))
        for first in range(0, len(values), _CHUNK_RECORDS):
            chunk = slice(first, first + _CHUNK_RECORDS)
            if outgoing.headers is None and outgoing.timestamps is None and outgoing.partitions is None:
                records = [{"key": key, "value": value} for key, value in zip(keys[chunk], values[chunk], strict=True)]
                self.outbox.send_batch(outgoing.topic, records, bytes_per_record * len(records))
                continue
            headers = outgoing.headers[chunk] if outgoing.headers is not None else [[]] * len(values[chunk])
            timestamps = outgoing.timestamps[chunk] if outgoing.timestamps is not None else [0] * len(values[chunk])
            partitions = outgoing.partitions[chunk] if outgoing.partitions is not None else [-1] * len(values[chunk])
            size_bytes = bytes_per_record * len(timestamps)
            self.outbox.send_with_headers(
                outgoing.topic, keys[chunk], values[chunk], headers, timestamps, partitions, size_bytes
            )

    def _send_tombstones(self, snapshot: SnapshotDiff) -> int:
        snapshot.require_unique()
        (topic,) = self.plan.topic_by_value.values()
        headers = self._records.constant_headers  # compared snapshots always have headers
        vanished = 0
        for partition, key, value, value_headers in snapshot.read_vanished():
            if self.options.deletes == "soft":
                self.outbox.send(topic, key, value, [*headers, *value_headers, *self._deletion_headers], partition)
            self.outbox.send(topic, key, None, headers, partition)
            vanished += 1
        return vanished

    @property
    def _deletion_headers(self) -> Headers:
        publish = self.plan.publish
        day = dt.datetime.combine(publish.day.date, dt.time(), tzinfo=dt.UTC)
        deleted_at = (publish.manifest.polled_at or day).astimezone(dt.UTC)
        return [(DELETED, b"true"), (DELETED_AT, f"{deleted_at:%Y-%m-%dT%H:%M:%S.%fZ}".encode())]


def _drain(ready: list[OutgoingRecords]) -> Iterator[OutgoingRecords]:
    ready.reverse()
    while ready:
        yield ready.pop()


def _first_rows(batch: pa.RecordBatch, size_bytes: int) -> pa.RecordBatch:
    while batch.num_rows > 1 and batch.nbytes > size_bytes:
        batch = batch.slice(0, max(1, min(batch.num_rows // 2, batch.num_rows * size_bytes // batch.nbytes)))
    return batch
