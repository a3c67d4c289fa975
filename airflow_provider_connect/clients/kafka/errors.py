"""Converts Kafka's errors to the package's by code. Error texts may contain settings and are never shown.

Codes: https://kafka.apache.org/protocol.html#protocol_error_codes, and librdkafka's own below zero
(https://github.com/confluentinc/librdkafka/blob/master/src/rdkafka.h), 2026-11.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


class FencedError(RetriableError):
    """Another producer took the transactional id, or the broker ended an old transaction."""


class UnknownTopicError(ConfigError):
    """A topic or partition does not exist or is hidden from the user."""


class ExistsError(ConfigError):
    """The topic to be created exists."""


class DeniedError(ConfigError):
    """An ACL denies the operation."""


class RefusedRecordError(DataError):
    """The broker or client refused a record: too large, or not accepted by the topic."""


_FENCED_CODES = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
_RECORD_CODES = {
    "MSG_SIZE_TOO_LARGE", "INVALID_MSG_SIZE", "INVALID_MSG", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD",
    "INVALID_TIMESTAMP",
}  # fmt: skip
_TIMEOUT_CODES = {
    "_TIMED_OUT",
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_TIMED_OUT_QUEUE",
    "_MSG_TIMED_OUT",
    "_WAIT_COORD",
    "_SSL",
}
# Texts of lasting errors in librdkafka 2.16 and OpenSSL 3. Other errors pass: a broker that disappears during a
# handshake is a TLS error too, and a token server that does not answer is a failed sign-in.
_LASTING_TLS_ERROR = re.compile(
    r"certificate verify failed|\balert (?:bad|unknown|unsupported|certificate|handshake|no)\b"
)
_FRESH_SECONDS = 30.0
_SINGLE_BROKER_CODES = {
    "_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE", "_SSL",
}  # fmt: skip
"""Errors of the connection to one broker, which may pass while other brokers answer."""
_ACQUIRE_FAILED_TEXT = "Failed to acquire SASL OAUTHBEARER token"
_NO_SIGN_IN_TEXT = "Request not valid in current SASL state"
"""librdkafka's text for a listener without sign-in."""
_LASTING_TOKEN_ERROR = re.compile(
    r"invalid_client|invalid_grant|invalid_scope|unauthorized_client|access_denied|invalid_request"
)

