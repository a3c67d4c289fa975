"""Settings of new topics, modelled on Kafka Connect's KIP-158, and checks of topic settings.

Settings of topics: https://kafka.apache.org/43/configuration/topic-configs/ (2026-11). KIP-158:
https://cwiki.apache.org/confluence/display/KAFKA/KIP-158 (2026-11).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import Field, field_validator

from airflow_provider_connect.wire import Wire

Timestamps = Literal["event", "now"]

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588

_NO_LIMIT = 2**63 - 1
_NUMBER = re.compile(r"-?\d+", re.ASCII)
_BROKER_NAMES = {
    "cleanup.policy": "log.cleanup.policy",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
}
"""Checked topic settings, and the broker settings that new topics inherit."""
_BROKER_RETENTIONS = (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
"""Units in ms. The first one set counts: https://kafka.apache.org/43/configuration/broker-configs/ (2026-11)."""


class TopicGroup(Wire):
    """Settings of new topics with matching names. Missing settings come from :class:`TopicRules`.

    :param include: regular expressions for the whole name.
    """

    include: tuple[str, ...] = Field(min_length=1)
    exclude: tuple[str, ...] = ()
    partitions: int | None = Field(default=None, ge=1)
    replication_factor: int | None = Field(default=None, ge=1)
    config: dict[str, str] = Field(default_factory=dict)

    @field_validator("include", "exclude")
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"no regular expression: {error.msg}") from None
        return patterns

    def matches(self, name: str) -> bool:
        included = any(re.fullmatch(pattern, name) for pattern in self.include)
        return included and not any(re.fullmatch(pattern, name) for pattern in self.exclude)


class TopicRules(Wire):
    """Settings of new topics. None leaves a number to the cluster.

    :param groups: the first match overrides the other settings.
    """

    create_disposition: Literal["if_needed", "never"] = "if_needed"
    partitions: int | None = Field(default=None, ge=1)
    replication_factor: int | None = Field(default=None, ge=1)
    config: dict[str, str] = Field(default_factory=dict)
    groups: tuple[TopicGroup, ...] = ()

    def settings_for(self, name: str) -> NewTopicSettings:
        return self._plan(name, next((group for group in self.groups if group.matches(name)), None))

    def possible_settings_for(self, name: str) -> list[NewTopicSettings]:
        """Return the settings without a group and with each group, for an example name."""
        return [self._plan(name, group) for group in (None, *self.groups)]

    def _plan(self, name: str, group: TopicGroup | None) -> NewTopicSettings:
        if group is None:
            return NewTopicSettings(name, self.partitions, self.replication_factor, self.config)
        return NewTopicSettings(
            name,
            group.partitions or self.partitions,
            group.replication_factor or self.replication_factor,
            self.config | group.config,
        )


@dataclass(frozen=True)
class NewTopicSettings:
    """Settings of one new topic."""

    name: str
    partitions: int | None
    replication_factor: int | None
    config: dict[str, str] = field(default_factory=dict)

    @property
    def is_compacted(self) -> bool:
        """True if compaction keeps only each key's newest record."""
        return "compact" in _split_policy(self.config.get("cleanup.policy", ""))

    def as_created(self, broker_settings: Mapping[str, str]) -> TopicState:
        """Return the topic as the cluster would create it.

        :param broker_settings: defaults, empty if unreadable.
        """
        config = {
            name: value for name, broker_name in _BROKER_NAMES.items() if (value := broker_settings.get(broker_name))
        }
        for name, milliseconds in _BROKER_RETENTIONS:
            if "retention.ms" not in config and (retention := broker_settings.get(name)):
                config["retention.ms"] = str(int(retention) * milliseconds)
        config |= self.config
        topic = TopicState(self.name, self.partitions or 1, 1, config)
        replicas = self.replication_factor or broker_settings.get("default.replication.factor")
        return replace(topic, replicas=int(replicas or topic.number_setting("min.insync.replicas", 1)))


def dead_letter_topic_settings(name: str, replication_factor: int | None) -> NewTopicSettings:
    """Return a dead letter topic's settings: one partition."""
    return NewTopicSettings(name, 1, replication_factor, {"cleanup.policy": "delete"})


def ledger_topic_settings(name: str, replication_factor: int | None) -> NewTopicSettings:
    """Return a ledger topic's settings: compaction and one partition."""
    config = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
        "unclean.leader.election.enable": "false",
        # Only closed segments are compacted. Small segments close early, so that the ledger is read quickly.
        "segment.bytes": str(16 * 2**20),
    }
    return NewTopicSettings(name, 1, replication_factor, config)


@dataclass(frozen=True)
class TopicLimits:
    """Limits of a topic's records.

    :param timestamp_after_max_ms: furthest record time after the broker's clock.
    :param timestamp_before_max_ms: the same before the clock. Kafka uses 2**63 - 1 for no limit.
    """

    max_message_bytes: int
    timestamp_after_max_ms: int
    timestamp_before_max_ms: int
    partitions: int
    is_compacted: bool


