from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError

from airflow_provider_connect.sinks._kafka.topic_rules import (
    IntendedWrites,
    NewTopicSettings,
    TopicGroup,
    TopicRules,
    TopicState,
    dead_letter_topic_settings,
    ledger_problems,
    ledger_topic_settings,
    new_topic_problems,
    topic_problems,
)

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
DAY_MS = 86_400_000


def found(partitions: int = 3, replicas: int = 3, **config: str) -> TopicState:
    return TopicState("t", partitions, replicas, {name.replace("_", "."): value for name, value in config.items()})


def problems(topic: TopicState, writing: IntendedWrites) -> list[str]:
    return topic_problems(topic, writing, NOW)


RULES = TopicRules(
    partitions=6,
    config={"cleanup.policy": "delete", "retention.ms": "1000"},
    groups=(
        TopicGroup(include=("big_.*",), exclude=(".*_small",), partitions=24, config={"retention.ms": "-1"}),
        TopicGroup(include=("big_.*", "state_.*"), replication_factor=1, config={"cleanup.policy": "compact"}),
    ),
)


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("other", NewTopicSettings("other", 6, None, {"cleanup.policy": "delete", "retention.ms": "1000"})),
        ("big_one", NewTopicSettings("big_one", 24, None, {"cleanup.policy": "delete", "retention.ms": "-1"})),
        ("big_small", NewTopicSettings("big_small", 6, 1, {"cleanup.policy": "compact", "retention.ms": "1000"})),
        ("not_big_one", NewTopicSettings("not_big_one", 6, None, {"cleanup.policy": "delete", "retention.ms": "1000"})),
    ],
)
def test_the_first_group_that_matches_counts(name: str, plan: NewTopicSettings):
    assert RULES.settings_for(name) == plan
    assert RULES.settings_for(name).is_compacted == (plan.config["cleanup.policy"] == "compact")


def test_a_group_is_checked_when_it_is_made():
    with pytest.raises(ValidationError, match="no regular expression"):
        TopicGroup(include=("a(",))
    with pytest.raises(ValidationError, match="at least 1"):
        TopicGroup(include=())
    with pytest.raises(ValidationError, match="partition"):
        TopicGroup(include=("a",), partition=3)  # type: ignore[call-arg]


def test_rules_travel_as_json():
    assert TopicRules.model_validate_json(RULES.model_dump_json()) == RULES


@pytest.mark.parametrize(
    ("topic", "writing", "says"),
    [
        (
            found(cleanup_policy="compact"),
            IntendedWrites(keeps_newest_only=True, has_keys=False),
            "refuses records without a key",
        ),
        (
            found(cleanup_policy="compact,delete"),
            IntendedWrites(keeps_newest_only=False, has_keys=False),
            "refuses records without a key",
        ),
        (
            found(cleanup_policy="compact"),
            IntendedWrites(keeps_newest_only=False, has_keys=True),
            "keeps only the last record",
        ),
        (
            found(cleanup_policy="delete"),
            IntendedWrites(keeps_newest_only=True, has_keys=True),
            "removes unchanged rows",
        ),
        (
            found(cleanup_policy="delete, compact"),
            IntendedWrites(keeps_newest_only=True, has_keys=True),
            "Set it to compact alone",
        ),
    ],
)
def test_cleanup_must_be_what_is_meant(topic: TopicState, writing: IntendedWrites, says: str):
    [problem] = problems(topic, writing)
    assert problem.startswith("topic 't': ")
    assert says in problem


@pytest.mark.parametrize(
    ("topic", "writing"),
    [
        (found(cleanup_policy="delete"), IntendedWrites(keeps_newest_only=False, has_keys=False)),
        (found(cleanup_policy="compact"), IntendedWrites(keeps_newest_only=True, has_keys=True)),
        (found(), IntendedWrites(keeps_newest_only=True, has_keys=True)),  # an ACL hides its settings
        (
            found(replicas=2, cleanup_policy="delete", min_insync_replicas="2"),
            IntendedWrites(keeps_newest_only=False, has_keys=True),
        ),
        (found(cleanup_policy="delete", retention_ms="1"), IntendedWrites(keeps_newest_only=False, has_keys=True)),
    ],
)
def test_suitable_topics_have_no_problem(topic: TopicState, writing: IntendedWrites):
    assert problems(topic, writing) == []


def test_min_insync_replicas_above_the_replicas_is_a_problem():
    [problem] = problems(
        found(replicas=1, min_insync_replicas="2"), IntendedWrites(keeps_newest_only=False, has_keys=True)
    )
    assert "min.insync.replicas is 2 and the topic has 1 replicas" in problem


