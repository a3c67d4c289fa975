"""Dead letters: records that could not be read, in a topic of their cluster with Kafka Connect's headers.

Header names: https://kafka.apache.org/documentation/#connect_errorreporting (2026-11).
"""

from __future__ import annotations

from collections.abc import Sequence
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


class RejectedRecord(NamedTuple):
    """A record that was set aside.

    :param reason: without values of the record.
    """

    record: Record
    reason: str


def dead_letter_headers(rejected: RejectedRecord, stream: str, task: str) -> Headers:
    """Return the record's headers, and those of Connect."""
    record = rejected.record
    texts = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "connector.name": stream,
        "task.id": task,
        "stage": _STAGE,
        "class.name": _CLASS,
        "exception.class.name": _ERROR_CLASS,
        "exception.message": rejected.reason,
    }
    return [*record.headers, *((f"{_PREFIX}{name}", str(text).encode()) for name, text in texts.items())]


def send_dead_letters(  # noqa: PLR0917  # a sending has as many parts
    connection: Connection,
    topic: str,
    rejected_records: Sequence[RejectedRecord],
    stream: str,
    task: str,
    timeout_seconds: float,
) -> None:
    """Send records to the dead letter topic, and wait for their acknowledgement. A retry sends them again.

    :raises ConnectError: the topic is missing, or the cluster refuses a record.
    """
    letters = [
        (rejected.record, dead_letter_headers(rejected, stream, task))
        for rejected in sorted(rejected_records, key=lambda rejected: rejected.record[:4])
    ]
    largest = max(len(one.key or b"") + len(one.value or b"") + headers_size_bytes(headers) for one, headers in letters)
    settings = {"message.max.bytes": max(_CLIENT_BYTES, largest + _ROOM_BYTES)}
    outbox = AcknowledgedOutbox(connection, timeout_seconds, settings)
    for record, headers in letters:
        outbox.send(topic, record.key, record.value, headers)
    outbox.flush()
