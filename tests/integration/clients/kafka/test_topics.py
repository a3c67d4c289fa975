"""Topics made, found and judged on a real broker."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_connect.clients.kafka.errors import UnknownTopicError
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._kafka.topic_names import topic_names as names_of
from airflow_provider_connect.sinks._kafka.topic_rules import IntendedWrites, TopicGroup, TopicRules
from airflow_provider_connect.sinks._kafka.topics import TopicAdmin
from tests.equipment.kafka.fixtures import opened_topics
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow

SECONDS = 20.0


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex}"


def topics(connection: Connection, timeout_seconds: float = SECONDS, /, **rules: object) -> TopicAdmin:
    return opened_topics(connection, TopicRules.model_validate(rules), timeout_seconds)


def make(broker: KafkaBroker, name: str, partitions: int = 1, **config: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient(broker.connection_extra | {"log_level": "0"})
    settings = {setting.replace("_", "."): value for setting, value in config.items()}
    for future in client.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
        future.result(timeout=SECONDS)


def settings_of(broker: KafkaBroker, name: str) -> dict[str, str]:
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    client = AdminClient(broker.connection_extra | {"log_level": "0"})
    [future] = client.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    return {entry.name: entry.value for entry in future.result(timeout=SECONDS).values()}


def test_topics_are_made_by_their_rules(kafka_connection: Connection, broker: KafkaBroker, name: str):
    group = TopicGroup(include=(".*-big",), partitions=5, config={"retention.ms": "-1"})
    made = topics(kafka_connection, partitions=2, config={"cleanup.policy": "compact"}, groups=(group,))
    assert made.create_missing([name, f"{name}-big", name]) == []
    assert (made.limits(name).partitions, made.limits(f"{name}-big").partitions) == (2, 5)
    assert settings_of(broker, name)["cleanup.policy"] == "compact"
    assert settings_of(broker, name)["retention.ms"] != "-1"
    assert settings_of(broker, f"{name}-big")["retention.ms"] == "-1"
    assert made.problems([name, f"{name}-big"], IntendedWrites(has_keys=True)) == []


def test_a_topic_that_is_there_is_left_alone(kafka_connection: Connection, broker: KafkaBroker, name: str):
    make(broker, name, 3, cleanup_policy="delete", retention_ms="-1")
    assert topics(kafka_connection, partitions=7, config={"retention.ms": "5"}).create_missing([name]) == []
    assert topics(kafka_connection).limits(name).partitions == 3
    assert settings_of(broker, name)["retention.ms"] == "-1"


def test_runs_at_once_make_a_topic_once(kafka_connection: Connection, name: str):
    names = [f"{name}-{number}" for number in range(20)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: topics(kafka_connection, partitions=2).create_missing(names), range(6)))
    assert found == [[]] * 6


def test_two_hundred_fifty_topics_are_created_in_one_call(kafka_connection: Connection, name: str):
    events = [f"Event {number}" for number in range(250)]
    names = list(names_of(f"{name}-{{event}}", events).values())
    made = topics(kafka_connection, partitions=1)
    assert made.create_missing(names) == []
    assert {made.limits(one).partitions for one in names} == {1}


def test_nothing_is_made_where_that_is_not_wanted(kafka_connection: Connection, name: str):
    looked = topics(kafka_connection, create_disposition="never", partitions=2, config={"retention.ms": "5"})
    [problem] = looked.create_missing([name])
    assert f"topic '{name}' is missing, and create_disposition is 'never'" in problem
    assert f"kafka-topics.sh --create --topic {name} --partitions 2 --config retention.ms=5" in problem
    assert "is missing" in looked.ensure_ledger_topic(name)[0]
    assert "is missing" in looked.ensure_dead_letter_topic(name)[0]
    assert looked.problems_if_created([name], IntendedWrites(has_keys=True)) == []
    with pytest.raises(UnknownTopicError, match="no such topic"):
        looked.limits(name)


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"replication_factor": 3}, "lower replication_factor"),
        ({"config": {"no.such.setting": "1"}}, "correct topic_config"),
        ({"config": {"cleanup.policy": "burn"}}, "correct topic_config"),
    ],
)
def test_what_cannot_be_made_is_told_and_may_be_rehearsed(
    kafka_connection: Connection, name: str, rules: dict[str, object], says: str
):
    tried = topics(kafka_connection, **rules)
    for found in (tried.problems_if_created([name], IntendedWrites(has_keys=True)), tried.create_missing([name])):
        assert len(found) == 1
        assert found[0].startswith(f"creating topic '{name}': Kafka returned ")
        assert says in found[0]


def test_a_rehearsal_makes_nothing(kafka_connection: Connection, name: str):
    tried = topics(kafka_connection, partitions=1)
    assert tried.problems_if_created([name], IntendedWrites(has_keys=True)) == []
    with pytest.raises(UnknownTopicError):
        tried.limits(name)
    assert tried.create_missing([name]) == []
    assert tried.problems_if_created([name], IntendedWrites(has_keys=True)) == []


def test_topics_that_do_not_fit_are_named(kafka_connection: Connection, broker: KafkaBroker, name: str):
    make(broker, f"{name}-compact", cleanup_policy="compact")
    make(broker, f"{name}-isr", min_insync_replicas="2", retention_ms="-1")
    make(broker, f"{name}-short", retention_ms="86400000")
    names = [f"{name}-{end}" for end in ("compact", "isr", "short", "absent")]
    old = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    found = topics(kafka_connection).problems(
        names, IntendedWrites(has_keys=False, timestamps="event", oldest_start=old)
    )
    assert [text.partition(": ")[0] for text in found] == [f"topic '{one}'" for one in names[:3]]
    assert "without a key" in found[0]
    assert "min.insync.replicas is 2" in found[1]
    assert "retention.ms" in found[2]
    assert (
        "keeps only the last record of each key"
        in topics(kafka_connection).problems(names[:1], IntendedWrites(has_keys=True))[0]
    )
    assert (
        topics(kafka_connection, config={"cleanup.policy": "compact"}).problems(
            names[:1], IntendedWrites(has_keys=True)
        )
        == []
    )


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({}, "retention.ms is 604800000"),
        ({"config": {"retention.ms": "1000"}}, "retention.ms is 1000"),
        (
            {"config": {"retention.ms": "-1", "min.insync.replicas": "2"}},
            "min.insync.replicas is 2 and the topic has 1 replicas",
        ),
        ({"config": {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}}, "LogAppendTime"),
    ],
)
def test_a_topic_that_would_not_fit_is_told_before_it_is_made(
    kafka_connection: Connection, name: str, rules: dict[str, object], says: str
):
    old = IntendedWrites(has_keys=True, timestamps="event", oldest_start=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    [problem] = topics(kafka_connection, **rules).problems_if_created([name], old)
    assert says in problem
    forever = TopicGroup(include=(".*_view",), config={"retention.ms": "-1"})
    assert topics(kafka_connection, groups=(forever,)).problems_if_created([f"{name}_view"], old) == []
    assert topics(kafka_connection, groups=(forever,)).example_problems_if_created(name, old) == []
    assert topics(kafka_connection, **rules).example_problems_if_created(name, old) == [problem]


def test_limits_are_those_of_the_topic(kafka_connection: Connection, broker: KafkaBroker, name: str):
    limits = {"max_message_bytes": "2000", "message_timestamp_after_max_ms": "60000"}
    make(broker, name, 2, **limits, message_timestamp_before_max_ms="120000")
    found = topics(kafka_connection).limits(name)
    assert (found.max_message_bytes, found.partitions, found.is_compacted) == (2000, 2, False)
    assert (found.timestamp_after_max_ms, found.timestamp_before_max_ms) == (60_000, 120_000)


def test_the_ledger_is_made_as_it_must_be(kafka_connection: Connection, broker: KafkaBroker, name: str):
    made = topics(kafka_connection, partitions=9, config={"cleanup.policy": "delete", "retention.ms": "1"})
    assert made.ensure_ledger_topic(name) == []
    assert made.ensure_ledger_topic(name) == []
    assert settings_of(broker, name)["cleanup.policy"] == "compact"
    assert topics(kafka_connection).limits(name).partitions == 1


@pytest.mark.parametrize(
    ("partitions", "policy", "says"),
    [(1, "delete", "compact alone"), (1, "compact,delete", "compact alone"), (2, "compact", "2 partitions")],
)
def test_another_topic_is_not_taken_for_the_ledger(
    kafka_connection: Connection, broker: KafkaBroker, name: str, partitions: int, policy: str, says: str
):
    make(broker, name, partitions, cleanup_policy=policy)
    [problem] = topics(kafka_connection).ensure_ledger_topic(name)
    assert says in problem


def test_dead_letters_have_a_plain_topic(kafka_connection: Connection, broker: KafkaBroker, name: str):
    made = topics(kafka_connection, partitions=4, config={"cleanup.policy": "compact"})
    assert made.ensure_dead_letter_topic(name) == []
    assert settings_of(broker, name)["cleanup.policy"] == "delete"
    assert made.limits(name).partitions == 1
    make(broker, f"{name}-compact", cleanup_policy="compact")
    assert "without a key" in made.ensure_dead_letter_topic(f"{name}-compact")[0]


def test_the_brokers_limit_of_a_transaction(kafka_connection: Connection):
    assert topics(kafka_connection).max_transaction_timeout_ms() == 3_600_000


def test_a_broker_that_is_away_is_waited_for_so_long_and_no_longer(tmp_path, name: str):
    away = Connection(conn_id="k", extra={"bootstrap.servers": "127.0.0.1:1"})
    for call in ("wait_until_reachable", "max_transaction_timeout_ms"):
        started = time.monotonic()
        with pytest.raises(RetriableError, match="no broker answers"):
            getattr(topics(away, 1.0), call)()
        assert time.monotonic() - started < 8
    started = time.monotonic()
    with pytest.raises(RetriableError, match="no broker answers"):
        topics(away, 1.0).create_missing([name])
    assert time.monotonic() - started < 8


def test_names_that_kafka_takes_for_one(kafka_connection: Connection, name: str):
    made = topics(kafka_connection, partitions=1)
    assert made.create_missing([f"{name}.a.b"]) == []
    [problem] = made.create_missing([f"{name}.a_b"])
    assert "differs from an existing topic's only in '.' and '_'" in problem
    for value in ("x.y", "x_y"):
        assert made.create_missing(list(names_of(f"{name}.{{event}}", [value]).values())) == []
