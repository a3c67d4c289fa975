"""The places of a Kafka sink that may still hold records of erased people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._kafka.options import KafkaOptions


def copies_of(options: KafkaOptions) -> list[str]:
    """Return the places, each with the way to clear it. Does not check whether they hold records now."""
    return [
        f"records of topic {options.topic!r} that a tombstone covers, or that a failed transaction left: they can be "
        "read until the broker compacts their segments, as the topic's max.compaction.lag.ms says",
        f"rejects in topic {options.dead_letters!r}, if there is one: nothing says whose a rejected record is. "
        "The topic's retention deletes them, or kafka-delete-records.sh",
    ]