_ADVICE: dict[type[ConnectError], dict[str, str]] = {
    ConfigError: {
        "_AUTHENTICATION": "the cluster refuses the credentials: correct login and password (sasl.username, "
        "sasl.password) or sasl.mechanism in the connection",
        "_AUTHENTICATION (token refused)": "the token server refuses the client: correct sasl.oauthbearer.client.id, "
        "its secret or its scope in the connection",
        "UNSUPPORTED_SASL_MECHANISM": "the cluster has no such sasl.mechanism: correct it in the connection",
        "ILLEGAL_SASL_STATE": "the listener has no sign-in: set security.protocol to PLAINTEXT (SSL with TLS) in the "
        "connection, or name another port",
        "_SSL": "TLS failed: correct security.protocol, the port, ssl.ca.location or ssl.ca.pem, or the client's "
        "certificate in the connection",
        "INVALID_TRANSACTION_TIMEOUT": "lower transaction_timeout_seconds, or raise the broker's "
        "transaction.max.timeout.ms",
        "INVALID_REPLICATION_FACTOR": "the cluster has fewer brokers: lower replication_factor",
        "INVALID_PARTITIONS": "correct partitions",
        "INVALID_CONFIG": "the cluster refuses a setting of the topic: correct topic_config",
        "POLICY_VIOLATION": "a policy of the cluster forbids it: correct the topic's settings",
        "TOPIC_EXCEPTION": "its name is illegal, or differs from an existing topic's only in '.' and '_'",
        "_INVALID_ARG": "correct the setting",
        "UNSUPPORTED_VERSION": "the cluster's version does not support it",
        "UNSUPPORTED_COMPRESSION_TYPE": "the topic or the cluster refuses this compression: correct "
        "compression.type in the connection",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT": "the topic's message.format.version is too old",
        "SECURITY_DISABLED": "the cluster has no authorizer",
        "OFFSET_OUT_OF_RANGE": "its oldest records were deleted: set cleanup.policy=compact alone, and publish into a "
        "new "
        "topic",
    },
    DeniedError: {
        "TOPIC_AUTHORIZATION_FAILED": "give the connection's user the right on the topic",
        "GROUP_AUTHORIZATION_FAILED": "give the user READ on the group, or set group.id in the connection",
        "CLUSTER_AUTHORIZATION_FAILED": "give the connection's user the right on the cluster",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "give the connection's user WRITE and DESCRIBE on transactional ids "
        "that begin with 'connect-'",
    },
    UnknownTopicError: {
        "UNKNOWN_TOPIC_OR_PART": "create the topic, correct its name, or use create_disposition='if_needed'",
    },
    ExistsError: {"TOPIC_ALREADY_EXISTS": "it exists"},
    RetriableError: {
        "_AUTHENTICATION (no token)": "the token server returns no token: if this persists, check "
        "sasl.oauthbearer.token.endpoint.url in the connection",
        "KAFKA_STORAGE_ERROR": "a broker cannot write to its disk: check whether it is full",
        "_RESOLVE": "a host name cannot be resolved: check bootstrap.servers and the brokers' own names",
    },
}
_SAME_ADVICE = {
    "SASL_AUTHENTICATION_FAILED": "_AUTHENTICATION",
    "_UNKNOWN_TOPIC": "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    "_UNSUPPORTED_FEATURE": "UNSUPPORTED_VERSION",
    "_AUTO_OFFSET_RESET": "OFFSET_OUT_OF_RANGE",
}
"""Codes with the advice of another code."""
_BY_NAME = {name: (kind, advice) for kind, advice_by_code in _ADVICE.items() for name, advice in advice_by_code.items()}
_BY_NAME |= {name: _BY_NAME[advised_code] for name, advised_code in _SAME_ADVICE.items()}
_DEFAULT_ADVICE = (RetriableError, "it is expected to pass")
_NO_ANSWER_ADVICE = (
    RetriableError,
    "no broker answers: if this persists, check bootstrap.servers, its port, security.protocol and the brokers' own "
    "names",
)
_BY_NAME |= dict.fromkeys(_TIMEOUT_CODES - {"_SSL"}, _NO_ANSWER_ADVICE)


@dataclass
class ClientErrors:
    """Errors that a client reports outside of calls: the reasons behind timeouts.

    librdkafka retries a refused sign-in at least every ten seconds without end, so the call only times out. An error
    counts for 30 seconds. A single broker's refusal does not count while other brokers answer.

    :param heard_at: :func:`time.monotonic` of each code's last report.
    """

    heard_at: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def record(self, error: KafkaError) -> None:
        """Record an error, as the client's ``error_cb``."""
        with self._lock:
            self.heard_at[_code_of(error)] = time.monotonic()

    def poll(self, client: Any) -> None:
        """Collect a client's pending reports, which are not delivered while a call waits."""
        from confluent_kafka import KafkaException

        try:
            client.poll(0)
        except KafkaException as error:  # a fatal error is raised here, not reported
            self.record(error.args[0])

    def note_answer(self, client: Any) -> None:
        """Note that a broker has answered."""
        self.poll(client)
        with self._lock:
            self.heard_at.pop("_ALL_BROKERS_DOWN", None)

    def lasting_code(self) -> str | None:
        """Return a recent code that explains a timeout and that waiting does not cure, or None."""
        oldest_time = time.monotonic() - _FRESH_SECONDS
        with self._lock:
            fresh = [name for name, recorded_at in self.heard_at.items() if recorded_at > oldest_time]
            # Reported once when the last broker goes down, so it ends with a response, not by age.
            others_answer = "_ALL_BROKERS_DOWN" not in self.heard_at
        if others_answer:
            fresh = [name for name in fresh if name not in _SINGLE_BROKER_CODES]
        return next((name for name in fresh if issubclass(_BY_NAME.get(name, _DEFAULT_ADVICE)[0], ConfigError)), None)

    def unresolved_error(self, action: str) -> ConnectError | None:
        """Return the error if all brokers are down and a host name cannot be resolved."""
        with self._lock:
            is_unresolved = {"_RESOLVE", "_ALL_BROKERS_DOWN"} <= self.heard_at.keys()
        return _error_for("_RESOLVE", action) if is_unresolved else None

    def lasting_error(self, action: str) -> ConnectError | None:
        """Return the error for :meth:`lasting_code`."""
        code = self.lasting_code()
        return _error_for(code, action) if code is not None else None


