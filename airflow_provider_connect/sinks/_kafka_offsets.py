"""Where topics end, before and behind what a transaction wrote."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._kafka_errors import Heard, UnknownTopicError, classify

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_AGAIN_SECONDS = 0.1
_LISTED_SECONDS = 2.0
"""How long a topic may be unknown that has just been made."""
_ADVICE = "see who deletes it; a new run makes it again with create_disposition='if_needed'"

Ends = dict[str, dict[int, int]]


def ends(admin: AdminClient, topics: Iterable[str], timeout_seconds: float, heard: Heard | None = None) -> Ends:
    """Return the offset behind the last record of each partition, undecided records included.

    :raises UnknownTopicError: a topic is not there.
    :raises RetriableError: the broker is away.
    """
    from confluent_kafka import KafkaException

    names = list(topics)
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            found = _asked(admin, names, max(1.0, deadline - time.monotonic()))
        except KafkaException as error:
            failure = classify(error, "asking for the topics' ends", heard)
            if not isinstance(failure, RetriableError) or time.monotonic() > deadline:
                raise failure from None
        else:
            # confluent-kafka 2.16 answers a call that broke with an offset below zero, and without an error.
            if all(end >= 0 for partitions in found.values() for end in partitions.values()):
                return found
        if time.monotonic() > deadline:
            raise RetriableError(f"no broker told within {timeout_seconds:.0f} s where the topics end")
        time.sleep(_AGAIN_SECONDS)


def _asked(admin: AdminClient, topics: Iterable[str], timeout_seconds: float) -> Ends:
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # where its documentation has it

    latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    found: Ends = {topic: dict.fromkeys(_partitions(admin, topic, timeout_seconds), -1) for topic in topics}
    places = {TopicPartition(topic, number): latest for topic, numbers in found.items() for number in numbers}
    level = IsolationLevel.READ_UNCOMMITTED
    for place, answer in admin.list_offsets(places, isolation_level=level, request_timeout=timeout_seconds).items():
        found[place.topic][place.partition] = answer.result().offset
    return found


def _partitions(admin: AdminClient, topic: str, timeout_seconds: float) -> list[int]:
    """Return the numbers of a topic's partitions; wait a little for one that a broker does not know yet."""
    from confluent_kafka import KafkaError, KafkaException

    until = time.monotonic() + min(timeout_seconds, _LISTED_SECONDS)
    while True:
        told = admin.list_topics(topic, timeout=timeout_seconds).topics[topic]
        if told.error is None and told.partitions:
            return list(told.partitions)
        if told.error is not None and told.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(told.error)
        if time.monotonic() > until:
            raise UnknownTopicError(f"topic {topic!r} was there when the publish began, and is gone: {_ADVICE}")
        time.sleep(_AGAIN_SECONDS)


def written(before: Ends, after: Ends) -> dict[str, dict[int, tuple[int, int]]]:
    """Return the span of each partition that grew: its first new offset, and the one behind the last."""
    spans = {
        topic: {
            partition: (before.get(topic, {}).get(partition, 0), end)
            for partition, end in sorted(partitions.items())
            if end > before.get(topic, {}).get(partition, 0)
        }
        for topic, partitions in sorted(after.items())
    }
    return {topic: partitions for topic, partitions in spans.items() if partitions}
