"""Asks a cluster for the selected topics: ids, partitions, and readable offsets."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.clients.kafka.connection import make_admin_client, make_consumer
from airflow_provider_connect.clients.kafka.errors import (
    ClientErrors,
    DeniedError,
    UnknownTopicError,
    translate_kafka_errors,
)
from airflow_provider_connect.clients.kafka.topic_reader import request_offsets
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.sources._kafka.options import KafkaOptions
from airflow_provider_connect.sources._kafka.positions import identity_of
from airflow_provider_connect.sources._kafka.spans import PartitionBounds, TopicState

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_INTERNAL = "__"
_LOOK_SECONDS = 0.2
Offsets = dict[tuple[str, int], int]


class Cluster:
    """Questions to one cluster.

    :raises ConfigError: the connection is wrong, a topic is missing or hidden, or the user lacks a right.
    :raises RetriableError: no broker answers.
    """

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        self._connection = connection
        self._errors = ClientErrors()
        self._admin: AdminClient = make_admin_client(connection, self._errors)
        self._timeout_seconds = timeout_seconds

    def topic_names(self, options: KafkaOptions) -> list[str]:
        """Return the selected topics: those of the option, or all that match the pattern."""
        if options.topics is not None:
            return sorted(set(options.topics))
        with translate_kafka_errors("listing topics", self._errors):
            names = self._admin.list_topics(timeout=self._timeout_seconds).topics
        pattern = re.compile(options.topics_pattern or "")
        left_out = options.dead_letter_topic
        selected = sorted(
            name for name in names if pattern.fullmatch(name) and not name.startswith(_INTERNAL) and name != left_out
        )
        if not selected:
            raise ConfigError(
                f"topics_pattern={options.topics_pattern!r} matches none of the cluster's {len(names)} topics that the "
                "user may describe. Correct the pattern, or give the user DESCRIBE on the topics"
            )
        return selected

    def topic_identities(self, names: list[str]) -> dict[str, tuple[str, list[int]]]:
        """Return identity and partitions of each topic."""
        from confluent_kafka import TopicCollection

        futures = self._admin.describe_topics(TopicCollection(names), request_timeout=self._timeout_seconds)
        descriptions = {}
        for name, future in futures.items():
            try:
                with translate_kafka_errors(f"asking for topic {name!r}", self._errors):
                    descriptions[name] = future.result()
            except UnknownTopicError:
                raise ConfigError(
                    f"topic {name!r} does not exist, or is hidden from the connection's user. Correct topics=, create "
                    "the topic, or give the user DESCRIBE and READ on it"
                ) from None
        return {
            name: (identity_of(name, str(topic.topic_id)), sorted(partition.id for partition in topic.partitions))
            for name, topic in descriptions.items()
        }

    def compacted_topics(self, names: list[str]) -> set[str]:
        """Return the topics whose cleanup policy compacts. Empty if the user may not see the topics' settings."""
        return {name for name, policy in self.topic_settings(names, "cleanup.policy").items() if "compact" in policy}

    def topic_settings(self, names: list[str], setting: str) -> dict[str, str]:
        """Return a setting of each topic, without topics whose settings the user may not see."""
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._admin.describe_configs(resources, request_timeout=self._timeout_seconds)
        values: dict[str, str] = {}
        for resource, future in futures.items():
            try:
                with translate_kafka_errors(f"asking for the settings of topic {resource.name!r}", self._errors):
                    entry = future.result().get(setting)
            except DeniedError:
                continue
            if entry is not None and entry.value is not None:
                values[resource.name] = entry.value
        return values

    def offsets_at(self, keys: list[tuple[str, int]], milliseconds: int) -> Offsets:
        """Return the first offset of each partition whose timestamp is this time or later, if there is one.

        An admin client returns the same offset for a failed call as for no such record, so a consumer asks.
        """
        from confluent_kafka import KafkaException, TopicPartition

        if not keys:
            return {}
        with (
            closing(make_consumer(self._connection, self._errors)) as consumer,
            translate_kafka_errors("asking for the offsets of a time", self._errors),
        ):
            requested = [TopicPartition(topic, number, milliseconds) for topic, number in keys]
            partitions = consumer.offsets_for_times(requested, timeout=self._timeout_seconds)
            for partition in partitions:
                if partition.error is not None:
                    raise KafkaException(partition.error)
        return {(one.topic, one.partition): one.offset for one in partitions if one.offset >= 0}

    def topic_states(self, names: list[str], wait_seconds: float = 0) -> list[TopicState]:
        """Return the topics with the bounds of their partitions.

        The stable ends are asked for until they reach the log's ends of the first answer, or the wait is over.
        """
        topics = self.topic_identities(names)
        keys = [(name, number) for name, (_, numbers) in topics.items() for number in numbers]
        first_offsets = self._list_offsets(keys, "earliest")
        log_ends = self._list_offsets(keys, "latest")
        stable_ends = self._list_offsets(keys, "latest", committed=True)
        patience = Patience(wait_seconds, (_LOOK_SECONDS,))
        while any(stable_ends[key] < log_ends[key] for key in keys) and patience.wait_and_poll():
            stable_ends = self._list_offsets(keys, "latest", committed=True)
        return [
            TopicState(
                name,
                identity,
                {
                    number: PartitionBounds(
                        first_offsets[name, number], stable_ends[name, number], log_ends[name, number]
                    )
                    for number in numbers
                },
            )
            for name, (identity, numbers) in topics.items()
        ]

    def _list_offsets(
        self, keys: list[tuple[str, int]], which: Literal["earliest", "latest"], *, committed: bool = False
    ) -> Offsets:
        requested = request_offsets(self._admin, keys, self._timeout_seconds, which=which, committed=committed)
        with translate_kafka_errors("asking for the topics' offsets", self._errors):
            offsets = {key: future.result().offset for key, future in requested}
        if any(offset < 0 for offset in offsets.values()):
            raise RetriableError("a broker did not return the offsets of all partitions")
        return offsets
