"""Topics in a cluster that takes its time, which a real one of one node does not."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_connect.clients.kafka.errors import ClientErrors
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._kafka.topic_rules import TopicRules
from airflow_provider_connect.sinks._kafka.topics import TopicAdmin


def done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


def error(name: str) -> KafkaException:
    return KafkaException(KafkaError(getattr(KafkaError, name), "text"))


class SlowCluster:
    """Makes every topic, and knows it only after so many questions."""

    def __init__(self, questions: int) -> None:
        self.questions = questions
        self.made: list[str] = []

    def create_topics(self, wanted: list[Any], **_: Any) -> dict[str, Future[Any]]:
        self.made += [topic.topic for topic in wanted]
        return {topic.topic: done(None) for topic in wanted}

    def describe_topics(self, names: Any, **_: Any) -> dict[str, Future[Any]]:
        if self.made:
            self.questions -= 1
        known = SimpleNamespace(partitions=[SimpleNamespace(replicas=[1])], authorized_operations=None)
        missing = error("UNKNOWN_TOPIC_OR_PART")
        return {name: done(known if self.made and self.questions < 0 else missing) for name in names.topic_names}

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        return {resource: done({}) for resource in resources}

    def poll(self, _: float) -> int:
        return 0


def names(count: int) -> list[str]:
    return [f"topic-{number}" for number in range(count)]


def test_new_topics_are_waited_for():
    cluster: Any = SlowCluster(questions=3)
    topics = TopicAdmin(cluster, TopicRules(), timeout_seconds=10)
    assert topics.create_missing(names(2)) == []
    assert cluster.questions == -1
    assert topics.limits("topic-1").partitions == 1


def test_a_created_topic_that_is_never_listed_is_retriable():
    cluster: Any = SlowCluster(questions=10**9)
    with pytest.raises(RetriableError, match="created, but not listed within 0 s: 'topic-0'"):
        TopicAdmin(cluster, TopicRules(), timeout_seconds=0.2).create_missing(names(1))


class Refusing(SlowCluster):
    """Answers every question with one error."""

    def __init__(self, name: str) -> None:
        super().__init__(0)
        self.error = error(name)

    def describe_topics(self, names: Any, **_: Any) -> dict[str, Future[Any]]:
        return {name: done(self.error) for name in names.topic_names}

    def describe_cluster(self, **_: Any) -> Future[Any]:
        return done(self.error)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("_TIMED_OUT", RetriableError), ("TOPIC_AUTHORIZATION_FAILED", ConfigError), ("_AUTHENTICATION", ConfigError)],
)
def test_an_answer_that_is_an_error_is_never_taken_for_a_missing_topic(name: str, expected: type[Exception]):
    cluster: Any = Refusing(name)
    with pytest.raises(expected, match=r"(looking at|lacks DESCRIBE on) topic 'topic-0'"):
        TopicAdmin(cluster, TopicRules(), timeout_seconds=0.1).create_missing(names(1))
    with pytest.raises(expected, match="connecting to the cluster"):
        TopicAdmin(cluster, TopicRules(), timeout_seconds=0.1).wait_until_reachable()


class Restarted(SlowCluster):
    """Was down a while ago, answers once, and refuses to sign in on the way to one broker."""

    heard: ClientErrors
    was_down = True

    def poll(self, _: float) -> int:
        if self.was_down:
            self.was_down = False
            self.heard.record(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
        return 0

    def describe_cluster(self, **_: Any) -> Future[Any]:
        self.heard.record(KafkaError(KafkaError._AUTHENTICATION, "refused"))
        return done(error("_TIMED_OUT"))


def test_a_cluster_that_answered_since_it_was_down_is_waited_for():
    cluster: Any = Restarted(0)
    topics = TopicAdmin(cluster, TopicRules(), timeout_seconds=0.1)
    cluster.heard = topics.client_errors
    assert topics.create_missing(names(1)) == []
    with pytest.raises(RetriableError, match="connecting to the cluster"):
        topics.wait_until_reachable()


def test_a_cluster_that_never_answered_refuses_the_sign_in():
    cluster: Any = Restarted(0)
    topics = TopicAdmin(cluster, TopicRules(), timeout_seconds=0.1)
    cluster.heard = topics.client_errors
    with pytest.raises(ConfigError, match="refuses the credentials"):
        topics.wait_until_reachable()


class Nameless(Refusing):
    """No bootstrap server has an address."""

    heard: ClientErrors

    def describe_cluster(self, **_: Any) -> Future[Any]:
        self.heard.record(KafkaError(KafkaError._RESOLVE, "no address"))
        self.heard.record(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
        return done(error("_TIMED_OUT"))


def test_a_cluster_without_an_address_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("airflow_provider_connect.sinks._kafka.topics._UNRESOLVED_SECONDS", 0.0)
    cluster: Any = Nameless("_TIMED_OUT")
    topics = TopicAdmin(cluster, TopicRules(), timeout_seconds=60)
    cluster.heard = topics.client_errors
    with pytest.raises(RetriableError, match="a host name cannot be resolved"):
        topics.wait_until_reachable()


class ThreeNodes(SlowCluster):
    """Three brokers with limits of their own; refuses two brokers in one request, as librdkafka 2.16 does."""

    def describe_cluster(self, **_: Any) -> Future[Any]:
        return done(SimpleNamespace(nodes=[SimpleNamespace(id_string=str(number)) for number in (1, 2, 3)]))

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        if len(resources) > 1:
            return {resource: done(error("_CONFLICT")) for resource in resources}
        limit = SimpleNamespace(value=f"{9 - int(resources[0].name)}00000")
        return {resources[0]: done({"transaction.max.timeout.ms": limit})}


def test_the_lowest_limit_of_all_brokers_counts():
    cluster: Any = ThreeNodes(0)
    assert TopicAdmin(cluster, TopicRules()).max_transaction_timeout_ms() == 600_000
