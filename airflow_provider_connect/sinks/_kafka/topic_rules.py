"""How topics are made, as Kafka Connect's KIP-158 has it, and what is wrong with one that is there: pure rules.

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
"""A broker's own limit where nobody set another."""

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
"""Settings of a topic that matter here, and what a broker calls its own, which new topics get."""
_RETENTIONS = (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
"""The first that a broker has counts: https://kafka.apache.org/43/configuration/broker-configs/ (2026-11)."""


class TopicGroup(Wire):
    """Settings of new topics whose name matches; what a group leaves out is as for all others.

    :param include: regular expressions, each for the whole name.
    :param config: any setting of a topic, added to the common ones or in their place.
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
        """Say whether the group is for a topic of this name."""
        included = any(re.fullmatch(pattern, name) for pattern in self.include)
        return included and not any(re.fullmatch(pattern, name) for pattern in self.exclude)


class TopicRules(Wire):
    """How topics are made: of several groups that match a name, the first counts.

    :param partitions: of new topics; None leaves it to the cluster.
    :param replication_factor: of new topics, the ledger included; None leaves it to the cluster.
    """

    create_disposition: Literal["if_needed", "never"] = "if_needed"
    partitions: int | None = Field(default=None, ge=1)
    replication_factor: int | None = Field(default=None, ge=1)
    config: dict[str, str] = Field(default_factory=dict)
    groups: tuple[TopicGroup, ...] = ()

    def settings_for(self, name: str) -> NewTopicSettings:
        """Return what a new topic of this name is made with."""
        return self._plan(name, next((group for group in self.groups if group.matches(name)), None))

    def possible_settings_for(self, name: str) -> list[NewTopicSettings]:
        """Return what a new topic is made with by no group, and by each, where its name is only an example."""
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
    """What one new topic is made with; None leaves a number to the cluster."""

    name: str
    partitions: int | None
    replication_factor: int | None
    config: dict[str, str] = field(default_factory=dict)

    @property
    def is_compacted(self) -> bool:
        """Whether of records with one key the last is kept."""
        return "compact" in _words(self.config.get("cleanup.policy", ""))

    def as_created(self, broker_settings: Mapping[str, str]) -> TopicState:
        """Return the topic as it would be made.

        :param brokers: a broker's settings, which fill what the plan leaves out; empty where they may not be read.
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
    """Return what the topic of dead letters is made with, as Connect makes it: one partition."""
    return NewTopicSettings(name, 1, replication_factor, {"cleanup.policy": "delete"})


def ledger_topic_settings(name: str, replication_factor: int | None) -> NewTopicSettings:
    """Return what the ledger's topic is made with: one partition, which gives it one order, and no record ever lost."""
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
    """What a topic accepts.

    :param max_message_bytes: of one batch of records, compressed.
    :param timestamp_after_max_ms: how far a record's time may lie after the broker's clock.
    :param timestamp_before_max_ms: how far before it; 2**63 - 1 is Kafka's own word for any time.
    :param compacted: of records with one key it keeps the last, and it takes none without a key.
    """

    max_message_bytes: int
    timestamp_after_max_ms: int
    timestamp_before_max_ms: int
    partitions: int
    is_compacted: bool


@dataclass(frozen=True)
class TopicState:
    """A topic that is there.

    :param replicas: of the partition that has fewest.
    :param config: its settings, the cluster's defaults among them; empty where an ACL forbids to read them.
    :param operations: what the connection's user may do with it; None where the cluster does not say.
    """

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str] = field(default_factory=dict)
    authorized_operations: frozenset[str] | None = None

    def number_setting(self, name: str, default: int) -> int:
        """Return a setting that is a number; what is not a number, the cluster itself refuses."""
        value = self.settings.get(name, "")
        return int(value) if _NUMBER.fullmatch(value) else default

    @property
    def cleanup_policies(self) -> set[str]:
        """The words of ``cleanup.policy``; none where it may not be read."""
        return _words(self.settings.get("cleanup.policy", ""))

    def limits(self) -> TopicLimits:
        """Return what it accepts; a setting that may not be read counts as Kafka's own default."""
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
    """What is about to be written, as far as a topic's settings matter.

    :param keyed: every record has a key.
    :param timestamps: whether a record's time is that of its event or of its publishing.
    :param oldest: start of the oldest day; only with ``timestamps="event"``.
    :param compacted: the topic is meant to keep only the last record of a key, as the rules for its name say.
    """

    has_keys: bool
    timestamps: Timestamps = "now"
    oldest_start: dt.datetime | None = None
    keeps_newest_only: bool = False


def topic_problems(topic: TopicState, writing: IntendedWrites, now: dt.datetime) -> list[str]:
    """Say what would lose records, or have them refused; an empty list when nothing would."""
    return [f"topic {topic.name!r}: {text}" for text in _misfits(topic, writing, now)]


def new_topic_problems(
    new_topic: NewTopicSettings, broker_settings: Mapping[str, str], writing: IntendedWrites, now: dt.datetime
) -> list[str]:
    """Say why a topic would be no use as it would be made: nothing changes it afterwards.

    :param brokers: as for :meth:`NewTopicSettings.as_created`.
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
    """Say why a topic cannot be the ledger; an empty list when it can. Settings that may not be read pass."""
    found = list(_acknowledged(topic))
    if topic.cleanup_policies and topic.cleanup_policies != {"compact"}:
        found.append("its cleanup.policy must be compact alone, else days that were published are forgotten")
    if topic.partitions != 1:
        found.append(f"it has {topic.partitions} partitions and must have one")
    return [f"ledger topic {topic.name!r}: {text}; set it right, or name another with ledger_topic=" for text in found]
