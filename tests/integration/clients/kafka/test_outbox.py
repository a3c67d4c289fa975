"""One producer of the Kafka sink on a real broker: what it waits for, what it says, and how it leaves."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.clients.kafka.outbox import AcknowledgedOutbox, Outbox
from airflow_provider_connect.clients.kafka.topic_reader import read_end_offsets
from airflow_provider_connect.clients.kafka.transaction import Transaction, transactional_id
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._kafka.topic_rules import TopicRules
from tests.equipment.kafka.bench import connection_to, make_topic
from tests.equipment.kafka.fixtures import opened_topics, records
from tests.equipment.kafka.proxy import Api, KafkaProxy, Slow
from tests.equipment.waiting import wait_until
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = f"outbox-{uuid.uuid4().hex[:12]}"
    make_topic(broker.bootstrap, name)
    return name


def batch(count: int) -> list[dict[str, Any]]:
    return [{"key": b"%d" % number, "value": b"v"} for number in range(count)]


def transaction(connection: Connection, name: str, **more: Any) -> Transaction:
    return Transaction(connection, transactional_id(name), 20, 60, **more)


def test_all_records_arrive_in_their_order_through_a_client_with_hardly_any_room(
    broker: KafkaBroker, kafka_connection: Connection, topic: str
) -> None:
    outbox = Outbox(kafka_connection, 20, {"queue.buffering.max.messages": 7, "linger.ms": 0})
    outbox.send_batch(topic, batch(200), 800)
    keys = [b"%d" % number for number in range(200, 400)]
    outbox.send_with_headers(topic, keys, [b"v"] * 200, [[("h", b"1")]] * 200, [0] * 200, [-1] * 200, 400)
    for number in range(400, 450):
        outbox.send(topic, b"%d" % number, b"v", [])
    outbox.flush()
    assert outbox.accepted_records == 450
    assert [record.key for record in records(broker.bootstrap, topic)] == [b"%d" % number for number in range(450)]


def test_records_that_wait_behind_others_on_a_slow_line_are_acknowledged_at_last(
    broker: KafkaBroker, kafka_proxy: KafkaProxy, topic: str
) -> None:
    kafka_proxy.breaks(Api.PRODUCE, Slow(0.4))
    slow = {"batch.num.messages": 5, "max.in.flight.requests.per.connection": 1}
    outbox = AcknowledgedOutbox(connection_to(kafka_proxy.bootstrap), 3.0, slow)
    outbox.send_batch(topic, batch(50), 200)
    outbox.flush()
    assert len(records(broker.bootstrap, topic)) == 50


def test_who_was_overtaken_leaves_the_newer_transaction_alone(
    broker: KafkaBroker, kafka_connection: Connection, topic: str
) -> None:
    newer = transaction(kafka_connection, topic)
    with pytest.raises(ConfigError, match="too slow"), transaction(kafka_connection, topic) as older:  # noqa: PT012
        older.begin()
        older.send(topic, b"old", b"v", [])
        newer.fence()
        newer.begin()
        newer.send(topic, b"new", b"v", [])
        newer.flush()
        raise ConfigError("too slow")
    newer.commit()
    # A commit is answered before the broker has written its end into the partitions.
    wait_until(lambda: records(broker.bootstrap, topic))
    assert [record.key for record in records(broker.bootstrap, topic)] == [b"new"]


def test_who_fails_while_much_is_on_its_way_holds_up_no_reader(
    broker: KafkaBroker, kafka_connection: Connection, topic: str
) -> None:
    for _ in range(3):
        with pytest.raises(DataError), transaction(kafka_connection, topic) as failing:  # noqa: PT012
            failing.begin()
            failing.send_batch(topic, batch(5000), 20_000)
            raise DataError("a row")
    after = AcknowledgedOutbox(kafka_connection, 20, {})
    after.send(topic, b"after", b"v", [])
    after.flush()
    deadline = time.monotonic() + 5
    while not (seen := [record.key for record in records(broker.bootstrap, topic)]):
        assert time.monotonic() < deadline
    assert seen == [b"after"]


def test_what_the_broker_refuses_in_the_commit_is_told_with_what_was_published(
    broker: KafkaBroker, kafka_connection: Connection
) -> None:
    name = f"outbox-{uuid.uuid4().hex[:12]}"
    make_topic(broker.bootstrap, name, cleanup__policy="compact")
    refused = transaction(kafka_connection, name, description="c/s 2026-10-05 into 'x'")
    refused.fence()
    refused.begin()
    refused.send(name, None, b"v", [])
    refused.flush()
    with pytest.raises(DataError, match="committing c/s 2026-10-05 into 'x': Kafka returned INVALID_RECORD"):
        refused.commit()


# A topic that has just been made


class Unheard:
    """An admin client of a cluster whose partition leader has not heard of a topic for two questions."""

    def __init__(self, made: AdminClient) -> None:
        self.made, self.asked = made, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)

    def list_offsets(self, places: dict[Any, Any], **more: Any) -> dict[Any, Future[Any]]:
        self.asked += 1
        if self.asked > 2:
            return self.made.list_offsets(places, **more)
        answers: dict[Any, Future[Any]] = {place: Future() for place in places}
        for answer in answers.values():
            answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return answers


def test_a_broker_that_has_not_heard_of_a_topic_is_asked_again(broker: KafkaBroker, topic: str) -> None:
    admin: Any = Unheard(AdminClient({"bootstrap.servers": broker.bootstrap}))
    assert read_end_offsets(admin, [topic], 10) == {topic: {0: 0}}


def test_limits_of_a_topic_that_is_listed_a_moment_later(broker: KafkaBroker, kafka_connection: Connection) -> None:
    name = f"outbox-{uuid.uuid4().hex[:12]}"
    later = threading.Timer(0.5, make_topic, (broker.bootstrap, name))
    later.start()
    assert opened_topics(kafka_connection, TopicRules(), 10).limits(name).partitions == 1
    later.join()
