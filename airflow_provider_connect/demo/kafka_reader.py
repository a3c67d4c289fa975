"""Reads all there is in a topic, as any consumer would, with confluent-kafka alone: for the demo and for tests.

What a consumer of days wants, the newest generation of each, is in :mod:`airflow_provider_connect.readers.kafka`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

READ_SECONDS = 90  # a broker that was killed on a busy machine is back in less
_BATCH = 1000
_LOOK_SECONDS = 0.1

Isolation = Literal["read_committed", "read_uncommitted"]


class Record(NamedTuple):
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
        """The day that it was published for, as its header says."""
        return self.headers["connect.day"]

    @property
    def generation(self) -> int:
        """Which publish of its day it belongs to, as its header says."""
        return int(self.headers["connect.generation"])


class Reader:
    """Follows one topic from its beginning; every :meth:`read` goes on where the last one ended.

    :param bootstrap: ``host:port`` of a broker that needs no login.
    """

    def __init__(self, bootstrap: str, topic: str, isolation: Isolation = "read_committed") -> None:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "isolation.level": isolation}
        # A reader of committed records is told of the end where the oldest open transaction begins.
        settings |= {"enable.partition.eof": "true", "enable.auto.commit": "false", "fetch.wait.max.ms": "10"}
        self.topic = topic
        self._consumer: Consumer = Consumer({**settings, "auto.offset.reset": "error", "log_level": "0"})
        self._next: dict[int, int] = {}

    def __enter__(self) -> Reader:
        """Return itself; close it at the end."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Leave the broker."""
        self._consumer.close()

    def read(self) -> Iterator[Record]:
        """Yield what has come since, up to the end of every partition; nothing while there is no topic.

        In one partition no transaction is seen in part; in several, those that commit meanwhile may be.

        :raises RuntimeError: nothing comes for a while, and the ends do not either.
        """
        from confluent_kafka import TopicPartition

        unread = self._partitions()
        begin = {partition: self._next.get(partition, 0) for partition in unread}
        self._consumer.assign([TopicPartition(self.topic, *place) for place in begin.items()])
        deadline = time.monotonic() + READ_SECONDS
        while unread:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"topic {self.topic!r}: partitions {sorted(unread)} have no end within {READ_SECONDS} s"
                )
            for message in self._consumer.consume(_BATCH, _LOOK_SECONDS):
                if self._is_end(message):
                    unread.discard(_partition(message))
                # What has come behind an end is the beginning of a transaction: the next read gets all of it.
                elif message.error() is None and _partition(message) in unread:
                    deadline = time.monotonic() + READ_SECONDS
                    record = _record(message)
                    self._next[record.partition] = record.offset + 1
                    yield record

    def offsets(self) -> dict[int, tuple[int, int]]:
        """Return each partition's first offset, and the one behind its last, open transactions included."""
        from confluent_kafka import TopicPartition

        found = {}
        for partition in sorted(self._partitions()):
            place = TopicPartition(self.topic, partition)
            found[partition] = self._consumer.get_watermark_offsets(place, timeout=READ_SECONDS)
        return found

    def _partitions(self) -> set[int]:
        from confluent_kafka import KafkaError, KafkaException

        found = self._consumer.list_topics(self.topic, timeout=READ_SECONDS).topics[self.topic]
        if found.error is None:
            return set(found.partitions)
        if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return set()
        raise KafkaException(found.error)

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
    found = [(json.loads(key), json.loads(value)) for key, value in newest.items() if value is not None]
    return sorted((entry for entry in found if entry[0][4] == "day"), key=lambda entry: str(entry[0][3]))


def _partition(message: Message) -> int:
    partition = message.partition()
    if partition is None:
        raise RuntimeError("librdkafka gave a message without its partition")
    return partition


def _record(message: Message) -> Record:
    headers: Any = message.headers() or []
    fields: tuple[Any, ...] = (message.topic(), message.partition(), message.offset(), message.key(), message.value())
    return Record._make((*fields, {name: value.decode() for name, value in headers}, message.timestamp()[1]))
