"""Reads offset ranges of topics to their ends: only records of finished transactions, none beyond the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.kafka.connection import make_consumer
from airflow_provider_connect.clients.kafka.errors import ClientErrors, classify, translate_kafka_errors
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.sources._kafka.ranges import OffsetRange
from airflow_provider_connect.sources._kafka.records import Record

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_BATCH_RECORDS = 10_000
_BATCH_BYTES = 8_000_000
_LOOK_SECONDS = 0.1
_QUEUE_KBYTES = 32_000
"""Memory for fetched records of all partitions together. librdkafka's default is 64 MB for each partition."""
_FETCH_BYTES = 4_000_000


@contextmanager
def open_consumer(
    connection: Connection,
    ranges: Sequence[OffsetRange],
    *,
    reads_headers: bool,
    check_first: Callable[[Message], None] | None = None,
) -> Iterator[RangeReader]:
    """Open a consumer for offset ranges of different partitions.

    :param reads_headers: False leaves the records' headers empty, which is faster.
    :param check_first: called with the first record of each range.
    """
    errors = ClientErrors()
    consumer = make_consumer(
        connection,
        errors,
        **{
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "fetch.message.max.bytes": min(_FETCH_BYTES, max(100_000, _QUEUE_KBYTES * 1000 // len(ranges))),
            "queued.max.messages.kbytes": max(500, _QUEUE_KBYTES // len(ranges)),
        },
    )
    try:
        with translate_kafka_errors("reading records", errors):
            yield RangeReader(consumer, ranges, reads_headers=reads_headers, check_first=check_first)
    finally:
        consumer.close()


class RangeReader:
    """Reads the ranges of one input partition."""

    def __init__(
        self,
        consumer: Consumer,
        ranges: Sequence[OffsetRange],
        *,
        reads_headers: bool,
        check_first: Callable[[Message], None] | None = None,
    ) -> None:
        self._consumer = consumer
        self._reads_headers = reads_headers
        self._ranges = {(offset_range.topic, offset_range.partition): offset_range for offset_range in ranges}
        self._left = set(self._ranges)
        self._check_first = check_first
        self._unchecked = set(self._ranges) if check_first is not None else set()

    def read(self, timeout_seconds: float) -> Iterator[list[Record]]:
        """Yield the records in lists of a few megabytes.

        Compaction and aborted transactions leave offsets without records, also at a range's end. A partition is done
        once a record beyond its end arrives, or its log's stable end.

        :raises RetriableError: no further record arrives in time.
        :raises ConfigError: records were deleted since the plan.
        """
        from confluent_kafka import TopicPartition

        self._consumer.assign(
            [
                TopicPartition(offset_range.topic, offset_range.partition, offset_range.begin)
                for offset_range in self._ranges.values()
            ]
        )
        patience = Patience(timeout_seconds)
        records: list[Record] = []
        size = 0
        while self._left:
            messages = self._consumer.consume(1, _LOOK_SECONDS)
            messages += self._consumer.consume(_BATCH_RECORDS, 0) if messages else []
            for record in self._accept(messages):
                records.append(record)
                size += len(record.value or b"") + len(record.key or b"")
                if len(records) >= _BATCH_RECORDS or size >= _BATCH_BYTES:
                    yield records
                    records, size = [], 0
            if messages:
                patience.restart()
            elif patience.is_over:
                topic, partition = min(self._left)
                raise RetriableError(
                    f"topic {topic!r} partition {partition} and {len(self._left) - 1} more: no record arrived for "
                    f"{timeout_seconds:.0f} s, and offset {self._ranges[topic, partition].end:,} is not reached"
                )
        if records:
            yield records

    def _accept(self, messages: Sequence[Message]) -> Iterator[Record]:
        """Yield the records that lie in their range. Marks partitions that are done."""
        for message in messages:
            if message.error() is not None:
                self._handle_event(message)
                continue
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            offset_range = self._ranges[topic, partition]
            if offset + 1 >= offset_range.end:
                self._finish(topic, partition, offset + 1)
                if offset >= offset_range.end:
                    continue
            if (topic, partition) in self._unchecked and self._check_first is not None:
                self._check_first(message)
                self._unchecked.discard((topic, partition))
            kind, milliseconds = message.timestamp()
            headers: Any = (message.headers() or ()) if self._reads_headers else ()
            yield Record(
                topic,
                offset_range.identity,
                partition,
                offset,
                milliseconds if kind else None,
                message.key(),
                message.value(),
                headers,
            )

    def _handle_event(self, message: Message) -> None:
        """Mark a partition at its end as done.

        :raises ConnectError: for any other event.
        """
        from confluent_kafka import KafkaError, KafkaException

        error: Any = message.error()
        topic, partition = message.topic() or "", message.partition() or 0
        if error.code() == KafkaError._PARTITION_EOF:
            self._finish(topic, partition, message.offset() or 0)
        elif error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise ConfigError(
                f"topic {topic!r} partition {partition}: records of this run were deleted while it read them. The "
                "next run names them, see on_lost"
            )
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # this consumer joins no group
            raise classify(KafkaException(error), f"reading topic {topic!r} partition {partition}")

    def _finish(self, topic: str, partition: int, next_offset: int) -> None:
        """Mark a partition as done if its range ends before ``next_offset``, and fetch no more of it."""
        from confluent_kafka import TopicPartition

        if (topic, partition) in self._left and next_offset >= self._ranges[topic, partition].end:
            self._left.discard((topic, partition))
            self._consumer.pause([TopicPartition(topic, partition)])
