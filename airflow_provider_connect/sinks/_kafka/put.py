"""Sends the rows of staged files: as records, as dead letters, or not at all where a snapshot changed nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.outbox import Outbox, headers_bytes
from airflow_provider_connect.sinks._kafka import dead_letters
from airflow_provider_connect.sinks._kafka.ledger.records import Entry
from airflow_provider_connect.sinks._kafka.records import Outgoing, Plan, Records, Tolerated
from airflow_provider_connect.sinks._kafka.snapshot import Snapshot
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.rows import batches, first_position

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks.kafka import KafkaSink

BATCH_BYTES = 3_000_000
SLICE_BYTES = 4_500_000
"""What the values of one slice may hold: a slice costs some milliseconds whatever its size, and at 8 MB a task takes 60
MB more. A batch of a staged day is smaller than that in its file, and mostly one slice.
"""
_FIRST_ROWS = 1000
_GROWTH = 8
_CHUNK = 1000
_READY_BYTES = 16_000_000
"""What is read and encoded before a day's turn, so that others need not wait for it; as Python's objects it is more."""


@dataclass(frozen=True)
class Sent:
    """What one share has become.

    :param rows: that became records, or were records already.
    :param tombstones: records without a value among them.
    :param unchanged: of a snapshot: rows whose record the topic has already.
    :param vanished: of a snapshot: keys that got a tombstone; beside the rows.
    :param entry: what its own transaction wrote into the ledger; None where it had none.
    """

    rows: int
    rejected: int
    tombstones: int = 0
    unchanged: int = 0
    vanished: int = 0
    offsets: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    seconds: float = 0.0
    entry: Entry | None = None

    @classmethod
    def of(cls, entry: Entry) -> Sent:
        """Return what an earlier try has sent, as the ledger has it."""
        counts = entry.row.counts
        told = {name: counts.get(name, 0) for name in ("rejected", "tombstones")}
        seconds = counts.get("publish_ms", 0) / 1000
        return cls(entry.row.rows, **told, offsets=entry.offsets, seconds=seconds, entry=entry)

    @classmethod
    def total(cls, receipts: list[Sent], source_rejects: int) -> Sent:
        """Sum the shares into their day; spans of the same partition become one that holds them all."""
        offsets: dict[str, dict[int, tuple[int, int]]] = {}
        for sent in receipts:
            for topic, partitions in sent.offsets.items():
                known = offsets.setdefault(topic, {})
                for partition, (first, end) in partitions.items():
                    low, high = known.get(partition, (first, end))
                    known[partition] = (min(low, first), max(high, end))
        return cls(
            rows=sum(sent.rows for sent in receipts),
            rejected=sum(sent.rejected for sent in receipts) + source_rejects,
            tombstones=sum(sent.tombstones for sent in receipts),
            offsets=offsets,
            seconds=sum(sent.seconds for sent in receipts),  # of all transactions: what one would have taken
        )


class Sender:
    """Sends one share through one producer."""

    def __init__(self, sink: KafkaSink, plan: Plan, outbox: Outbox) -> None:
        self.sink = sink
        self.plan = plan
        self.outbox = outbox
        self.snapshot: Snapshot | None = None
        self._tolerated = Tolerated(sink)
        self._records: Records | None = None
        self._outgoing: Iterator[Outgoing] = iter(())

    def prepare(self, files: tuple[StagedFile, ...], schema: pa.Schema, generation: int) -> None:
        """Read and encode the first rows, as many as memory allows; nothing is sent yet."""
        self._records = Records(self.sink, schema, self.plan, generation)
        rest = self._encoded(self._records, files)
        ready, size_bytes = [], 0
        for outgoing in rest:
            ready.append(outgoing)
            size_bytes += outgoing.size_bytes
            if size_bytes >= _READY_BYTES:
                break
        self._outgoing = chain(_handed_out(ready), rest)

    def send(
        self, files: tuple[StagedFile, ...], schema: pa.Schema, generation: int, snapshot: Snapshot | None = None
    ) -> Sent:
        """Hand over every row; the broker may not have them yet.

        :param snapshot: what the topic holds, where only what changed is to be sent.
        :raises DataError: rows are no records, and are not tolerated.
        """
        if self._records is None:
            self.prepare(files, schema, generation)
        assert self._records is not None
        self.snapshot = snapshot
        rows = tombstones = 0
        total = sum(file.rows for file in files)
        started = time.monotonic()
        for outgoing in self._outgoing:
            rows += len(outgoing.values)
            tombstones += outgoing.tombstones
            self._set_aside(outgoing)
            self._hand_over(outgoing if snapshot is None else snapshot.changes(outgoing))
            self.outbox.check_time(rows, total)
        vanished = self._bury(self._records)
        return Sent(
            rows,
            self._tolerated.rejected,
            tombstones,
            snapshot.unchanged if snapshot else 0,
            vanished,
            seconds=time.monotonic() - started,
        )

    def send_source_rejects(self) -> int:
        """Send what the source set aside to the dead letters; return how many."""
        return self._post(dead_letters.of_source(self.plan.publish, self.sink.topic))

    def _encoded(self, records: Records, files: tuple[StagedFile, ...]) -> Iterator[Outgoing]:
        """Yield records slice by slice; how many rows a slice has follows from what those of the last came to.

        A Parquet file does not tell: repeated texts and NULLs are nothing in it, and whole values in a record.
        """
        rows = _FIRST_ROWS
        for file in files:
            for start, batch in batches(self.plan.publish.stage, file.path, BATCH_BYTES, first_position(file.path)):
                done = 0
                while done < batch.num_rows:
                    some = _at_most(batch.slice(done, rows), SLICE_BYTES)
                    size_bytes = 0
                    for outgoing in records.of(some, start + done):
                        size_bytes += outgoing.size_bytes
                        yield outgoing
                    done += some.num_rows
                    fitting = SLICE_BYTES * some.num_rows // max(1, size_bytes)
                    rows = max(1, min(fitting, _GROWTH * some.num_rows))

    def _set_aside(self, outgoing: Outgoing) -> None:
        if outgoing.refused:
            self._tolerated.take(outgoing.refused)
            self._post(dead_letters.of_rows(outgoing.refused, self.plan.publish))

    def _post(self, letters: Iterator[dead_letters.Letter]) -> int:
        topic = self.plan.dead_letters
        return dead_letters.send(self.outbox, topic, letters, self.plan.limits[topic].max_message_bytes) if topic else 0

    def _hand_over(self, outgoing: Outgoing) -> None:
        keys, values = outgoing.keys, outgoing.values
        each = outgoing.size_bytes // max(1, len(values))
        if outgoing.headers:
            each += headers_bytes(outgoing.headers[0])  # their event ids differ, but not by much
        for first in range(0, len(values), _CHUNK):
            chunk = slice(first, first + _CHUNK)
            if outgoing.headers is None and outgoing.timestamps is None and outgoing.partitions is None:
                records = [{"key": key, "value": value} for key, value in zip(keys[chunk], values[chunk], strict=True)]
                self.outbox.send_batch(outgoing.topic, records, each * len(records))
                continue
            headers = outgoing.headers[chunk] if outgoing.headers is not None else [[]] * len(values[chunk])
            stamps = outgoing.timestamps[chunk] if outgoing.timestamps is not None else [0] * len(values[chunk])
            self.outbox.make_room(len(stamps), each * len(stamps))
            partitions = outgoing.partitions[chunk] if outgoing.partitions is not None else [-1] * len(values[chunk])
            self.outbox.send_each(outgoing.topic, keys[chunk], values[chunk], headers, stamps, partitions)

    def _bury(self, records: Records) -> int:
        """Send a tombstone for every key that the snapshot has not, into the partition where its record lies."""
        if self.snapshot is None:
            return 0
        self.snapshot.require_unique()
        (topic,) = self.plan.topics
        vanished = 0
        for partition, key in self.snapshot.vanished():
            self.outbox.make_room(1, len(key) + headers_bytes(records.constant))
            self.outbox.send(topic, key, None, records.constant if self.sink.headers else [], partition=partition)
            vanished += 1
        return vanished


def _handed_out(ready: list[Outgoing]) -> Iterator[Outgoing]:
    """Yield what is ready, and let go of it."""
    ready.reverse()
    while ready:
        yield ready.pop()


def _at_most(batch: pa.RecordBatch, size_bytes: int) -> pa.RecordBatch:
    """Return the first rows of a batch, as many as hold so much in memory, or one."""
    while batch.num_rows > 1 and batch.nbytes > size_bytes:
        batch = batch.slice(0, max(1, min(batch.num_rows // 2, batch.num_rows * size_bytes // batch.nbytes)))
    return batch
