"""The broker that the Kafka tests and the demo run on: what it says when it cannot start, and that it comes back."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.standins.kafka_broker import KafkaBroker, Listener, fetched

pytestmark = pytest.mark.slow


@pytest.fixture
def own(tmp_path):
    started = KafkaBroker(tmp_path / "kafka", listeners={"OTHER": Listener()})
    started.start()
    yield started
    started.stop()


def metadata(bootstrap, seconds=10.0):
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=seconds)


def test_what_is_written_survives_a_kill_and_clients_find_it_at_the_same_port(own):
    admin = AdminClient(own.connection_extra)
    admin.create_topics([NewTopic("kept", 1)])["kept"].result(10)
    producer = Producer(own.connection_extra | {"acks": "all", "log_level": 0})
    producer.produce("kept", b"before")
    assert producer.flush(10) == 0
    own.kill()
    producer.produce("kept", b"while it was away")
    own.start()
    assert producer.flush(30) == 0
    consumer = Consumer(own.connection_extra | {"group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition("kept", 0, 0)])
    assert [message.value() for message in consumer.consume(2, 10)] == [b"before", b"while it was away"]
    consumer.close()


def test_each_listener_leads_to_itself(own):
    [port] = [listener.port for listener in own.listeners.values()]
    assert [broker.port for broker in metadata(f"127.0.0.1:{port}").brokers.values()] == [port]
    assert [broker.port for broker in metadata(own.bootstrap).brokers.values()] == [own.port]


def test_paused_it_does_not_answer_until_it_is_resumed(own):
    own.pause()
    with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT"):
        metadata(own.bootstrap, 1)
    own.resume()
    assert metadata(own.bootstrap).brokers


def test_a_paused_one_can_be_stopped(own):
    own.pause()
    own.stop()
    assert own.process.poll() is not None


def test_a_setting_it_does_not_take_is_told(tmp_path):
    with pytest.raises(RuntimeError, match=r"did not start(.|\n)*num\.partitions"):
        KafkaBroker(tmp_path, settings={"num.partitions": "none"}).start()


def test_without_a_network_the_message_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    with pytest.raises(RuntimeError, match=r"org\.apache\.kafka:kafka_2\.13:.* from https://repo1\.maven\.org/maven2"):
        fetched(tmp_path / "kafka")
    assert not (tmp_path / "kafka" / "installed.txt").exists()
