"""The consumer that demo and tests look with sees transactions as Kafka promises it: whole or not at all."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.equipment.kafka.fixtures import records
from tests.standins.kafka_reader import Reader

pytestmark = pytest.mark.slow

SIZE, LOOKS = 700, 12


@pytest.fixture
def topic(broker):
    name = uuid.uuid4().hex
    admin = AdminClient(broker.connection_extra)
    admin.create_topics([NewTopic(name, 1)])[name].result(10)
    return name


def commit_until(producer, topic, has_looked):
    """Commit one transaction after the other until the reader has looked often enough; return how many."""
    number = 0
    while not has_looked.is_set():
        producer.begin_transaction()
        for _ in range(SIZE):
            producer.produce(topic, b"%d" % number)
        producer.commit_transaction(30)
        number += 1
    return number


def test_what_follows_an_end_in_one_batch_is_left_for_the_next_read(broker, topic):
    producer = Producer({**broker.connection_extra, "transactional.id": topic, "linger.ms": "1"})
    producer.init_transactions(30)
    has_looked = threading.Event()
    looks = []
    with Reader(broker.bootstrap, topic) as reader, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(commit_until, producer, topic, has_looked)
        while len(looks) < LOOKS and not writing.done():
            looks.append(Counter(record.value for record in reader.read()))
        has_looked.set()
        transactions = writing.result()
        looks.append(Counter(record.value for record in reader.read()))
    assert {seen for look in looks for seen in look.values()} == {SIZE}
    assert sum(look.total() for look in looks) == transactions * SIZE


def test_a_topic_that_is_not_there_has_no_records_and_no_offsets(broker):
    with Reader(broker.bootstrap, "no-such-topic") as reader:
        assert list(reader.read()) == []
        assert reader.offsets() == {}


def test_an_open_transaction_is_seen_by_readers_of_uncommitted_records_alone(broker, topic):
    producer = Producer({**broker.connection_extra, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value", b"key", headers=[("name", b"told")], timestamp=1_700_000_000_000)
    assert producer.flush(30) == 0
    assert records(broker.bootstrap, topic) == []
    [seen] = records(broker.bootstrap, topic, "read_uncommitted")
    assert seen == (topic, 0, 0, b"key", b"value", {"name": "told"}, 1_700_000_000_000)
