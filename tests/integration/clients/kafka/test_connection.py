"""Every way into a cluster, right and wrong, against a broker that lets nobody in without proof."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition

from airflow_provider_connect.clients.kafka.connection import (
    check_connection,
    make_admin_client,
    make_consumer,
    make_producer,
    secret_texts,
)
from airflow_provider_connect.clients.kafka.errors import ClientErrors, DeniedError, classify, translate_kafka_errors
from airflow_provider_connect.clients.kafka.topic_reader import open_topic
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.sinks._kafka.topic_rules import TopicRules
from tests.equipment.kafka.fixtures import opened_topics
from tests.equipment.kafka.secured import CLIENT_SECRET, PASSWORD, Secured, allow, certificate

pytestmark = pytest.mark.slow

SECONDS = 10.0


def reach(connection: Connection, timeout_seconds: float = SECONDS) -> int:
    return opened_topics(connection, TopicRules(), timeout_seconds).wait_until_reachable()


def every_way_in(cluster: Secured, folder: Path) -> dict[str, Connection]:
    files = {"ca.pem": cluster.ca.pem, "client.pem": cluster.client.pem, "client.key": cluster.client.key_pem}
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "client.p12").write_bytes(cluster.client.keystore(PASSWORD))
    return {
        "PLAIN": cluster.sasl(),
        "SCRAM-SHA-256": cluster.sasl("scram256", "SCRAM-SHA-256"),
        "SCRAM-SHA-512": cluster.sasl("scram512", "SCRAM-SHA-512"),
        "certificate as text": cluster.mtls(),
        "certificate in files": cluster.connection(
            "MTLS",
            ssl__ca__pem=None,
            ssl__ca__location=str(folder / "ca.pem"),
            ssl__certificate__location=str(folder / "client.pem"),
            ssl__key__location=str(folder / "client.key"),
        ),
        "certificate in a keystore": cluster.connection(
            "MTLS", ssl__keystore__location=str(folder / "client.p12"), ssl__keystore__password=PASSWORD
        ),
        "certificate with a password": cluster.mtls(
            **{"ssl.key.pem": cluster.client.encrypted(PASSWORD), "ssl.key.password": PASSWORD}
        ),
        "OAUTHBEARER": cluster.oauth(),
    }


@pytest.mark.parametrize(
    "way",
    ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "certificate as text", "certificate in files",
     "certificate in a keystore", "certificate with a password", "OAUTHBEARER"],
)  # fmt: skip
def test_each_sign_in_method_connects(cluster: Secured, tmp_path: Path, way: str):
    connection = every_way_in(cluster, tmp_path)[way]
    assert check_connection(connection, "exactly_once") == []
    assert reach(connection) == 1


def test_a_key_that_its_password_does_not_open(cluster: Secured):
    wrong = {"ssl.key.pem": cluster.client.encrypted(PASSWORD), "ssl.key.password": "canary-wr0ng"}
    [problem] = check_connection(cluster.mtls(**wrong), "exactly_once")
    assert "ssl.key" in problem
    assert "canary" not in problem


def wrong_ways(cluster: Secured) -> dict[str, tuple[Connection, str]]:
    stranger = certificate("stranger")
    return {
        "PLAIN": (cluster.sasl(password="wrong"), "sasl.password"),
        "SCRAM": (cluster.sasl("scram512", "SCRAM-SHA-512", "wrong"), "sasl.password"),
        "unknown user": (cluster.sasl("nobody"), "sasl.username"),
        "token": (cluster.oauth("wrong"), "the token server refuses the client"),
        "another authority": (cluster.mtls(**{"ssl.ca.pem": stranger.pem}), "ssl.ca.pem"),
        "no authority": (cluster.mtls(**{"ssl.ca.pem": None}), "ssl.ca.location"),
        "no certificate": (cluster.connection("MTLS"), "the client's certificate"),
        "a strange certificate": (
            cluster.mtls(**{"ssl.certificate.pem": stranger.pem, "ssl.key.pem": stranger.key_pem}),
            "the client's certificate",
        ),
    }


@pytest.mark.parametrize(
    "way",
    ["PLAIN", "SCRAM", "unknown user", "token", "another authority", "no authority", "no certificate",
     "a strange certificate"],
)  # fmt: skip
def test_a_refusal_is_told_at_once_and_names_the_field(cluster: Secured, way: str):
    connection, says = wrong_ways(cluster)[way]
    assert check_connection(connection, "exactly_once") == []
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"connecting to the cluster: Kafka returned ") as caught:
        reach(connection, 60)
    assert says in str(caught.value)
    assert not any(secret in str(caught.value) for secret in secret_texts(connection))
    assert time.monotonic() - started < 20


def test_a_host_that_the_certificate_does_not_name_is_refused(cluster: Secured):
    connection = cluster.mtls().model_copy(update={"host": "localhost"})
    with pytest.raises(ConfigError, match="TLS failed"):
        reach(connection)
    unchecked = cluster.mtls(**{"ssl.endpoint.identification.algorithm": "none"})
    assert reach(unchecked.model_copy(update={"host": "localhost"})) == 1


@pytest.mark.parametrize(
    ("protocol", "listener", "says"),
    [
        ("PLAINTEXT", "MTLS", "speaks TLS, and security.protocol is PLAINTEXT: set it to SSL"),
        ("PLAINTEXT", "SASL", "speaks TLS, and security.protocol is PLAINTEXT: set it to SSL, or SASL_SSL"),
        ("PLAINTEXT", "OAUTH", "requires a sign-in, and security.protocol is PLAINTEXT: set it to SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL", "speaks TLS, and security.protocol is SASL_PLAINTEXT: set it to SASL_SSL"),
        ("SASL_PLAINTEXT", None, "the listener has no sign-in: set security.protocol to PLAINTEXT"),
        ("SSL", None, "speaks no TLS, and security.protocol is SSL: name the port of a TLS listener"),
        ("SASL_SSL", "OAUTH", "speaks no TLS, and security.protocol is SASL_SSL"),
    ],
)
def test_another_protocol_than_the_listeners_is_said_so(
    cluster: Secured, protocol: str, listener: str | None, says: str
):
    """A plain port asked in TLS, and the reverse: for librdkafka both are silence, which might pass."""
    port = cluster.broker.listeners[listener].port if listener else cluster.broker.port
    extra = {"bootstrap.servers": f"127.0.0.1:1,127.0.0.1:{port}", "security.protocol": protocol}
    sign_in = {"sasl.mechanism": "PLAIN"} if "SASL" in protocol else {}
    user = {"login": "plain", "password": PASSWORD} if sign_in else {}
    connection = Connection(conn_id="k", extra=extra | sign_in, **user)
    with pytest.raises(ConfigError, match=f"^connecting to the cluster: .*{says}") as caught:
        reach(connection, 60)
    assert PASSWORD not in str(caught.value)


def test_nobody_there_is_retriable_and_bounded():
    started = time.monotonic()
    with pytest.raises(RetriableError, match=r"no broker answers: if this persists, check bootstrap\.servers"):
        reach(Connection(conn_id="k", extra={"bootstrap.servers": "127.0.0.1:1"}), 2)
    assert time.monotonic() - started < 5


def test_a_token_server_that_is_away_is_retriable(cluster: Secured):
    connection = cluster.oauth(**{"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token"})
    with pytest.raises(RetriableError):
        reach(connection, 3)


def failure_of(doing: str, heard: ClientErrors, client: Any, error: KafkaException) -> ConnectError:
    heard.poll(client)
    return classify(error, doing, heard)


def test_rights_are_asked_for_by_name(cluster: Secured):
    """A user without any rights, who gets one after the other, hears each time which is missing."""
    connection, own = cluster.sasl("reader"), uuid.uuid4().hex
    topic, transaction = f"t-{own}", f"connect-{own}"
    topics = opened_topics(connection, TopicRules(), SECONDS)
    with pytest.raises(DeniedError, match=f"user 'reader' lacks DESCRIBE on topic '{topic}': grant it"):
        topics.create_missing([topic])
    allow(cluster, "reader", ("TOPIC", topic, "DESCRIBE"))
    [problem] = opened_topics(connection, TopicRules(), SECONDS).create_missing([topic])
    assert problem.startswith(f"user 'reader' lacks CREATE on missing topic '{topic}': grant it")
    allow(cluster, "reader", ("TOPIC", topic, "CREATE"))
    assert topics.create_missing([topic]) == []
    # DESCRIBE_CONFIGS is missing: nothing is known about the settings, and Kafka's own are taken.
    assert topics.limits(topic).max_message_bytes == 1_048_588
    assert topics.max_transaction_timeout_ms() is None

    heard = ClientErrors()
    client = make_producer(connection, heard, **{"transactional.id": transaction})
    with pytest.raises(KafkaException) as caught:
        client.init_transactions(SECONDS)
    failure = failure_of("taking the transactional id", heard, client, caught.value)
    assert isinstance(failure, DeniedError)
    assert "transactional ids that begin with 'connect-'" in str(failure)

    allow(cluster, "reader", ("TRANSACTIONAL_ID", transaction, "WRITE"))
    heard = ClientErrors()
    client = make_producer(connection, heard, **{"transactional.id": transaction})
    client.init_transactions(SECONDS)
    client.begin_transaction()
    client.produce(topic, value=b"x")
    with pytest.raises(KafkaException) as caught:
        client.commit_transaction(SECONDS)
    failure = failure_of("committing", heard, client, caught.value)
    assert isinstance(failure, DeniedError), failure

    allow(cluster, "reader", ("TOPIC", topic, "WRITE"))
    client = make_producer(connection, **{"transactional.id": transaction})
    client.init_transactions(SECONDS)
    client.begin_transaction()
    client.produce(topic, value=b"x")
    client.commit_transaction(SECONDS)

    reader = make_consumer(connection, ClientErrors())
    reader.assign([TopicPartition(topic, 0, 0)])
    with pytest.raises(DeniedError), translate_kafka_errors("reading"):  # noqa: PT012
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            message = reader.poll(0.5)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())
    reader.close()


def test_reading_needs_no_right_on_a_group(cluster: Secured):
    """Whoever may READ the ledger's topic reads it: no group is joined."""
    topic = f"t-{uuid.uuid4().hex}"
    rights = [("TOPIC", topic, right) for right in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")]
    allow(cluster, "plain", *rights, ("TRANSACTIONAL_ID", topic, "WRITE"))
    connection = cluster.sasl()
    assert opened_topics(connection, TopicRules(), SECONDS).create_missing([topic]) == []
    client = make_producer(connection, **{"transactional.id": topic})
    client.init_transactions(SECONDS)
    client.begin_transaction()
    client.produce(topic, value=b"x")
    client.commit_transaction(SECONDS)
    with open_topic(connection, topic, SECONDS) as partitions:
        found = [each.value() for some in partitions.read_batches({0: 0}, {0: 1}) for each in some]
    assert found == [b"x"]


TALK = """
import logging, pickle, sys
logging.basicConfig(level=logging.DEBUG)
from confluent_kafka import KafkaException, TopicPartition
from airflow_provider_connect.clients.kafka.connection import check_connection, make_admin_client
from airflow_provider_connect.clients.kafka.connection import make_consumer, make_producer
connection = pickle.loads(sys.stdin.buffer.read())
print(check_connection(connection, "exactly_once"), repr(connection))
client = make_admin_client(connection)
sender = make_producer(connection, **{"transactional.id": "connect-talk"})
reader = make_consumer(connection)
for call in (lambda: client.list_topics(timeout=3), lambda: sender.init_transactions(3), lambda: reader.poll(1)):
    try:
        reader.assign([TopicPartition("talk", 0, 0)])
        call()
    except KafkaException as error:
        print(error)
    client.poll(0.1)
    try:
        sender.poll(0.1)
    except KafkaException as error:
        print(error)
reader.close()
"""


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512", "certificate as text", "OAUTHBEARER", "wrong", "no token"])
def test_no_secret_reaches_a_log_whatever_is_asked_to_be_told(cluster: Secured, tmp_path: Path, way: str):
    """librdkafka tells everything, and the token server's whole answer, which says what it was asked with."""
    ways = every_way_in(cluster, tmp_path) | {
        "wrong": cluster.sasl(password="canary-wr0ng"),
        "no token": cluster.oauth("canary-wr0ng"),
    }
    connection = ways[way]
    connection = connection.model_copy(update={"extra": connection.extra | {"debug": "all"}})
    said = subprocess.run(
        [sys.executable, "-c", TALK],
        input=pickle.dumps(connection),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=True,
    ).stdout.decode()
    assert "SASL" in said or "SSL" in said, "nothing was told: the test sees nothing"
    assert len(said.splitlines()) > 100
    hidden = secret_texts(connection) | {PASSWORD, CLIENT_SECRET, *cluster.tokens.issued}
    assert not [line for line in said.splitlines() if "canary" in line or any(secret in line for secret in hidden)]


def test_a_client_that_is_refused_says_so_once(cluster: Secured, caplog: pytest.LogCaptureFixture):
    heard = ClientErrors()
    client = make_admin_client(cluster.sasl(password="wrong"), heard)
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        client.poll(0.2)
    assert len(caplog.records) == 1
    assert "Invalid username or password" in caplog.text
