"""Settings of new topics, modelled on Kafka Connect's KIP-158, and checks of existing ones. No network access.

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
"""A broker's default limit."""

_FOREVER = 2**63 - 1
_NUMBER = re.compile(r"-?\d+", re.ASCII)
_BROKERS = {
    "cleanup.policy": "log.cleanup.policy",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
}
"""Topic settings that are checked, with the broker settings from which new topics inherit them."""
_RETENTIONS = (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
"""The first one set on a broker counts: https://kafka.apache.org/43/configuration/broker-configs/ (2026-11)."""


class TopicGroup(Wire):
    """Settings of new topics whose name matches. Omitted settings are the common ones.

    :param include: regular expressions for the whole name.
    :param config: topic settings, added to the common ones or replacing them.
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
        """True if the group applies to this topic name."""
        included = any(re.fullmatch(pattern, name) for pattern in self.include)
        return included and not any(re.fullmatch(pattern, name) for pattern in self.exclude)


class TopicRules(Wire):
    """Settings of new topics. The first group that matches a name counts.

    :param partitions: of new topics. None leaves it to the cluster.
    :param replication_factor: of new topics, the ledger included. None leaves it to the cluster.
    """

    create_disposition: Literal["if_needed", "never"] = "if_needed"
    partitions: int | None = Field(default=None, ge=1)
    replication_factor: int | None = Field(default=None, ge=1)
    config: dict[str, str] = Field(default_factory=dict)
    groups: tuple[TopicGroup, ...] = ()

    def settings_for(self, name: str) -> NewTopicSettings:
        """Return the settings of a new topic with this name."""
        return self._plan(name, next((group for group in self.groups if group.matches(name)), None))

    def possible_settings_for(self, name: str) -> list[NewTopicSettings]:
        """Return the settings without a group and with each group, for a name that is only an example."""
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
    """Settings of one new topic. None leaves a number to the cluster."""

    name: str
    partitions: int | None
    replication_factor: int | None
    config: dict[str, str] = field(default_factory=dict)

    @property
    def is_compacted(self) -> bool:
        """True if the topic keeps the last record of each key."""
        return "compact" in _words(self.config.get("cleanup.policy", ""))

    def as_created(self, broker_settings: Mapping[str, str]) -> TopicState:
        """Return the topic as the cluster would create it.

        :param broker_settings: a broker's settings, which fill gaps. Empty if they cannot be read.
        """
        config = {name: value for name, own in _BROKERS.items() if (value := broker_settings.get(own))}
        for name, milliseconds in _RETENTIONS:
            if "retention.ms" not in config and (given := broker_settings.get(name)):
                config["retention.ms"] = str(int(given) * milliseconds)
        config |= self.config
        found = TopicState(self.name, self.partitions or 1, 1, config)
        replicas = self.replication_factor or broker_settings.get("default.replication.factor")
        return replace(found, replicas=int(replicas or found.number_setting("min.insync.replicas", 1)))


def dead_letter_topic_settings(name: str, replication_factor: int | None) -> NewTopicSettings:
    """Return the settings of a dead letter topic: one partition, as in Kafka Connect."""
    return NewTopicSettings(name, 1, replication_factor, {"cleanup.policy": "delete"})


def ledger_topic_settings(name: str, replication_factor: int | None) -> NewTopicSettings:
    """Return the settings of a ledger topic: one partition for a total order, and no deleted records."""
    config = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
        "unclean.leader.election.enable": "false",
        # Only closed segments are compacted; the ledger's are closed early so that reading it stays short.
        "segment.bytes": str(16 * 2**20),
    }
    return NewTopicSettings(name, 1, replication_factor, config)


@dataclass(frozen=True)
class TopicLimits:
    """Limits of a topic's records.

    :param max_message_bytes: of one compressed batch of records.
    :param timestamp_after_max_ms: how far a record's time may lie after the broker's clock.
    :param timestamp_before_max_ms: how far it may lie before. Kafka uses 2**63 - 1 for any time.
    :param is_compacted: the topic keeps the last record of each key and refuses records without a key.
    """

    max_message_bytes: int
    timestamp_after_max_ms: int
    timestamp_before_max_ms: int
    partitions: int
    is_compacted: bool


@dataclass(frozen=True)
class TopicState:
    """An existing topic.

    :param replicas: of the partition with the fewest.
    :param settings: its settings, defaults included. Empty if an ACL hides them.
    :param authorized_operations: operations that the user may perform. None if the cluster does not report them.
    """

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str] = field(default_factory=dict)
    authorized_operations: frozenset[str] | None = None

    def number_setting(self, name: str, default: int) -> int:
        """Return a numeric setting. The cluster itself refuses other values."""
        value = self.settings.get(name, "")
        return int(value) if _NUMBER.fullmatch(value) else default

    @property
    def cleanup_policies(self) -> set[str]:
        """Words of ``cleanup.policy``. Empty if it cannot be read."""
        return _words(self.settings.get("cleanup.policy", ""))

    def limits(self) -> TopicLimits:
        """Return the topic's limits, with Kafka's defaults for settings that cannot be read."""
        return TopicLimits(
            max_message_bytes=self.number_setting("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES),
            timestamp_after_max_ms=self.number_setting("message.timestamp.after.max.ms", _FOREVER),
            timestamp_before_max_ms=self.number_setting("message.timestamp.before.max.ms", _FOREVER),
            partitions=self.partitions,
            is_compacted="compact" in self.cleanup_policies,
        )


def _words(policy: str) -> set[str]:
    return {word.strip() for word in policy.split(",")} - {""}


@dataclass(frozen=True)
class IntendedWrites:
    """Properties of the records to be written that a topic's settings must allow.

    :param has_keys: every record has a key.
    :param timestamps: records have the time of their event or of their publish.
    :param oldest_start: start of the oldest day, only with ``timestamps="event"``.
    :param keeps_newest_only: the rules for the topic's name ask for compaction.
    """

    has_keys: bool
    timestamps: Timestamps = "now"
    oldest_start: dt.datetime | None = None
    keeps_newest_only: bool = False


def topic_problems(topic: TopicState, writing: IntendedWrites, now: dt.datetime) -> list[str]:
    """Return settings that would lose records or have them refused."""
    return [f"topic {topic.name!r}: {text}" for text in _misfits(topic, writing, now)]


def new_topic_problems(
    new_topic: NewTopicSettings, broker_settings: Mapping[str, str], writing: IntendedWrites, now: dt.datetime
) -> list[str]:
    """Return problems that a new topic would have, since its settings are never changed later.

    :param broker_settings: as for :meth:`NewTopicSettings.as_created`.
    """
    return [
        f"topic {new_topic.name!r} is missing, and would not fit as topic_config and the cluster's defaults have it: {text}"
        for text in _misfits(new_topic.as_created(broker_settings), writing, now)
    ]


def _misfits(topic: TopicState, writing: IntendedWrites, now: dt.datetime) -> list[str]:
    return [*_policy(topic, writing), *_acknowledged(topic), *_times(topic, writing, now)]


def _policy(topic: TopicState, writing: IntendedWrites) -> Iterator[str]:
    if "compact" in topic.cleanup_policies and not writing.has_keys:
        yield "its cleanup.policy is compact, which refuses records without a key: use key_fields=, or another topic"
    elif "compact" in topic.cleanup_policies and not writing.keeps_newest_only:
        yield (
            "its cleanup.policy is compact: of records with one key it keeps the last; use cleanup='compact' if that "
            "is meant, else cleanup.policy=delete on the topic"
        )
    elif topic.cleanup_policies and topic.cleanup_policies != {"compact"} and writing.keeps_newest_only:
        yield (
            "its cleanup.policy has delete in it, which forgets rows that do not change: set it to compact alone, or "
            "use cleanup='delete'"
        )


def _acknowledged(topic: TopicState) -> Iterator[str]:
    wanted = topic.number_setting("min.insync.replicas", 1)
    if wanted > topic.replicas:
        yield f"min.insync.replicas is {wanted} and it has {topic.replicas}: lower the one or raise the other"


def _times(topic: TopicState, writing: IntendedWrites, now: dt.datetime) -> Iterator[str]:
    if writing.timestamps == "now":
        return
    if topic.settings.get("message.timestamp.type") == "LogAppendTime":
        yield "message.timestamp.type is LogAppendTime: set it to CreateTime, or leave timestamp_field out"
    if writing.oldest_start is None:
        return
    age_ms = (now - writing.oldest_start) / dt.timedelta(milliseconds=1)
    before = topic.number_setting("message.timestamp.before.max.ms", _FOREVER)
    if age_ms > before:
        yield (
            f"message.timestamp.before.max.ms is {before}, and the oldest day's events are older: raise it, or leave "
            "timestamp_field out"
        )
    retention = topic.number_setting("retention.ms", -1)
    if "compact" not in topic.cleanup_policies and 0 <= retention < age_ms:
        yield (
            f"retention.ms is {retention}, counted from the time of an event: the oldest day would be deleted as soon "
            "as it is written; raise it (-1 keeps all), or leave timestamp_field out"
        )


def ledger_problems(topic: TopicState) -> list[str]:
    """Return why a topic cannot be the ledger. Settings that cannot be read pass."""
    found = list(_acknowledged(topic))
    if topic.cleanup_policies and topic.cleanup_policies != {"compact"}:
        found.append("its cleanup.policy must be compact alone, else days that were published are forgotten")
    if topic.partitions != 1:
        found.append(f"it has {topic.partitions} partitions and must have one")
    return [f"ledger topic {topic.name!r}: {text}; set it right, or name another with ledger_topic=" for text in found]