OLD = IntendedWrites(
    keeps_newest_only=False, has_keys=True, timestamps="event", oldest_start=NOW - dt.timedelta(days=30)
)


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        (found(message_timestamp_type="LogAppendTime"), "LogAppendTime"),
        (found(message_timestamp_before_max_ms=str(DAY_MS)), "message.timestamp.before.max.ms"),
        (found(cleanup_policy="delete", retention_ms=str(7 * DAY_MS)), "deleted as soon as it is written"),
    ],
)
def test_event_times_must_fit_the_topic(topic: TopicState, says: str):
    [problem] = problems(topic, OLD)
    assert says in problem
    assert problems(topic, IntendedWrites(keeps_newest_only=False, has_keys=True)) == []


def test_event_times_within_the_limits_are_no_problem():
    forever = found(cleanup_policy="delete", retention_ms="-1", message_timestamp_before_max_ms=str(2**63 - 1))
    assert problems(forever, OLD) == []
    assert problems(found(cleanup_policy="delete", retention_ms=str(31 * DAY_MS)), OLD) == []


def test_limits_follow_the_topics_settings():
    settings = {"max_message_bytes": "5000", "message_timestamp_after_max_ms": "60000", "cleanup_policy": "compact"}
    limits = found(**settings).limits()
    assert (limits.max_message_bytes, limits.partitions, limits.is_compacted) == (5000, 3, True)
    assert limits.timestamp_after_max_ms == 60_000
    assert limits.timestamp_before_max_ms == 2**63 - 1


def test_limits_that_may_not_be_read_are_kafkas_own():
    assert found().limits().max_message_bytes == 1_048_588
    assert not found().limits().is_compacted


def test_what_is_made_for_the_ledger_may_be_the_ledger():
    plan = ledger_topic_settings("l", None)
    assert ledger_problems(TopicState("l", plan.partitions or 0, 1, plan.config)) == []
    assert dead_letter_topic_settings("d", 3) == NewTopicSettings("d", 1, 3, {"cleanup.policy": "delete"})


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        (found(1, cleanup_policy="delete"), "cleanup.policy must be compact alone"),
        (found(1, cleanup_policy="compact,delete"), "cleanup.policy must be compact alone"),
        (found(2, cleanup_policy="compact"), "has 2 partitions"),
        (found(1, 1, cleanup_policy="compact", min_insync_replicas="2"), "min.insync.replicas"),
    ],
)
def test_a_topic_with_wrong_settings_cannot_be_the_ledger(topic: TopicState, says: str):
    [problem] = ledger_problems(topic)
    assert says in problem
    assert "in ledger_topic" in problem


BROKERS = {"log.retention.hours": "168", "log.retention.minutes": "", "default.replication.factor": "1"}


@pytest.mark.parametrize(
    ("brokers", "retention"),
    [
        ({}, None),
        (BROKERS, 7 * DAY_MS),
        (BROKERS | {"log.retention.minutes": "60"}, 3_600_000),
        (BROKERS | {"log.retention.minutes": "60", "log.retention.ms": "-1"}, -1),
    ],
)
def test_a_new_topic_gets_the_brokers_own_settings(brokers: dict[str, str], retention: int | None):
    made = NewTopicSettings("t", None, None).as_created(brokers)
    assert made.settings.get("retention.ms") == (None if retention is None else str(retention))
    assert NewTopicSettings("t", None, None, {"retention.ms": "5"}).as_created(brokers).settings["retention.ms"] == "5"


def test_settings_hidden_by_an_acl_are_no_problem():
    old = IntendedWrites(
        keeps_newest_only=False, has_keys=True, timestamps="event", oldest_start=NOW - dt.timedelta(days=8)
    )
    assert new_topic_problems(NewTopicSettings("t", None, None), {}, old, NOW) == []
    assert new_topic_problems(NewTopicSettings("t", None, None, {"min.insync.replicas": "2"}), {}, old, NOW) == []
    [problem] = new_topic_problems(NewTopicSettings("t", None, None), BROKERS, old, NOW)
    assert problem.startswith("topic 't' is missing, and topic_config and the cluster's defaults would create it with")


@pytest.mark.parametrize("name", ["retention.ms", "min.insync.replicas", "message.timestamp.before.max.ms"])
def test_a_setting_that_is_no_number_gives_the_default(name: str):
    old = IntendedWrites(
        keeps_newest_only=False, has_keys=True, timestamps="event", oldest_start=NOW - dt.timedelta(days=8)
    )
    assert (
        new_topic_problems(NewTopicSettings("t", None, None, {"retention.ms": "-1"} | {name: "7d"}), BROKERS, old, NOW)
        == []
    )
