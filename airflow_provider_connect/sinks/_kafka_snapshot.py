"""Snapshots into a compacted topic: what changed since the last one, and a tombstone for each key that vanished.

What the topic holds is read before the first record, after every earlier producer of the stream was fenced, and kept
as two 16-byte digests a key: of the key and of its newest value. The topic is the stream's own: it would be wrong to
call a key of somebody else's vanished.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._kafka_connection import consumer
from airflow_provider_connect.sinks._kafka_errors import Heard, kafka_errors
from airflow_provider_connect.sinks._kafka_records import Outgoing, is_of

if TYPE_CHECKING:
    import numpy as np
    from confluent_kafka import Message

_BATCH = 10_000
_LOOK_SECONDS = 0.1
_ANY_PARTITION = -1
_DEAD = b"\0" * 16
"""Stands for the value of a tombstone; no digest of a value is equal to it but by one chance in 2^128."""


class TopicReader:
    """Reads a topic from its first record to its last, as readers of committed records see it.

    :param owner: whose records alone the topic may hold.
    """

    def __init__(self, connection: Connection, topic: str, timeout_seconds: float, owner: StreamKey) -> None:
        self.connection = connection
        self.topic = topic
        self.timeout_seconds = timeout_seconds
        self.owner = owner
        self._ends: dict[int, int] = {}

    def batches(self) -> Iterator[list[Message]]:
        """Yield all records, oldest first within each partition; another time the same, and none that came since.

        :raises RetriableError: a transaction that is open there hides records behind it.
        :raises ConfigError: the topic holds records of others.
        """
        from confluent_kafka import TopicPartition

        heard = Heard()
        reader = consumer(self.connection, heard, **{"fetch.wait.max.ms": 10})
        try:
            with kafka_errors(f"reading topic {self.topic!r}", heard):
                partitions = reader.list_topics(self.topic, timeout=self.timeout_seconds).topics[self.topic].partitions
                reader.assign([TopicPartition(self.topic, partition, 0) for partition in partitions])
                yield from self._to_the_end(reader, set(partitions))
        finally:
            reader.close()

    def _to_the_end(self, reader: Any, unread: set[int]) -> Iterator[list[Message]]:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        deadline = time.monotonic() + self.timeout_seconds
        while unread:
            records = []
            for message in reader.consume(_BATCH, _LOOK_SECONDS):
                error = message.error()
                if error is None:
                    records.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    partition = message.partition()
                    place = TopicPartition(self.topic, partition)
                    end = self._ends.get(partition, reader.get_watermark_offsets(place, cached=True)[1])
                    if message.offset() >= end:
                        self._ends[partition] = end
                        unread.discard(partition)
                elif not error.retriable():
                    raise KafkaException(error)
            if records:
                deadline = time.monotonic() + self.timeout_seconds
                yield self._of_owner(records)
            elif time.monotonic() > deadline:
                raise RetriableError(
                    f"topic {self.topic!r} could not be read to its end for {self.timeout_seconds:.0f} s: a "
                    "transaction is open there, which its timeout ends, or the broker is away"
                )

    def _of_owner(self, records: list[Message]) -> list[Message]:
        if not all(is_of(message.headers(), self.owner) for message in records):
            raise ConfigError(
                f"topic {self.topic!r} holds records that {self.owner} did not write, which a snapshot would delete: "
                "use a topic of its own"
            )
        return records


class Snapshot:
    """Compares a snapshot's records with what a topic holds, and remembers which keys it has seen."""

    def __init__(self, reader: TopicReader) -> None:
        import numpy as np

        self.reader = reader
        self.unchanged = 0
        self._keys, self._values, self._partitions = _newest(reader)
        self._seen = np.zeros(len(self._keys), dtype=bool)
        self._sent: list[np.ndarray[Any, Any]] = []

    def changes(self, outgoing: Outgoing) -> Outgoing:
        """Return the records that say something new; of a key that the topic has, for the partition it lies in.

        Whatever became of the number of partitions since: two records of a key in two partitions would both stay.
        """
        import numpy as np

        keys, values = _digests(outgoing.keys), _digests(outgoing.values)
        self._sent.append(keys)
        places, known = self._places(keys)
        self._seen[places[known]] = True
        same = known.copy()
        same[known] = self._values[places[known]] == values[known]
        self.unchanged += int(same.sum())
        rows = (~same).nonzero()[0].tolist()
        at = np.full(len(keys), _ANY_PARTITION)
        at[known] = self._partitions[places[known]]
        return replace(
            outgoing,
            partitions=at[rows].tolist(),
            keys=[outgoing.keys[row] for row in rows],
            values=[outgoing.values[row] for row in rows],
            headers=None if outgoing.headers is None else [outgoing.headers[row] for row in rows],
            timestamps=None if outgoing.timestamps is None else [outgoing.timestamps[row] for row in rows],
        )

    def require_unique(self) -> None:
        """Refuse a snapshot in which a key comes twice: which of its rows counts would be chance.

        :raises DataError: with the number of rows too many.
        """
        import numpy as np

        if self._sent:
            every = np.concatenate(self._sent)
            if surplus := len(every) - len(np.unique(every)):
                raise DataError(
                    f"{surplus:,} rows of the snapshot have the key of another row: choose key_fields that identify "
                    "a row"
                )

    def vanished(self) -> Iterator[tuple[int, bytes]]:
        """Yield partition and key of every record whose key the snapshot has not."""
        gone = self._keys[~self._seen & (self._values != _DEAD.rstrip(b"\0"))]
        if not len(gone):
            return
        told: set[bytes] = set()
        for records in self.reader.batches():
            keys = [message.key() or b"" for message in records]
            places = gone.searchsorted(digests := _digests(keys)).clip(max=len(gone) - 1)
            for row in (gone[places] == digests).nonzero()[0].tolist():
                if keys[row] not in told:
                    told.add(keys[row])
                    yield records[row].partition() or 0, keys[row]

    def _places(self, keys: Any) -> tuple[Any, Any]:
        """Return where keys stand among those of the topic, and which of them do."""
        import numpy as np

        if not len(self._keys):
            return np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=bool)
        places = self._keys.searchsorted(keys).clip(max=len(self._keys) - 1)
        return places, self._keys[places] == keys


def _newest(reader: TopicReader) -> tuple[Any, Any, Any]:
    """Return the digests of all keys, sorted, and of the newest value of each, and where it lies."""
    import numpy as np

    keys, values, partitions = [_digests([])], [_digests([])], [np.empty(0, np.int32)]
    for records in reader.batches():
        partitions.append(np.array([message.partition() for message in records], np.int32))
        keys.append(_digests([message.key() for message in records]))
        values.append(_digests([message.value() for message in records]))
    every_key = np.concatenate(keys)
    order = every_key.argsort(kind="stable")
    every_key, every_value, place = every_key[order], np.concatenate(values)[order], np.concatenate(partitions)[order]
    last = np.append(every_key[1:] != every_key[:-1], len(every_key) > 0)[: len(every_key)]
    return every_key[last], every_value[last], place[last]


def _digests(texts: Sequence[bytes | None]) -> np.ndarray[Any, Any]:
    """Return a 16-byte digest of each; that of None is all zeros."""
    import numpy as np
    import xxhash

    digest = xxhash.xxh3_128_digest
    return np.frombuffer(b"".join(_DEAD if text is None else digest(text) for text in texts), dtype="S16")
