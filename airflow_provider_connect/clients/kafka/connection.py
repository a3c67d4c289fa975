"""Converts Airflow's ``kafka`` connection to librdkafka settings and creates clients.

The extra holds librdkafka's settings, as ``apache-airflow-providers-apache-kafka`` stores them (``KafkaBaseHook``,
2026-11; https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md). Host, port, login and password fill
in missing settings.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, quote_plus

from pydantic import SecretStr

from airflow_provider_connect.clients.kafka.errors import ClientErrors, kafka_error_of
from airflow_provider_connect.clients.kafka.settings import (
    ALIASES,
    CONSUMER_ONLY,
    forbidden_settings,
    security_problems,
    suggest_name,
    word_setting,
)
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.secrets import is_secret_name, redact_tokens

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient


T = TypeVar("T")
_DEFAULTS: dict[str, Any] = {
    "client.id": "airflow-provider-connect",
    # Lower levels repeat errors that the call raises. debug= raises the level by itself.
    "log_level": 3,
}
GROUP_ID = "airflow-connect"
"""Default group id of readers, which join no group and commit no offset."""
REGISTRY_PREFIX = "schema.registry."
"""Begins the extra's fields of the schema registry, from which a source reads schemas."""
_MIN_LINE = 8  # shorter lines of a PEM text are padding
_LOG = logging.getLogger("airflow_provider_connect.sinks.kafka")


def broker_namespace(connection: Connection) -> str:
    """Return the namespace of a cluster in lineage: its first bootstrap server."""
    servers = librdkafka_settings(connection).get("bootstrap.servers", "")
    host = servers.split(",")[0].strip().rpartition("/")[2]
    return f"kafka://{host if ':' in host else f'{host}:9092'}"


def registry_connection(connection: Connection) -> Connection:
    """Return the connection of the schema registry that a Kafka connection's extra names.

    Its fields are ``schema.registry.url``, ``.login``, ``.password``, and the settings of
    :mod:`~airflow_provider_connect.clients.kafka.registry`, such as ``schema.registry.ssl.ca.location``.

    :raises ConfigError: the extra names none.
    """
    fields = {
        name.removeprefix(REGISTRY_PREFIX): _setting_text(connection, name, value)
        for name, value in connection.extra.items()
        if name.startswith(REGISTRY_PREFIX) and value not in (None, "")
    }
    url = fields.pop("url", None)
    if url is None:
        raise ConfigError(
            f"connection {connection.conn_id!r}: converters 'avro' and 'protobuf' need schema.registry.url in the extra"
        )
    login, password = (SecretStr(fields.pop(name)) if name in fields else None for name in ("login", "password"))
    return Connection(
        conn_id=connection.conn_id, conn_type="http", host=url, login=login, password=password, extra=fields
    )


def librdkafka_settings(connection: Connection) -> dict[str, str]:
    """Return the connection's settings under librdkafka's current names, without those of consumers and the registry.

    :raises ConfigError: a setting is neither text, number nor boolean, or is set under two names.
    """
    conf: dict[str, str] = {}
    for extra_name, value in connection.extra.items():
        if value is None or value == "" or extra_name.startswith(REGISTRY_PREFIX):
            continue
        name, text = ALIASES.get(extra_name, extra_name), _setting_text(connection, extra_name, value)
        if conf.setdefault(name, text) != text:
            raise ConfigError(
                f"connection {connection.conn_id!r}: {name!r} is set twice, also as {extra_name!r}. Keep one of the two"
            )
    user, secret = "sasl.username", "sasl.password"
    if conf.get("sasl.mechanism") == "OAUTHBEARER":
        user, secret = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"
    field_settings = {
        "bootstrap.servers": _host_servers(connection),
        user: connection.login.get_secret_value() if connection.login else None,
        secret: connection.password.get_secret_value() if connection.password else None,
    }
    conf = {name: value for name, value in field_settings.items() if value} | conf
    return {name: value for name, value in conf.items() if name not in CONSUMER_ONLY}


