"""Reads topics up to their ends, and computes the offsets that a transaction wrote.

The end offset is requested from the partition's leader before the first record is read. After an election, the end
offset that comes with records may lag behind the commits. A leader answers the request only after it has caught up
(https://cwiki.apache.org/confluence/x/4DrlBQ, KIP-207, 2026-11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.clients.kafka.connection import make_consumer
from airflow_provider_connect.clients.kafka.errors import (
    ClientErrors,
    UnknownTopicError,
    classify,
    translate_kafka_errors,
)
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.patience import Patience

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaException, Message
    from confluent_kafka.admin import AdminClient


Isolation = Literal["read_committed", "read_uncommitted"]
_BATCH_RECORDS = 10_000
_LOOK_SECONDS = 0.05
_FETCH_BYTES = 4_000_000
"""Bytes fetched from a partition in one request."""
_AGAIN_SECONDS = 0.1
TOPIC_LISTING_SECONDS = 2.0
"""Time for which a new topic may be unknown to some brokers."""
_ADVICE = "find out which program deletes it. A new run creates it with create_disposition='if_needed'"
EndOffsets = dict[str, dict[int, int]]


class TopicReader:
    """Consumer of one topic, created by :func:`open_topic`."""

    def __init__(self, reader: Consumer, topic: str, description: str, timeout_seconds: float) -> None:
        self.topic = topic
        self.description = description
        self.timeout_seconds = timeout_seconds
        self.stop_offsets: dict[int, int] = {}
        """Offset of each partition at which the last read stopped."""
        self._reader = reader

    def partition_numbers(self) -> list[int]:
        """Return the topic's partitions. Empty if the topic does not exist."""
        from confluent_kafka import KafkaError, KafkaException

        topic = self._retry(lambda seconds: self._reader.list_topics(self.topic, timeout=seconds)).topics[self.topic]
        if topic.error is not None:
            if topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return []
            raise KafkaException(topic.error)
        return sorted(topic.partitions)

    def read_bounds(self, partition: int) -> tuple[int, int]:
        """Request a partition's first offset, and the one after the last record visible to this reader."""
        from confluent_kafka import TopicPartition

        topic_partition = TopicPartition(self.topic, partition)
        bounds: tuple[int, int] = self._retry(
            lambda seconds: self._reader.get_watermark_offsets(topic_partition, timeout=seconds)
        )
        return bounds

    def _retry(self, request: Callable[[float], Any]) -> Any:
        from confluent_kafka import KafkaException

        patience = Patience(self.timeout_seconds, (_LOOK_SECONDS,))
        while True:
            try:
                return request(max(1.0, patience.left_seconds))
            except KafkaException as error:
                # A client without a broker reports even known partitions as unknown.
                may_pass = isinstance(classify(error, self.description), (RetriableError, UnknownTopicError))
                if not may_pass or not patience.wait_and_poll():
                    raise

    def cached_end(self, partition: int) -> int:
        """Return the end offset that came with the last records, including open transactions."""
        from confluent_kafka import TopicPartition

        return self._reader.get_watermark_offsets(TopicPartition(self.topic, partition), cached=True)[1]

    def read_batches(self, starts: dict[int, int], ends: dict[int, int]) -> Iterator[list[Message]]:
        """Yield records from ``starts`` until every partition's end, and at least to ``ends``.

        :raises RetriableError: the records stop coming before ``ends``.
        :raises ConfigError: an offset no longer exists.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        self._reader.assign([TopicPartition(self.topic, partition, offset) for partition, offset in starts.items()])
        self.stop_offsets = {}
        patience = Patience(self.timeout_seconds)
        while set(self.stop_offsets) != set(starts):
            records = []
            for message in self._consume():
                error, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
                if error is None:
                    records.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    if offset >= ends[partition]:
                        self.stop_offsets[partition] = offset
                elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    pass  # librdkafka looks up every consumer's group, but this one joins none
                elif not isinstance(failure := classify(KafkaException(error), self.description), RetriableError):
                    raise failure
            if records:
                yield records
                patience.restart()
            elif patience.is_over:
                raise RetriableError(
                    f"{self.description} could not be read to its end for {self.timeout_seconds:.0f} s: a transaction "
                    "is open there, which its timeout ends, or the broker does not answer"
                )

    def read_all(self, last_offsets: int | None = None) -> Iterator[list[Message]]:
        """Yield the topic's current records.

        :param last_offsets: number of offsets to read at each partition's end. None reads all.
        """
        bounds = {number: self.read_bounds(number) for number in self.partition_numbers()}
        starts = {
            number: begin if last_offsets is None else max(begin, end - last_offsets)
            for number, (begin, end) in bounds.items()
        }
        yield from self.read_batches(starts, {number: end for number, (_, end) in bounds.items()})

    def pause(self) -> None:
        """Fetch no records until the next :meth:`read_batches`."""
        self._reader.unassign()

    def _consume(self) -> list[Message]:
        """Return arrived records without waiting for a full batch."""
        messages: list[Message] = self._reader.consume(1, _LOOK_SECONDS)
        return messages + self._reader.consume(_BATCH_RECORDS, 0) if messages else messages


@contextmanager
def open_topic(
    connection: Connection,
    topic: str,
    timeout_seconds: float,
    isolation: Isolation = "read_committed",
    topic_kind: Literal["topic", "ledger topic"] = "topic",
) -> Iterator[TopicReader]:
    """Open a topic for reading."""
    client_errors, description = ClientErrors(), f"{topic_kind} {topic!r}"
    overrides = {"isolation.level": isolation, "fetch.wait.max.ms": 10, "check.crcs": True}
    overrides |= {"fetch.message.max.bytes": _FETCH_BYTES}
    reader = make_consumer(connection, client_errors, **overrides)
    try:
        with translate_kafka_errors(f"reading {description}", client_errors):
            yield TopicReader(reader, topic, description, timeout_seconds)
    finally:
        reader.close()


def read_end_offsets(
    admin: AdminClient,
    topics: Iterable[str],
    timeout_seconds: float,
    client_errors: ClientErrors | None = None,
    *,
    committed: bool = False,
) -> EndOffsets:
    """Return the offset after the last record of each partition, including open transactions.

    :param committed: return the end for readers of committed records instead.
    :raises UnknownTopicError: a topic does not exist.
    """
    from confluent_kafka import KafkaException

    names = list(topics)
    patience = Patience(timeout_seconds, (_AGAIN_SECONDS,))
    while True:
        try:
            offsets = _request_end_offsets(admin, names, max(1.0, patience.left_seconds), committed=committed)
        except (KafkaException, UnknownTopicError) as error:
            failure = classify(error, "asking for the topics' ends", client_errors)
            if patience.is_over or not _may_pass(failure, patience.spent_seconds):
                raise failure from None
        else:
            if all(end >= 0 for partitions in offsets.values() for end in partitions.values()):
                return offsets
        if not patience.wait_and_poll():
            raise RetriableError(f"no broker returned the topics' end offsets within {timeout_seconds:.0f} s")


def _may_pass(failure: Exception, waited_seconds: float) -> bool:
    if isinstance(failure, UnknownTopicError):
        return waited_seconds <= TOPIC_LISTING_SECONDS
    return isinstance(failure, RetriableError)


def request_offsets(
    admin: AdminClient,
    partitions: Iterable[tuple[str, int]],
    timeout_seconds: float,
    *,
    which: Literal["earliest", "latest"] = "latest",
    committed: bool = False,
) -> Iterator[tuple[tuple[str, int], Future[Any]]]:
    """Request an offset of each partition: of its oldest record, or the one after its last. Yields their futures.

    confluent-kafka 2.16 returns a negative offset instead of an error if a call fails.

    :param partitions: topics and numbers.
    :param committed: leave out the records of open transactions.
    """
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # where its documentation has it

    spec: Any = getattr(OffsetSpec, which)()
    requests = {TopicPartition(topic, number): spec for topic, number in partitions}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    futures = admin.list_offsets(requests, isolation_level=level, request_timeout=timeout_seconds)
    for partition, future in futures.items():
        yield (partition.topic, partition.partition), future


def _request_end_offsets(
    admin: AdminClient, topics: Iterable[str], timeout_seconds: float, *, committed: bool
) -> EndOffsets:
    from confluent_kafka import KafkaException

    offsets: EndOffsets = {
        topic: dict.fromkeys(_list_partitions(admin, topic, timeout_seconds), -1) for topic in topics
    }
    partitions = [(topic, number) for topic, numbers in offsets.items() for number in numbers]
    for (topic, number), future in request_offsets(admin, partitions, timeout_seconds, committed=committed):
        try:
            offsets[topic][number] = future.result().offset
        except KafkaException as error:
            raise _name_topic(error, topic) from None
    return offsets


def _list_partitions(admin: AdminClient, topic: str, timeout_seconds: float) -> list[int]:
    from confluent_kafka import KafkaException

    metadata = admin.list_topics(topic, timeout=timeout_seconds).topics[topic]
    if metadata.error is not None:
        raise _name_topic(KafkaException(metadata.error), topic)
    if not metadata.partitions:
        raise _deleted_topic_error(topic)
    return list(metadata.partitions)


def _name_topic(error: KafkaException, topic: str) -> Exception:
    failure = classify(error, f"asking where topic {topic!r} ends")
    if isinstance(failure, UnknownTopicError):
        return _deleted_topic_error(topic)
    return error


def _deleted_topic_error(topic: str) -> UnknownTopicError:
    return UnknownTopicError(f"topic {topic!r} was deleted after the publish began: {_ADVICE}")


def written_spans(ends_before: EndOffsets, ends_after: EndOffsets) -> dict[str, dict[int, tuple[int, int]]]:
    """Return the new offsets of each partition that grew: the first, and the one after the last."""
    spans = {
        topic: {
            partition: (ends_before.get(topic, {}).get(partition, 0), end)
            for partition, end in sorted(partitions.items())
            if end > ends_before.get(topic, {}).get(partition, 0)
        }
        for topic, partitions in sorted(ends_after.items())
    }
    return {topic: partitions for topic, partitions in spans.items() if partitions}
