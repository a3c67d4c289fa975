from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from airflow_provider_connect.clients.kafka import errors as _kafka_errors
from airflow_provider_connect.clients.kafka.errors import (
    ClientErrors,
    DeniedError,
    ExistsError,
    FencedError,
    RefusedRecordError,
    UnknownTopicError,
    classify,
    is_fenced,
    kafka_error_of,
    translate_kafka_errors,
)
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError

ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
TEXT = "a text that may hold anything: s3cret"


def error(name: str, text: str = TEXT) -> KafkaException:
    return KafkaException(KafkaError(getattr(KafkaError, name), text))


@pytest.mark.parametrize(
    ("name", "expected", "says"),
    [
        ("_AUTHENTICATION", ConfigError, "sasl.username"),
        ("SASL_AUTHENTICATION_FAILED", ConfigError, "sasl.password"),
        ("UNSUPPORTED_SASL_MECHANISM", ConfigError, "sasl.mechanism"),
        ("TOPIC_AUTHORIZATION_FAILED", DeniedError, "right on the topic"),
        ("GROUP_AUTHORIZATION_FAILED", DeniedError, "group.id"),
        ("CLUSTER_AUTHORIZATION_FAILED", DeniedError, "cluster"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", DeniedError, "'connect-'"),
        ("UNKNOWN_TOPIC_OR_PART", UnknownTopicError, "create_disposition"),
        ("_UNKNOWN_PARTITION", UnknownTopicError, "create the topic"),
        ("TOPIC_ALREADY_EXISTS", ExistsError, "it exists"),
        ("INVALID_TRANSACTION_TIMEOUT", ConfigError, "transaction_timeout_seconds"),
        ("INVALID_REPLICATION_FACTOR", ConfigError, "replication_factor"),
        ("INVALID_CONFIG", ConfigError, "topic_config"),
        ("TOPIC_EXCEPTION", ConfigError, "name is illegal"),
        ("POLICY_VIOLATION", ConfigError, "policy"),
        ("_FENCED", FencedError, "another run"),
        ("INVALID_PRODUCER_EPOCH", FencedError, "another run"),
        ("MSG_SIZE_TOO_LARGE", RefusedRecordError, "too large"),
        ("INVALID_RECORD", RefusedRecordError, "the topic does not accept it"),
        ("_TIMED_OUT", RetriableError, "bootstrap.servers"),
        ("_ALL_BROKERS_DOWN", RetriableError, "no broker answers"),
        ("_TRANSPORT", RetriableError, "no broker answers"),
        ("_RESOLVE", RetriableError, "bootstrap.servers"),
        ("KAFKA_STORAGE_ERROR", RetriableError, "disk"),
        ("THROTTLING_QUOTA_EXCEEDED", RetriableError, "expected to pass"),
        ("NOT_ENOUGH_REPLICAS", RetriableError, "expected to pass"),
        ("INVALID_TXN_STATE", RetriableError, "expected to pass"),
    ],
)
def test_a_code_is_named_by_what_to_do(name: str, expected: type[ConnectError], says: str):
    found = classify(error(name), "doing something")
    assert type(found) is expected
    assert str(found).startswith(f"doing something: Kafka returned {name}")
    assert says in str(found)
    assert "s3cret" not in str(found)


def test_every_code_that_is_spelt_here_is_one_of_kafka():
    known = {KafkaError(code).name() for code in range(-200, 200)}
    spelt = {
        *_kafka_errors._BY_NAME,
        *_kafka_errors._FENCED_CODES,
        *_kafka_errors._RECORD_CODES,
        *_kafka_errors._TIMEOUT_CODES,
    }
    assert {name for name in spelt if " (" not in name} <= known


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("_SSL", "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker", ConfigError),
        ("_SSL", "SSL handshake failed: Disconnected", RetriableError),
        ("_TRANSPORT", "Receive failed: SSL routines::ssl/tls alert bad certificate: SSL alert number 42", ConfigError),
        ("_TRANSPORT", "Receive failed: SSL routines::tlsv13 alert certificate required", ConfigError),
        ("_TRANSPORT", "Receive failed: SSL routines::tlsv1 alert unknown ca", ConfigError),
        ("_TRANSPORT", "Disconnected while requesting ApiVersion", RetriableError),
        ("_AUTHENTICATION", 'Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client"}', ConfigError),
        ("_AUTHENTICATION", "Failed to acquire SASL OAUTHBEARER token: Couldn't connect to server", RetriableError),
    ],
)
def test_a_timeout_is_explained_by_a_reported_error(name: str, text: str, expected: type[ConnectError]):
    heard = ClientErrors()
    heard.record(ALL_DOWN)
    heard.record(KafkaError(getattr(KafkaError, name), text))
    assert type(classify(error("_TIMED_OUT"), "connecting", heard)) is expected
    assert type(classify(error(name, text), "connecting")) is expected