def _setting_text(connection: Connection, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ConfigError(f"connection {connection.conn_id!r}: extra field {name!r} must be text, a number or a boolean")


def _host_servers(connection: Connection) -> str | None:
    if not connection.host:
        return None
    port = f":{connection.port}" if connection.port else ""
    hosts = [host.strip() for host in connection.host.split(",") if host.strip()]
    return ",".join(host if re.search(r":\d+$", host) else f"{host}{port}" for host in hosts)


def check_connection(connection: Connection, delivery: str | None = None) -> list[str]:
    """Validate a connection without network access. Returns the problems found."""
    subject = f"connection {connection.conn_id!r}"
    if type_problems := _type_problems(connection):
        return type_problems
    try:
        conf = librdkafka_settings(connection)
        library = _import_library()
    except ConfigError as error:
        return [str(error)]
    forbidden = forbidden_settings(conf)
    delivery_note = f" (delivery={delivery!r})" if delivery else ""
    complaints = [f"{name}: {reason}{delivery_note}" for name, reason in sorted(forbidden.items())]
    complaints += security_problems(conf)
    allowed = {name: value for name, value in conf.items() if name not in forbidden}
    return [
        f"{subject}: {text}"
        for text in [*complaints, *_check_with_librdkafka(library, connection, allowed, has_problems=bool(complaints))]
    ]


def _type_problems(connection: Connection) -> list[str]:
    problems = []
    for name, value in connection.extra.items():
        try:
            _setting_text(connection, name, "" if value is None else value)
        except ConfigError as error:
            problems.append(str(error))
    return problems


_SETTING = re.compile(r'(?P<unknown>No such )?configuration property:? "(?P<name>[^"]*)"')
"""Matches the setting's name in librdkafka's errors."""


def _check_with_librdkafka(
    library: Any, connection: Connection, conf: dict[str, str], *, has_problems: bool
) -> list[str]:
    """Return a message for each setting that librdkafka refuses. Connects to no broker.

    :param has_problems: drops errors that name no setting.
    """
    complaints: list[str] = []
    candidates = {name: value for name, value in conf.items() if name != "bootstrap.servers"}
    if candidates.get("sasl.mechanism") == "OAUTHBEARER":
        # Otherwise the client would request a token immediately.
        candidates["security.protocol"] = word_setting(candidates, "security.protocol", "").replace("sasl_", "")
    log = SecretFreeLog(secret_texts(connection))
    while True:
        try:
            library.Producer(candidates | {"enable.idempotence": True, "log_level": 0}, logger=log)
        except (library.KafkaException, TypeError, ValueError, AttributeError) as error:
            match, message = _SETTING.search(str(error)), _setting_error(error, log)
        else:
            return complaints
        setting = next(
            (
                candidate
                for candidate in candidates
                if match and candidate in (match["name"], ALIASES.get(match["name"]))
            ),
            None,
        )
        if match is None or setting is None:
            return complaints if has_problems or complaints else [message]
        del candidates[setting]
        reason = f"unknown setting, {suggest_name(setting)}" if match["unknown"] else "librdkafka refuses its value"
        complaints.append(f"{setting}: {reason}")


def _setting_error(error: Exception, log: SecretFreeLog) -> str:
    kafka_error = kafka_error_of(error)
    if kafka_error is None:
        return "a setting has the wrong type. Use text, numbers or booleans"
    match = _SETTING.search(str(error))
    return f"{match['name']}: librdkafka refuses it" if match else log.redact(str(kafka_error.str()))


def _make_client(
    make: Callable[..., T],
    connection: Connection,
    client_errors: ClientErrors | None,
    overrides: dict[str, Any],
    defaults: dict[str, Any] = _DEFAULTS,
) -> T:
    from confluent_kafka import KafkaException

    conf = librdkafka_settings(connection)
    if not conf.get("bootstrap.servers"):
        raise ConfigError(
            f"connection {connection.conn_id!r}: bootstrap.servers is missing. Set it in the extra, or set the host"
        )
    if forbidden := forbidden_settings(conf):  # some of these load code when a client is created
        reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(forbidden.items()))
        raise ConfigError(f"connection {connection.conn_id!r}: {reasons}")
    overrides = {ALIASES.get(name, name): value for name, value in overrides.items()}
    fixed = {"statistics.interval.ms": 0, "error_cb": (client_errors or ClientErrors()).record}
    log = SecretFreeLog(secret_texts(connection))
    try:
        return make(_DEFAULTS | defaults | conf | overrides | fixed, logger=log)
    except (KafkaException, TypeError, ValueError, AttributeError) as error:
        complaints = check_connection(connection) or [
            f"connection {connection.conn_id!r}: {_setting_error(error, log)}"
        ]
        raise ConfigError("; ".join(complaints)) from None


