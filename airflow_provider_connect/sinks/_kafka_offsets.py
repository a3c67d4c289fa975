"""Where topics end, before and behind what a transaction wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_provider_connect.sinks._kafka_errors import Heard, kafka_errors

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Ends = dict[str, dict[int, int]]


def ends(admin: AdminClient, topics: Iterable[str], timeout_seconds: float, heard: Heard | None = None) -> Ends:
    """Return the offset behind the last record of each partition, undecided records included."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # where its documentation has it

    with kafka_errors("asking for the topics' ends", heard):
        known = {topic: admin.list_topics(topic, timeout=timeout_seconds).topics[topic].partitions for topic in topics}
        wanted = {
            TopicPartition(topic, partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for topic, partitions in known.items()
            for partition in partitions
        }
        if not wanted:
            return {}
        answers = admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=timeout_seconds
        )
        found: Ends = {topic: {} for topic in known}
        for place, answer in answers.items():
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