@dataclass(frozen=True)
class TopicState:
    """An existing topic.

    :param replicas: fewest of a partition.
    :param settings: with defaults, empty if hidden.
    :param authorized_operations: None if unknown.
    """

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str] = field(default_factory=dict)
    authorized_operations: frozenset[str] | None = None

    def number_setting(self, name: str, default: int) -> int:
        """Return a numeric setting, or ``default`` if it cannot be read."""
        value = self.settings.get(name, "")
        return int(value) if _NUMBER.fullmatch(value) else default

    @property
    def cleanup_policies(self) -> set[str]:
        """Words of ``cleanup.policy``. Empty if it cannot be read."""
        return _split_policy(self.settings.get("cleanup.policy", ""))

    def limits(self) -> TopicLimits:
        """Return the topic's limits, with Kafka's defaults for hidden settings."""
        return TopicLimits(
            max_message_bytes=self.number_setting("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES),
            timestamp_after_max_ms=self.number_setting("message.timestamp.after.max.ms", _NO_LIMIT),
            timestamp_before_max_ms=self.number_setting("message.timestamp.before.max.ms", _NO_LIMIT),
            partitions=self.partitions,
            is_compacted="compact" in self.cleanup_policies,
        )


def _split_policy(policy: str) -> set[str]:
    return {word.strip() for word in policy.split(",")} - {""}


@dataclass(frozen=True)
class IntendedWrites:
    """Properties of records to be written.

    :param timestamps: ``event`` for the time of the event, ``now`` for the time of sending.
    """

    has_keys: bool
    timestamps: Timestamps = "now"
    oldest_start: dt.datetime | None = None
    keeps_newest_only: bool = False


def topic_problems(topic: TopicState, writing: IntendedWrites, current_time: dt.datetime) -> list[str]:
    """Return messages about settings with which the topic would lose or refuse records."""
    return [f"topic {topic.name!r}: {text}" for text in _setting_problems(topic, writing, current_time)]


def new_topic_problems(
    new_topic: NewTopicSettings, broker_settings: Mapping[str, str], writing: IntendedWrites, current_time: dt.datetime
) -> list[str]:
    return [
        f"topic {new_topic.name!r} is missing, and topic_config and the cluster's defaults would create it with a "
        f"problem: {text}"
        for text in _setting_problems(new_topic.as_created(broker_settings), writing, current_time)
    ]


def _setting_problems(topic: TopicState, writing: IntendedWrites, current_time: dt.datetime) -> list[str]:
    return [*_policy_problems(topic, writing), *_replica_problems(topic), *_time_problems(topic, writing, current_time)]


def _policy_problems(topic: TopicState, writing: IntendedWrites) -> Iterator[str]:
    if "compact" in topic.cleanup_policies and not writing.has_keys:
        yield "its cleanup.policy is compact, which refuses records without a key: use key_fields=, or another topic"
    elif "compact" in topic.cleanup_policies and not writing.keeps_newest_only:
        yield (
            "its cleanup.policy is compact, which keeps only the last record of each key. Set cleanup.policy=delete "
            "on the topic, or use cleanup='compact' if this is intended"
        )
    elif topic.cleanup_policies and topic.cleanup_policies != {"compact"} and writing.keeps_newest_only:
        yield (
            "its cleanup.policy contains delete, which removes unchanged rows. Set it to compact alone, or "
            "use cleanup='delete'"
        )


def _replica_problems(topic: TopicState) -> Iterator[str]:
    min_replicas = topic.number_setting("min.insync.replicas", 1)
    if min_replicas > topic.replicas:
        yield (
            f"min.insync.replicas is {min_replicas} and the topic has {topic.replicas} replicas: lower the one or "
            "raise the other"
        )


def _time_problems(topic: TopicState, writing: IntendedWrites, current_time: dt.datetime) -> Iterator[str]:
    if writing.timestamps == "now":
        return
    if topic.settings.get("message.timestamp.type") == "LogAppendTime":
        yield "message.timestamp.type is LogAppendTime: set it to CreateTime, or leave timestamp_field out"
    if writing.oldest_start is None:
        return
    age_ms = (current_time - writing.oldest_start) / dt.timedelta(milliseconds=1)
    max_age_ms = topic.number_setting("message.timestamp.before.max.ms", _NO_LIMIT)
    if age_ms > max_age_ms:
        yield (
            f"message.timestamp.before.max.ms is {max_age_ms}, and the oldest day's events are older: raise it, or "
            "leave timestamp_field out"
        )
    retention_ms = topic.number_setting("retention.ms", -1)
    if "compact" not in topic.cleanup_policies and 0 <= retention_ms < age_ms:
        yield (
            f"retention.ms is {retention_ms}, counted from the time of an event: the oldest day would be deleted as "
            "soon as it is written. Raise it (-1 keeps all), or leave timestamp_field out"
        )


def ledger_problems(topic: TopicState) -> list[str]:
    """Return reasons why a topic cannot be the ledger. Hidden settings pass."""
    complaints = list(_replica_problems(topic))
    if topic.cleanup_policies and topic.cleanup_policies != {"compact"}:
        complaints.append("its cleanup.policy must be compact alone, because published days would be deleted")
    if topic.partitions != 1:
        complaints.append(f"it has {topic.partitions} partitions and must have one")
    return [
        f"ledger topic {topic.name!r}: {text}. Correct it, or name another topic in ledger_topic" for text in complaints
    ]
