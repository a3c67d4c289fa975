"""Snapshots into a compacted topic: what changed since the last one, and a tombstone for each key that vanished.

What the topic holds is read before the first record, after every earlier producer of the stream was fenced, and kept
as two 16-byte digests a key: of the key and of its newest value. The topic must be the stream's own: a key of
somebody else's would count as vanished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.kafka.topic_reader import open_topic
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import OnEmpty
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.record_encoder import OutgoingRecords, RejectedRow, is_written_by

if TYPE_CHECKING:
    import numpy as np
    from confluent_kafka import Message

    from airflow_provider_connect.clients.kafka.outbox import Headers

_ANY_PARTITION = -1
_OF_THE_VALUE = ("connect.event_id", "connect.schema_version")
"""Headers that belong to a value, whichever publish sends it."""
_DEAD = b"\0" * 16
"""Stands for the value of a tombstone; a value has this digest by one chance in 2^128."""


class SnapshotDiff:
    """Compares a snapshot's records with what a topic holds, and remembers which keys it has seen.

    :param ends: where the topic's partitions end: behind the last record, undecided ones included.
    :param on_empty: what a snapshot without rows means for a topic that holds some.
    """

    def __init__(self, cluster: Cluster, topic: str, end_offsets: dict[int, int], on_empty: OnEmpty) -> None:
        import numpy as np

        self.cluster = cluster
        self.topic = topic
        self.ends = end_offsets
        self.on_empty = on_empty
        self.unchanged_rows = 0
        self._keys, self._values, self._partitions = _newest(self._stored())
        self._seen = np.zeros(len(self._keys), dtype=bool)
        self._sent: list[np.ndarray[Any, Any]] = []
        self._kept = 0

    def select_changes(self, outgoing: OutgoingRecords) -> OutgoingRecords:
        """Return the records that say something new; those of a known key go into the partition where it lies.

        The number of partitions may have changed since: two records of a key in two partitions would both stay.

        :raises DataError: a row has no key.
        """
        import numpy as np

        self._keep(outgoing.refused)
        keys, values = _digests(outgoing.keys), _digests(outgoing.values)
        self._sent.append(keys)
        places, known = self._places(keys)
        self._seen[places[known]] = True
        same = known.copy()
        same[known] = self._values[places[known]] == values[known]
        self.unchanged_rows += int(same.sum())
        rows = (~same).nonzero()[0].tolist()
        at = np.full(len(keys), _ANY_PARTITION)
        at[known] = self._partitions[places[known]]
        return replace(outgoing, partitions=at.tolist()).select(rows)

    def _keep(self, refused: Sequence[RejectedRow]) -> None:
        """Keep what the topic has of rows that are set aside: they are bad, but have not vanished."""
        keys = [row.key for row in refused]
        if keyless := keys.count(None):
            raise DataError(
                f"topic {self.topic!r}: {keyless:,} rows without a key are in the snapshot; with them nobody "
                "knows which keys have vanished. Mend them in the source"
            )
        places, known = self._places(_digests(keys))
        self._seen[places[known]] = True
        self._kept += len(keys)

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

    def read_vanished(self) -> Iterator[tuple[int, bytes, bytes, Headers]]:
        """Yield the newest record of every key that the snapshot has not: partition, key, value, and what its value is.

        :raises DataError: it has no rows at all, and nobody said that this may be.
        """
        import numpy as np

        is_gone = ~self._seen & (self._values != _DEAD.rstrip(b"\0"))
        gone, newest = self._keys[is_gone], self._values[is_gone]
        if not len(gone):
            return
        if self.on_empty != "accept" and not self._kept and not any(map(len, self._sent)):
            raise DataError(
                f"topic {self.topic!r}: the snapshot has no rows, and the topic has {len(gone):,} live keys, "
                "which would all be deleted: see why the source sent nothing; if that is right, set the operator's "
                "on_empty='accept' and clear the task"
            )
        buried = np.zeros(len(gone), dtype=bool)
        for records in self._stored():
            keys = [message.key() or b"" for message in records]
            places = gone.searchsorted(digests := _digests(keys)).clip(max=len(gone) - 1)
            is_newest = newest[places] == _digests([message.value() for message in records])
            for row in ((gone[places] == digests) & is_newest & ~buried[places]).nonzero()[0].tolist():
                if not buried[places[row]]:  # of a key that comes twice in this batch
                    buried[places[row]] = True
                    message = records[row]
                    kept = [(name, value) for name, value in message.headers() or [] if name in _OF_THE_VALUE]
                    yield message.partition() or 0, keys[row], message.value() or b"", kept

    def _stored(self) -> Iterator[list[Message]]:
        """Yield all committed records of the topic, oldest first within each partition.

        :raises RetriableError: a transaction that is open there hides records behind it.
        :raises ConfigError: the topic holds records of others.
        """
        cluster = self.cluster
        with open_topic(cluster.connection, self.topic, cluster.options.timeout_seconds) as partitions:
            for records in partitions.read_batches(dict.fromkeys(self.ends, 0), self.ends):
                if not all(is_written_by(message.headers(), cluster.key) for message in records):
                    raise ConfigError(
                        f"topic {self.topic!r} holds records that {cluster.key} did not write, which a snapshot would "
                        "delete: use a topic of its own"
                    )
                yield records

    def _places(self, keys: Any) -> tuple[Any, Any]:
        """Return where keys stand among those of the topic, and which of them do."""
        import numpy as np

        if not len(self._keys):
            return np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=bool)
        places = self._keys.searchsorted(keys).clip(max=len(self._keys) - 1)
        return places, self._keys[places] == keys


def _newest(stored: Iterator[list[Message]]) -> tuple[Any, Any, Any]:
    """Return the digests of all keys, sorted, and of the newest value of each, and where it lies."""
    import numpy as np

    keys, values, partitions = [_digests([])], [_digests([])], [np.empty(0, np.int32)]
    for records in stored:
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
