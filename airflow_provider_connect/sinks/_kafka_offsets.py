"""Where topics end, before and behind what a transaction wrote."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._kafka_errors import Heard, UnknownTopicError, kafka_errors

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
    deadline = time.monotonic() + timeout_seconds
    with kafka_errors("asking for the topics' ends", heard):
        wanted = _partitions(admin, topics, deadline)
        while True:
            found = _asked(admin, wanted, max(1.0, deadline - time.monotonic()))
            # confluent-kafka 2.16 answers a call that broke with an offset below zero, and without an error.
            if all(end >= 0 for partitions in found.values() for end in partitions.values()):
                return found
            if time.monotonic() > deadline:
                raise RetriableError(f"no broker told within {timeout_seconds:.0f} s where the topics end")
            time.sleep(_AGAIN_SECONDS)


def _partitions(admin: AdminClient, topics: Iterable[str], deadline: float) -> dict[str, list[int]]:
    """Return the partitions of each topic; wait a little for one that a broker does not know yet."""
    from confluent_kafka import KafkaError, KafkaException

    found: dict[str, list[int]] = {}
    until = min(deadline, time.monotonic() + _LISTED_SECONDS)
    for topic in topics:
        while True:
            told = admin.list_topics(topic, timeout=max(1.0, deadline - time.monotonic())).topics[topic]
            if told.partitions and told.error is None:
                found[topic] = list(told.partitions)
                break
            if time.monotonic() > until:
                if told.error is not None and told.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise KafkaException(told.error)
                raise UnknownTopicError(f"topic {topic!r} was there when the publish began, and is gone: {_ADVICE}")
            time.sleep(_AGAIN_SECONDS)
    return found


def _asked(admin: AdminClient, wanted: dict[str, list[int]], timeout_seconds: float) -> Ends:
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # where its documentation has it

    latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    places = {TopicPartition(topic, number): latest for topic, numbers in wanted.items() for number in numbers}
    found: Ends = {topic: {} for topic in wanted}
    if places:
        level = IsolationLevel.READ_UNCOMMITTED
        for place, answer in admin.list_offsets(places, isolation_level=level, request_timeout=timeout_seconds).items():
            found[place.topic][place.partition] = answer.result().offset
    return found


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