def _code_of(error: KafkaError) -> str:
    """Return the error's code. For three codes, the text decides."""
    name, text = str(error.name()), str(error.str())
    if name in ("_SSL", "_TRANSPORT"):
        return "_SSL" if _LASTING_TLS_ERROR.search(text) else "_TRANSPORT"
    if name == "_AUTHENTICATION" and _NO_SIGN_IN_TEXT in text:
        return "ILLEGAL_SASL_STATE"
    if name == "_AUTHENTICATION" and text.startswith(_ACQUIRE_FAILED_TEXT):
        return "_AUTHENTICATION (token refused)" if _LASTING_TOKEN_ERROR.search(text) else "_AUTHENTICATION (no token)"
    return name


def is_fenced(error: BaseException) -> bool:
    """Return True for a :class:`FencedError`, also as Kafka's own error.

    The broker does not distinguish its two cases (measured on 4.3). The ledger does.
    """
    kafka_error = kafka_error_of(error)
    return isinstance(error, FencedError) or (kafka_error is not None and kafka_error.name() in _FENCED_CODES)


def kafka_error_of(error: BaseException) -> KafkaError | None:
    """Return the KafkaError inside an exception."""
    from confluent_kafka import KafkaError, KafkaException

    if isinstance(error, KafkaException) and error.args:
        error = error.args[0]
    return error if isinstance(error, KafkaError) else None


def classify(error: BaseException, action: str, client_errors: ClientErrors | None = None) -> ConnectError:
    """Convert an error of confluent-kafka to a ConnectError.

    :param action: for the message: "committing 2024-01-01 into topic 'x'".
    :param client_errors: the client's reports, which may explain a timeout.
    """
    if isinstance(error, ConnectError):
        return error
    if isinstance(error, TimeoutError):
        return RetriableError(f"{action}: no answer in time: {_NO_ANSWER_ADVICE[1]}")
    kafka_error = kafka_error_of(error)
    if kafka_error is None:
        return ConnectError(f"{action}: unexpected {type(error).__name__}")
    name = _code_of(kafka_error)
    cause = client_errors.lasting_error(action) if client_errors is not None and name in _TIMEOUT_CODES else None
    return cause or _error_for(name, action)


def _error_for(name: str, action: str) -> ConnectError:
    if name in _FENCED_CODES:
        return FencedError(
            f"{action}: Kafka returned {name}: another run took over this transaction, or the broker ended it because "
            "of its age"
        )
    if name in _RECORD_CODES:
        return RefusedRecordError(
            f"{action}: Kafka returned {name}: a record is too large, or the topic does not accept it"
        )
    error_type, advice = _BY_NAME.get(name, _DEFAULT_ADVICE)
    return error_type(f"{action}: Kafka returned {name}: {advice}")


@contextmanager
def translate_kafka_errors(action: str, client_errors: ClientErrors | None = None) -> Iterator[None]:
    """Convert errors of confluent-kafka that the block raises."""
    from confluent_kafka import KafkaException

    try:
        yield
    except (KafkaException, TimeoutError) as error:
        raise classify(error, action, client_errors) from None
