"""Dead letters: records that could not be read, in a topic of their cluster with Kafka Connect's headers.

Header names: https://kafka.apache.org/documentation/#connect_errorreporting (2026-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from airflow_provider_connect.clients.kafka.outbox import AcknowledgedOutbox, Headers, headers_size_bytes
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sources._kafka.records import Record

_PREFIX = "__connect.errors."
_CLASS = "airflow_provider_connect.sources.kafka.KafkaSource"
_ERROR_CLASS = "airflow_provider_connect.errors.DataError"
_STAGE = "TASK_POLL"
_CLIENT_BYTES = 1_000_000
_ROOM_BYTES = 10_000


class UnreadableRecord(NamedTuple):
    """A record that was set aside.

    :param reason: without values of the record.
    """

    record: Record
    reason: str


def dead_letter_headers(unreadable: UnreadableRecord, stream: str, task: str) -> Headers:
    """Return the record's headers, and those of Connect."""
    record = unreadable.record
    texts = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "connector.name": stream,
        "task.id": task,
        "stage": _STAGE,
        "class.name": _CLASS,
        "exception.class.name": _ERROR_CLASS,
        "exception.message": unreadable.reason,
    }
    return [*record.headers, *((f"{_PREFIX}{name}", str(text).encode()) for name, text in texts.items())]


@dataclass(frozen=True)
class DeadLetterTopic:
    """The topic of a cluster that gets the records that cannot be read."""

    connection: Connection
    name: str
    timeout_seconds: float

    def send(self, unreadable_records: Sequence[UnreadableRecord], stream: str, task: str) -> None:
        """Send records, and wait for their acknowledgement. A retry sends them again.

        :raises ConnectError: the topic is missing, or the cluster refuses a record.
        """
        letters = [
            (unreadable.record, dead_letter_headers(unreadable, stream, task))
            for unreadable in sorted(unreadable_records, key=lambda unreadable: unreadable.record[:4])
        ]
        sizes = (len(record.key or b"") + len(record.value or b"") + headers_size_bytes(h) for record, h in letters)
        settings = {"message.max.bytes": max(_CLIENT_BYTES, max(sizes, default=0) + _ROOM_BYTES)}
        outbox = AcknowledgedOutbox(self.connection, self.timeout_seconds, settings)
        for record, headers in letters:
            outbox.send(self.name, record.key, record.value, headers)
        outbox.flush()