def make_producer(
    connection: Connection,
    client_errors: ClientErrors | None = None,
    defaults: dict[str, Any] = _DEFAULTS,
    /,
    **overrides: Any,
) -> Producer:
    """Create an idempotent producer.

    :param client_errors: collects errors that the client reports outside of calls.
    :param defaults: settings that the connection may override.
    :param overrides: settings that override the connection's.
    :raises ConfigError: librdkafka refuses a setting. The message names it.
    """
    kind: type[Producer] = _import_library().Producer
    required = {"enable.idempotence": True, "acks": "all", "allow.auto.create.topics": False}
    return _make_client(kind, connection, client_errors, required | overrides, defaults)


def make_consumer(connection: Connection, client_errors: ClientErrors | None = None, /, **overrides: Any) -> Consumer:
    """Create a consumer of committed records that commits no offsets."""
    kind: type[Consumer] = _import_library().Consumer
    required = {
        "group.id": str(connection.extra.get("group.id") or GROUP_ID),
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
    }
    return _make_client(kind, connection, client_errors, required | overrides)


def make_admin_client(connection: Connection, client_errors: ClientErrors | None = None) -> AdminClient:
    """Create a client for topics and their settings."""
    _import_library()
    from confluent_kafka.admin import AdminClient

    return _make_client(AdminClient, connection, client_errors, {})


def _import_library() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise ConfigError(
            "Kafka needs confluent-kafka: pip install 'airflow-provider-connect[kafka]' where this task runs"
        ) from None
    return confluent_kafka


def secret_texts(connection: Connection) -> frozenset[str]:
    """Return the connection's secrets, and their forms in headers, URLs and PEM lines."""
    secrets = {str(value) for name, value in connection.extra.items() if value and is_secret_name(name)}
    if connection.password:
        secrets.add(connection.password.get_secret_value())
    user = connection.login.get_secret_value() if connection.login else ""
    users = {user, *(str(connection.extra.get(name, "")) for name in ("sasl.username", "sasl.oauthbearer.client.id"))}
    forms: set[str] = set()
    for secret in secrets:
        lines = {line.strip() for line in re.split(r"\\n|\n", secret) if len(line.strip()) >= _MIN_LINE}
        pairs = {base64.b64encode(f"{name}:{secret}".encode()).decode() for name in users}
        escaped_forms = {quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]}
        forms |= {secret, base64.b64encode(secret.encode()).decode()} | lines | pairs | escaped_forms
    return frozenset(text for text in forms if text)


@dataclass(frozen=True)
class SecretFreeLog:
    """Logger for librdkafka that replaces secrets and logs at most warnings.

    Logs lines that differ only in numbers once, because a client repeats a retry's error without end.
    """

    secrets: frozenset[str] = field(repr=False)
    _logged: set[str] = field(default_factory=set, repr=False)

    def redact(self, text: str) -> str:
        """Replace secrets and token-like texts."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "…")
        return redact_tokens(text)

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Write one line."""
        line = self.redact(message % arguments if arguments else message)
        if level > logging.DEBUG:
            gist = re.sub(r"\d+", "", line)
            if gist in self._logged:
                return
            self._logged.add(gist)
        _LOG.log(min(level, logging.WARNING), "%s", line)
