"""Reads spans of partitions, of many topics at once, and detects missing and hidden records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.errors import Heard, classify
from airflow_provider_connect.errors import DataError, RetriableError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

Place = tuple[str, int]
"""A topic and the number of a partition."""
DOING = "reading the days"
_BATCH = 1000
_LOOK_SECONDS = 0.1


def messages(
    reader: Consumer, spans: Mapping[Place, tuple[int, int]], timeout_seconds: float, heard: Heard
) -> Iterator[Message]:
    """Yield the committed records of each span; a partition whose span is read is not read further."""
    from confluent_kafka import TopicPartition

    reader.assign([TopicPartition(*place, first) for place, (first, _) in spans.items()])
    unread = {place: end for place, (_, end) in spans.items()}
    deadline = time.monotonic() + timeout_seconds
    while unread:
        batch = reader.consume(_BATCH, _LOOK_SECONDS)
        for message in batch:
            place, offset = place_of(message), message.offset() or 0
            reached = offset + 1 if message.error() is None else _end_of(message)
            if place not in unread:
                continue
            if message.error() is None and offset < unread[place]:
                yield message
            if reached >= unread[place]:
                del unread[place]
                reader.pause([TopicPartition(*place)])
        if any(message.error() is None for message in batch):
            deadline = time.monotonic() + timeout_seconds
        elif time.monotonic() > deadline:
            raise heard.failure(DOING) or _stuck(reader, unread, timeout_seconds)


def _end_of(message: Message) -> int:
    """Return the offset up to which an error says that its partition was read; -1 for a passing error.

    :raises ConnectError: the error does not pass.
    """
    from confluent_kafka import KafkaError, KafkaException

    error = message.error()
    assert error is not None
    if error.code() == KafkaError._PARTITION_EOF:
        return message.offset() or 0
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise _lost(*place_of(message))
    failure = classify(KafkaException(error), f"reading topic {message.topic()!r}")
    # librdkafka looks for a group even though this consumer joins none, and reports that here.
    if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED and not isinstance(failure, RetriableError):
        raise failure
    return -1


def _stuck(reader: Consumer, unread: Mapping[Place, int], timeout_seconds: float) -> Exception:
    """Return the error for records that do not come: they are missing, or an open transaction hides them."""
    from confluent_kafka import TopicPartition

    for place, end in sorted(unread.items()):
        marks = reader.get_watermark_offsets(TopicPartition(*place), cached=True)
        if marks is not None and 0 <= marks[1] < end:
            return _lost(*place)
    topic, partition = min(unread)
    return RetriableError(
        f"topic {topic!r}, partition {partition} could not be read up to offset {unread[topic, partition]:,} for "
        f"{timeout_seconds:.0f} s: an open transaction, which its timeout ends, "
        "hides the rest; or the topic was deleted, or the broker does not answer. Try again"
    )


def _lost(topic: str, partition: int) -> DataError:
    return DataError(
        f"topic {topic!r}, partition {partition} lacks records that the ledger has: retention deleted them, or the "
        "topic was recreated. Leave out the lost days, or clear their tasks to publish them again"
    )


def place_of(message: Message) -> Place:
    return str(message.topic()), int(message.partition() or 0)
