"""Reads a whole topic as any consumer would, with confluent-kafka only: for the demo and for tests.

To read the newest generation of each day, use :mod:`airflow_provider_connect.readers.kafka`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

READ_SECONDS = 90  # longer than a killed broker needs to come back on a busy machine
_BATCH = 1000
_LOOK_SECONDS = 0.1

Isolation = Literal["read_committed", "read_uncommitted"]


class KafkaRecord(NamedTuple):
    """One record; ``timestamp`` is in milliseconds since 1970, UTC."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]
    timestamp: int

    @property
    def day(self) -> str:
        """The day it was published for, from its header."""
        return self.headers["connect.day"]

    @property
    def generation(self) -> int:
        """The publish of its day that it belongs to, from its header."""
        return int(self.headers["connect.generation"])


class Reader:
    """Follows one topic from its beginning; each :meth:`read` continues where the last one ended.

    :param bootstrap: ``host:port`` of a broker without login.
    """

    def __init__(self, bootstrap: str, topic: str, isolation: Isolation = "read_committed") -> None:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "isolation.level": isolation}
        # For a reader of committed records, the end is where the oldest open transaction begins.
        settings |= {"enable.partition.eof": "true", "enable.auto.commit": "false", "fetch.wait.max.ms": "10"}
        self.topic = topic
        self._consumer: Consumer = Consumer({**settings, "auto.offset.reset": "error", "log_level": "0"})
        self._next: dict[int, int] = {}

    def __enter__(self) -> Reader:
        """Return the reader; leaving the block closes it."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Leave the broker."""
        self._consumer.close()

    def read(self) -> Iterator[KafkaRecord]:
        """Yield the records since the last read, up to the end of every partition; none if there is no topic.

        In one partition every transaction is seen whole; across several, one that commits meanwhile may be partial.

        :raises RuntimeError: for a while neither records nor ends of partitions come.
        """
        from confluent_kafka import TopicPartition

        unread = self._partitions()
        begin = {partition: self._next.get(partition, 0) for partition in unread}
        self._consumer.assign([TopicPartition(self.topic, *begin_offset) for begin_offset in begin.items()])
        deadline = time.monotonic() + READ_SECONDS
        while unread:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"topic {self.topic!r}: partitions {sorted(unread)} have no end within {READ_SECONDS} s"
                )
            for message in self._consumer.consume(_BATCH, _LOOK_SECONDS):
                if self._is_end(message):
                    unread.discard(_partition(message))
                # Records after an end may be part of a transaction: the next read gets all of it.
                elif message.error() is None and _partition(message) in unread:
                    deadline = time.monotonic() + READ_SECONDS
                    record = _record(message)
                    self._next[record.partition] = record.offset + 1
                    yield record

    def offsets(self) -> dict[int, tuple[int, int]]:
        """Return each partition's first offset and the one after its last, open transactions included."""
        from confluent_kafka import TopicPartition

        offsets = {}
        for partition in sorted(self._partitions()):
            partition_position = TopicPartition(self.topic, partition)
            offsets[partition] = self._consumer.get_watermark_offsets(partition_position, timeout=READ_SECONDS)
        return offsets

    def _partitions(self) -> set[int]:
        from confluent_kafka import KafkaError, KafkaException

        topic = self._consumer.list_topics(self.topic, timeout=READ_SECONDS).topics[self.topic]
        if topic.error is None:
            return set(topic.partitions)
        if topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return set()
        raise KafkaException(topic.error)

    def _is_end(self, message: Message) -> bool:
        from confluent_kafka import KafkaError, KafkaException

        error = message.error()
        if error is None or error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return False
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        return True


def ledger_entries(bootstrap: str, topic: str) -> list[tuple[list[Any], dict[str, Any]]]:
    """Return key and value of the newest ``day`` records of a Kafka sink's ledger, in the order of their days."""
    newest: dict[bytes, bytes | None] = {}
    with Reader(bootstrap, topic) as reader:
        for record in reader.read():
            newest[record.key or b""] = record.value
    entries = [(json.loads(key), json.loads(value)) for key, value in newest.items() if value is not None]
    return sorted((entry for entry in entries if entry[0][4] == "day"), key=lambda entry: str(entry[0][3]))


def _partition(message: Message) -> int:
    partition = message.partition()
    if partition is None:
        raise RuntimeError("librdkafka returned a message without its partition")
    return partition


def _record(message: Message) -> KafkaRecord:
    headers: Any = message.headers() or []
    fields: tuple[Any, ...] = (message.topic(), message.partition(), message.offset(), message.key(), message.value())
    return KafkaRecord._make((*fields, {name: value.decode() for name, value in headers}, message.timestamp()[1]))