def test_a_reported_error_does_not_hide_a_more_exact_one():
    heard = ClientErrors()
    heard.record(KafkaError(KafkaError._AUTHENTICATION, "refused"))
    assert type(classify(error("UNKNOWN_TOPIC_OR_PART"), "sending", heard)) is UnknownTopicError


def test_an_error_that_is_not_repeated_expires(monkeypatch: pytest.MonkeyPatch):
    heard = ClientErrors()
    heard.record(ALL_DOWN)
    heard.record(KafkaError(KafkaError._AUTHENTICATION, "refused"))
    assert isinstance(heard.lasting_error("sending"), ConfigError)
    monkeypatch.setattr(_kafka_errors, "_FRESH_SECONDS", 0.0)
    time.sleep(0.001)
    assert heard.lasting_error("sending") is None
    assert type(classify(error("_TIMED_OUT"), "sending", heard)) is RetriableError


def test_one_refusing_broker_of_several_is_retriable():
    heard = ClientErrors()
    heard.record(KafkaError(KafkaError._AUTHENTICATION, "refused"))
    assert heard.lasting_error("sending") is None
    assert type(classify(error("_TIMED_OUT"), "sending", heard)) is RetriableError
    heard.record(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied"))
    assert isinstance(heard.lasting_error("sending"), DeniedError)


def test_a_refusal_is_not_hidden_by_what_follows():
    heard = ClientErrors()
    heard.record(ALL_DOWN)
    heard.record(KafkaError(KafkaError._TRANSPORT, "ssl/tls alert bad certificate: SSL alert number 42"))
    heard.record(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    assert heard.lasting_code() == "_SSL"


class Reporting:
    """A client that has errors to report, and does so when it is polled."""

    def __init__(self, heard: ClientErrors, *errors: KafkaError) -> None:
        self.heard = heard
        self.errors = list(errors)

    def poll(self, _: float) -> int:
        while self.errors:
            self.heard.record(self.errors.pop(0))
        return 0


def test_a_cluster_that_has_answered_was_not_down_for_good():
    """As after a broker's restart, hours before: now one refuses for a moment, and others answer."""
    heard = ClientErrors()
    heard.record(ALL_DOWN)
    heard.note_answer(Reporting(heard))
    heard.record(KafkaError(KafkaError._AUTHENTICATION, "refused"))
    assert type(classify(error("_TIMED_OUT"), "sending", heard)) is RetriableError
    heard.record(ALL_DOWN)
    assert type(classify(error("_TIMED_OUT"), "sending", heard)) is ConfigError


def test_an_error_reported_before_an_answer_is_over():
    heard = ClientErrors()
    client = Reporting(heard, ALL_DOWN)
    heard.note_answer(client)
    heard.record(KafkaError(KafkaError._AUTHENTICATION, "refused"))
    heard.poll(client)
    assert heard.lasting_error("sending") is None


def test_own_errors_pass_and_unknown_ones_are_wrapped():
    ours = ConfigError("ours")
    assert classify(ours, "doing") is ours
    assert type(classify(TimeoutError(), "doing")) is RetriableError
    stranger = classify(SystemError(TEXT), "doing")
    assert type(stranger) is ConnectError
    assert str(stranger) == "doing: unexpected SystemError"


def test_fencing_and_record_errors_have_their_own_classes():
    assert is_fenced(error("_FENCED"))
    assert is_fenced(error("PRODUCER_FENCED"))
    assert is_fenced(FencedError("x"))
    assert not is_fenced(error("_TIMED_OUT"))
    assert isinstance(classify(error("MSG_SIZE_TOO_LARGE"), "x"), RefusedRecordError)
    assert not isinstance(classify(error("_FENCED"), "x"), RefusedRecordError)
    assert not isinstance(classify(ValueError(), "x"), RefusedRecordError)


def test_the_kafka_error_is_found_inside_its_exception():
    inner = KafkaError(KafkaError._FENCED, "x")
    assert kafka_error_of(KafkaException(inner)) is inner
    assert kafka_error_of(ValueError("x")) is None
    with pytest.raises(FencedError, match="committing"), translate_kafka_errors("committing"):
        raise KafkaException(inner)
    with pytest.raises(ValueError, match="stranger"), translate_kafka_errors("committing"):
        raise ValueError("stranger")


def test_errors_of_a_polled_client_are_recorded():
    heard = ClientErrors()
    client = Producer({"bootstrap.servers": "127.0.0.1:1", "error_cb": heard.record, "log_level": 0})
    deadline = time.monotonic() + 10
    while not heard.heard_at and time.monotonic() < deadline:
        heard.poll(client)
        time.sleep(0.02)
    assert set(heard.heard_at) <= {"_TRANSPORT", "_ALL_BROKERS_DOWN"}
    assert heard.heard_at
    assert heard.lasting_code() is None
