"""The proxy that the Kafka tests break calls with breaks those, and nothing else."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.equipment.kafka.fixtures import records
from tests.equipment.kafka.proxy import Api, Change, Cut, Drop, Hold, Lose, Refuse, Slow
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow

ABORTABLE = 120  # TRANSACTION_ABORTABLE


@pytest.fixture
def topic(broker):
    name = uuid.uuid4().hex
    admin = AdminClient(broker.connection_extra)
    admin.create_topics([NewTopic(name, 1)])[name].result(10)
    while name not in admin.list_topics(timeout=10).topics:
        pass
    return name


def producer(proxy, **settings):
    own = {"bootstrap.servers": proxy.bootstrap, "transactional.id": uuid.uuid4().hex, "log_level": "0"}
    return Producer(own | {name.replace("_", "."): value for name, value in settings.items()})


def begun(proxy, topic, **settings):
    made = producer(proxy, **settings)
    made.init_transactions(30)
    made.begin_transaction()
    made.produce(topic, b"value")
    assert made.flush(30) == 0
    return made


def values(broker, topic):
    return [record.value for record in records(broker.bootstrap, topic)]


def test_a_transaction_passes_and_its_calls_are_counted(kafka_proxy, broker, topic):
    begun(kafka_proxy, topic).commit_transaction(30)
    assert values(broker, topic) == [b"value"]
    assert [kafka_proxy.count(api) for api in (Api.PRODUCE, Api.END_TXN)] == [1, 1]
    assert kafka_proxy.count(Api.PRODUCE, topic.encode()) == 1
    assert kafka_proxy.count(Api.PRODUCE, b"another topic") == 0
    assert all(call.seconds > 0 for call in kafka_proxy.calls if call.api == Api.END_TXN)


@pytest.mark.parametrize("api", [Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN])
@pytest.mark.parametrize("action", [Lose(), Cut()])
def test_librdkafka_asks_again_when_the_connection_is_cut(kafka_proxy, broker, topic, api, action):
    kafka_proxy.breaks(api, action, 1)
    begun(kafka_proxy, topic).commit_transaction(30)
    assert values(broker, topic) == [b"value"]
    assert kafka_proxy.count(api) >= 2


def test_a_lost_answer_had_its_effect_and_a_cut_call_had_none(kafka_proxy, broker, topic):
    rule = kafka_proxy.breaks(Api.END_TXN, Cut())
    cut = begun(kafka_proxy, topic)
    with pytest.raises(KafkaException):
        cut.commit_transaction(2)
    assert rule.seen
    assert values(broker, topic) == []
    kafka_proxy.heal()
    kafka_proxy.breaks(Api.END_TXN, Lose())
    with pytest.raises(KafkaException):
        cut.commit_transaction(2)
    assert values(broker, topic) == [b"value"]


def test_a_dropped_answer_leaves_the_client_waiting(kafka_proxy, broker, topic):
    kafka_proxy.breaks(Api.END_TXN, Drop())
    made = begun(kafka_proxy, topic)
    with pytest.raises(KafkaException) as waited:
        made.commit_transaction(1)
    assert waited.value.args[0].code() == KafkaError._TIMED_OUT
    assert kafka_proxy.count(Api.END_TXN) == 1
    assert values(broker, topic) == [b"value"]


def test_a_slow_answer_is_late_and_its_call_is_not(kafka_proxy, broker, topic):
    kafka_proxy.breaks(Api.END_TXN, Slow(1.5))
    made = begun(kafka_proxy, topic)
    thread = threading.Thread(target=made.commit_transaction, args=(30,))
    started = time.monotonic()
    thread.start()
    while not values(broker, topic):
        assert time.monotonic() - started < 1.4
    thread.join()
    assert time.monotonic() - started >= 1.5


def test_a_held_call_is_made_when_it_is_let_go(kafka_proxy, broker, topic):
    let_go = threading.Event()
    kafka_proxy.breaks(Api.END_TXN, Hold(let_go), 1)
    made = begun(kafka_proxy, topic)
    thread = threading.Thread(target=made.commit_transaction, args=(30,))
    thread.start()
    wait_until(lambda: kafka_proxy.count(Api.END_TXN))
    assert values(broker, topic) == []
    let_go.set()
    thread.join()
    assert values(broker, topic) == [b"value"]


def test_refused_calls_give_the_error_and_have_no_effect(kafka_proxy, broker, topic):
    kafka_proxy.breaks(Api.INIT_PRODUCER_ID, Refuse(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), 1)
    with pytest.raises(KafkaException) as refused:
        producer(kafka_proxy).init_transactions(30)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    name = uuid.uuid4().hex  # a producer of an earlier test may still end its transaction
    kafka_proxy.breaks(Api.END_TXN, Refuse(KafkaError.INVALID_PRODUCER_EPOCH), 1, containing=name.encode())
    made = begun(kafka_proxy, topic, transactional_id=name)
    with pytest.raises(KafkaException):
        made.commit_transaction(30)
    assert values(broker, topic) == []


def test_an_answer_can_be_changed(kafka_proxy, topic):
    seen = []
    kafka_proxy.breaks(Api.END_TXN, Change(lambda body: seen.append(body) or body))
    begun(kafka_proxy, topic).commit_transaction(30)
    assert len(seen) == 1


def test_only_calls_that_hold_the_bytes_are_broken_and_only_the_nth(kafka_proxy, broker, topic):
    other = kafka_proxy.breaks(Api.PRODUCE, Cut(), containing=b"another topic")
    second = kafka_proxy.breaks(Api.PRODUCE, Cut(), 2, containing=topic.encode())
    begun(kafka_proxy, topic).commit_transaction(30)
    assert (other.seen, second.seen) == (0, 1)
    assert values(broker, topic) == [b"value"]


def test_what_is_forgotten_breaks_nothing_and_clients_come_back(kafka_proxy, broker, topic):
    kafka_proxy.breaks(Api.PRODUCE, Cut())
    kafka_proxy.forget()
    made = begun(kafka_proxy, topic)
    kafka_proxy.cut()
    made.commit_transaction(30)
    assert values(broker, topic) == [b"value"]
