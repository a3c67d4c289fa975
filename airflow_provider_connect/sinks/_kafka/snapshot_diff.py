"""Computes a snapshot's changes against a compacted topic, and a tombstone for each vanished key.

Memory holds two 16-byte digests for each key. The topic must belong to the stream alone.
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
_VALUE_HEADERS = ("connect.event_id", "connect.schema_version")
_TOMBSTONE_DIGEST = b"\0" * 16
"""Digest of a tombstone."""


class SnapshotDiff:
    """Comparison of a snapshot's records with a topic."""

    def __init__(self, cluster: Cluster, topic: str, end_offsets: dict[int, int], on_empty: OnEmpty) -> None:
        import numpy as np

        self.cluster = cluster
        self.topic = topic
        self.end_offsets = end_offsets
        self.on_empty = on_empty
        self.unchanged_rows = 0
        self._keys, self._values, self._partitions = _newest_digests(self._read_topic())
        self._is_compared = np.zeros(len(self._keys), dtype=bool)
        self._compared_keys: list[np.ndarray[Any, Any]] = []
        self._kept_rows = 0

    def select_changes(self, outgoing: OutgoingRecords) -> OutgoingRecords:
        """Return the new and changed records. A known key keeps its partition.

        :raises DataError: no key.
        """
        import numpy as np

        self._keep_rejected(outgoing.refused)
        keys, values = _digests(outgoing.keys), _digests(outgoing.values)
        self._compared_keys.append(keys)
        indices, is_known = self._find_keys(keys)
        self._is_compared[indices[is_known]] = True
        is_unchanged = is_known.copy()
        is_unchanged[is_known] = self._values[indices[is_known]] == values[is_known]
        self.unchanged_rows += int(is_unchanged.sum())
        rows = (~is_unchanged).nonzero()[0].tolist()
        partitions = np.full(len(keys), _ANY_PARTITION)
        partitions[is_known] = self._partitions[indices[is_known]]
        return replace(outgoing, partitions=partitions.tolist()).select(rows)

    def _keep_rejected(self, refused: Sequence[RejectedRow]) -> None:
        keys = [row.key for row in refused]
        if keyless := keys.count(None):
            raise DataError(
                f"topic {self.topic!r}: {keyless:,} rows of the snapshot have no key. Without their keys, "
                "vanished keys cannot be found. Correct the rows in the source"
            )
        indices, is_known = self._find_keys(_digests(keys))
        self._is_compared[indices[is_known]] = True
        self._kept_rows += len(keys)

    def require_unique(self) -> None:
        """Refuse a snapshot with two rows of the same key.

        :raises DataError: with the number of surplus rows.
        """
        import numpy as np

        if self._compared_keys:
            all_keys = np.concatenate(self._compared_keys)
            if surplus := len(all_keys) - len(np.unique(all_keys)):
                raise DataError(
                    f"{surplus:,} rows of the snapshot have the key of another row: choose key_fields that identify "
                    "a row"
                )

    def read_vanished(self) -> Iterator[tuple[int, bytes, bytes, Headers]]:
        """Yield partition, key, value and value headers of each key that the snapshot lacks.

        :raises DataError: the snapshot is empty, against ``on_empty``.
        """
        import numpy as np

        is_vanished = ~self._is_compared & (self._values != _TOMBSTONE_DIGEST.rstrip(b"\0"))
        vanished_keys, newest_values = self._keys[is_vanished], self._values[is_vanished]
        if not len(vanished_keys):
            return
        if self.on_empty != "accept" and not self._kept_rows and not any(map(len, self._compared_keys)):
            raise DataError(
                f"topic {self.topic!r}: the snapshot has no rows, and the topic has {len(vanished_keys):,} live keys, "
                "which would all be deleted. Check the source. If the snapshot is empty, set the operator's "
                "on_empty='accept' and clear the task"
            )
        is_sent = np.zeros(len(vanished_keys), dtype=bool)
        for records in self._read_topic():
            keys = [message.key() or b"" for message in records]
            indices = vanished_keys.searchsorted(key_digests := _digests(keys)).clip(max=len(vanished_keys) - 1)
            is_newest = newest_values[indices] == _digests([message.value() for message in records])
            for row in ((vanished_keys[indices] == key_digests) & is_newest & ~is_sent[indices]).nonzero()[0].tolist():
                if not is_sent[indices[row]]:  # a key may appear twice in this batch
                    is_sent[indices[row]] = True
                    message = records[row]
                    value_headers = [(name, value) for name, value in message.headers() or [] if name in _VALUE_HEADERS]
                    yield message.partition() or 0, keys[row], message.value() or b"", value_headers

    def _read_topic(self) -> Iterator[list[Message]]:
        cluster = self.cluster
        with open_topic(cluster.connection, self.topic, cluster.options.timeout_seconds) as reader:
            for records in reader.read_batches(dict.fromkeys(self.end_offsets, 0), self.end_offsets):
                if not all(is_written_by(message.headers(), cluster.key) for message in records):
                    raise ConfigError(
                        f"topic {self.topic!r} holds records that {cluster.key} did not write, and a snapshot would "
                        "delete them. Use a separate topic"
                    )
                yield records

    def _find_keys(self, keys: Any) -> tuple[Any, Any]:
        import numpy as np

        if not len(self._keys):
            return np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=bool)
        indices = self._keys.searchsorted(keys).clip(max=len(self._keys) - 1)
        return indices, self._keys[indices] == keys


def _newest_digests(message_batches: Iterator[list[Message]]) -> tuple[Any, Any, Any]:
    import numpy as np

    keys, values, partitions = [_digests([])], [_digests([])], [np.empty(0, np.int32)]
    for records in message_batches:
        partitions.append(np.array([message.partition() for message in records], np.int32))
        keys.append(_digests([message.key() for message in records]))
        values.append(_digests([message.value() for message in records]))
    sorted_keys = np.concatenate(keys)
    order = sorted_keys.argsort(kind="stable")
    sorted_keys, sorted_values, sorted_partitions = (
        sorted_keys[order],
        np.concatenate(values)[order],
        np.concatenate(partitions)[order],
    )
    is_last = np.append(sorted_keys[1:] != sorted_keys[:-1], len(sorted_keys) > 0)[: len(sorted_keys)]
    return sorted_keys[is_last], sorted_values[is_last], sorted_partitions[is_last]


def _digests(texts: Sequence[bytes | None]) -> np.ndarray[Any, Any]:
    import numpy as np
    import xxhash

    digest = xxhash.xxh3_128_digest
    return np.frombuffer(b"".join(_TOMBSTONE_DIGEST if text is None else digest(text) for text in texts), dtype="S16")
