"""Who and where the cluster is: Airflow's own ``kafka`` connection, read into librdkafka's settings and clients.

The extra holds librdkafka's settings as ``apache-airflow-providers-apache-kafka`` keeps them (``KafkaBaseHook``,
2026-11; https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md). Host and port stand in for
``bootstrap.servers``, login and password for ``sasl.username`` and ``sasl.password`` where the extra has none.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._kafka_errors import Heard, kafka_errors
from airflow_provider_connect.sinks._kafka_settings import ALIASES, CONSUMER_ONLY, nearest, problems, refused

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

GROUP = "airflow-connect"
"""Name that the reader of the ledger gives itself; it joins no group and commits no offset."""

_SECRET_NAME = re.compile(r"password|secret|passphrase|key\.pem|_key_pem|oauthbearer\.config$|token$")
_TOKEN = re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]+)*|(?i:\b(?:bearer|basic)\s+\S+)|auth=Bearer\s*\S+")
_MIN_LINE = 8  # of a PEM text: shorter lines are its padding
_LOG = logging.getLogger("airflow_provider_connect.sinks.kafka")


def settings(connection: Connection) -> dict[str, str]:
    """Return the connection as librdkafka's settings, by their current names, without those of consumers.

    :raises ConfigError: a setting is neither text, number nor boolean, or is given twice under two names.
    """
    found: dict[str, str] = {}
    for written, value in connection.extra.items():
        if value is None or value == "":
            continue
        name, text = ALIASES.get(written, written), _text(connection, written, value)
        if found.setdefault(name, text) != text:
            raise ConfigError(
                f"connection {connection.conn_id!r}: {name!r} is there twice, as {written!r} too: give one of them"
            )
    standing_in = {
        "bootstrap.servers": _servers(connection),
        "sasl.username": connection.login.get_secret_value() if connection.login else None,
        "sasl.password": connection.password.get_secret_value() if connection.password else None,
    }
    if found.get("sasl.mechanism") == "OAUTHBEARER":
        standing_in = {
            "bootstrap.servers": standing_in["bootstrap.servers"],
            "sasl.oauthbearer.client.id": standing_in["sasl.username"],
            "sasl.oauthbearer.client.secret": standing_in["sasl.password"],
        }
    found.update({name: value for name, value in standing_in.items() if value and name not in found})
    return {name: value for name, value in found.items() if name not in CONSUMER_ONLY}


def _text(connection: Connection, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ConfigError(f"connection {connection.conn_id!r}: extra field {name!r} must be text, a number or a boolean")


def _servers(connection: Connection) -> str | None:
    """Return the host field, which may list several, with the port where a host has none of its own."""
    if not connection.host:
        return None
    port = f":{connection.port}" if connection.port else ""
    hosts = [host.strip() for host in connection.host.split(",") if host.strip()]
    return ",".join(host if re.search(r":\d+$", host) else f"{host}{port}" for host in hosts)


def secrets(connection: Connection) -> frozenset[str]:
    """Return every text that must never be shown, also as it stands in a header, a URL or a line of a PEM text."""
    given = {str(value) for name, value in connection.extra.items() if value and _SECRET_NAME.search(name)}
    if connection.password:
        given.add(connection.password.get_secret_value())
    user = connection.login.get_secret_value() if connection.login else ""
    users = {user, *(str(connection.extra.get(name, "")) for name in ("sasl.username", "sasl.oauthbearer.client.id"))}
    shown: set[str] = set()
    for secret in given:
        lines = {line.strip() for line in re.split(r"\\n|\n", secret) if len(line.strip()) >= _MIN_LINE}
        pairs = {base64.b64encode(f"{name}:{secret}".encode()).decode() for name in users}
        escaped = {quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]}
        shown |= {secret, base64.b64encode(secret.encode()).decode()} | lines | pairs | escaped
    return frozenset(text for text in shown if text)


@dataclass(frozen=True)
class SecretFreeLog:
    """What librdkafka gets as its logger: its lines without the connection's secrets, and never louder than a warning.

    What an error means is decided by whoever made the call, not by the library's log. A client that tries again for
    ever says the same for ever: a line that differs in numbers alone is written once.
    """

    hidden: frozenset[str] = field(repr=False)
    _said: set[str] = field(default_factory=set, repr=False)

    def redacted(self, text: str) -> str:
        """Return ``text`` with every secret, and whatever looks like a token, replaced."""
        for secret in sorted(self.hidden, key=len, reverse=True):
            text = text.replace(secret, "…")
        return _TOKEN.sub("…", text)

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Write one line; librdkafka calls this with its facility, the client's name and the text."""
        line = self.redacted(message % arguments if arguments else message)
        gist = re.sub(r"\d+", "", line)
        if level > logging.DEBUG and gist in self._said:
            return
        self._said.add(gist)
        _LOG.log(min(level, logging.WARNING), "%s", line)


def check_connection(connection: Connection, delivery: str) -> list[str]:
    """Say what is wrong with a connection as far as it can be told without the network; an empty list if nothing.

    :param delivery: the sink's; ``at_least_once`` needs an idempotent producer as well.
    """
    where = f"connection {connection.conn_id!r}"
    try:
        conf = settings(connection)
        library = _library()
    except ConfigError as error:
        return [str(error)]
    not_allowed = refused(conf)
    found = [f"{name}: {why} (delivery={delivery!r})" for name, why in sorted(not_allowed.items())]
    found += problems(conf)
    rest = {name: value for name, value in conf.items() if name not in not_allowed}
    return [f"{where}: {text}" for text in [*found, *_verdict(library, connection, rest, known=bool(found))]]


_UNKNOWN = re.compile(r'No such configuration property: "(?P<name>[^"]*)"')
_INVALID = re.compile(r'for configuration property "(?P<name>[^"]*)"')


def _verdict(library: Any, connection: Connection, conf: dict[str, str], *, known: bool) -> list[str]:
    """Ask librdkafka itself, without telling it where the cluster is, until it has nothing more to say.

    :param known: something is wrong already: a client that cannot be made for it says nothing new.
    """
    found: list[str] = []
    rest = {name: value for name, value in conf.items() if name != "bootstrap.servers"}
    if rest.get("sasl.mechanism") == "OAUTHBEARER":
        # Else the client asks for a token at once.
        rest["security.protocol"] = rest.get("security.protocol", "").lower().replace("sasl_", "")
    log = SecretFreeLog(secrets(connection))
    while True:
        try:
            library.Producer(rest | {"enable.idempotence": True, "log_level": 0}, logger=log)
        except library.KafkaException as error:
            text = str(error.args[0].str())
        except (TypeError, ValueError, AttributeError):
            return [*found, "a setting is of the wrong kind: all must be text, numbers or booleans"]
        else:
            return found
        unknown, invalid = _UNKNOWN.search(text), _INVALID.search(text)
        name = (unknown or invalid or {"name": None})["name"]
        given = next((one for one in rest if name in (one, *(old for old, new in ALIASES.items() if new == one))), None)
        if given is None:
            return found if known or found else [log.redacted(text)]
        del rest[given]
        found.append(
            f"{given}: no such setting; {nearest(given)}" if unknown else f"{given}: librdkafka refuses its value"
        )


def _conf(connection: Connection, heard: Heard | None, own: dict[str, Any]) -> dict[str, Any]:
    given = settings(connection)
    if not given.get("bootstrap.servers"):
        raise ConfigError(f"connection {connection.conn_id!r}: no bootstrap.servers in the extra, and no host")
    unless_given = {
        "client.id": "airflow-provider-connect",
        # Lines below errors say nothing that the call's own error does not; debug= raises this by itself.
        "log_level": 3,
    }
    ours = {
        "statistics.interval.ms": 0,
        "error_cb": (heard or Heard()).hear,
    }
    return unless_given | given | {ALIASES.get(name, name): value for name, value in own.items()} | ours


def producer(connection: Connection, heard: Heard | None = None, /, **own: Any) -> Producer:
    """Make an idempotent producer.

    :param heard: collects what the client hears beside its calls' own errors.
    :param own: settings that win over the connection's: ``**{"transactional.id": …}``.
    :raises ConfigError: librdkafka refuses a setting.
    """
    confluent = _library()
    conf = _conf(
        connection, heard, {"enable.idempotence": True, "acks": "all", "allow.auto.create.topics": False} | own
    )
    with kafka_errors(f"connection {connection.conn_id!r}"):
        made: Producer = confluent.Producer(conf, logger=SecretFreeLog(secrets(connection)))
    return made


def consumer(connection: Connection, heard: Heard | None = None, /, **own: Any) -> Consumer:
    """Make a consumer that reads what is committed, from offsets that it is given, and leaves no trace.

    :raises ConfigError: librdkafka refuses a setting.
    """
    confluent = _library()
    defaults = {
        "group.id": str(connection.extra.get("group.id") or GROUP),
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
    }
    conf = _conf(connection, heard, defaults | own)
    with kafka_errors(f"connection {connection.conn_id!r}"):
        made: Consumer = confluent.Consumer(conf, logger=SecretFreeLog(secrets(connection)))
    return made


def admin(connection: Connection, heard: Heard | None = None, /, **own: Any) -> AdminClient:
    """Make a client for topics and their settings.

    :raises ConfigError: librdkafka refuses a setting.
    """
    _library()
    from confluent_kafka.admin import AdminClient

    with kafka_errors(f"connection {connection.conn_id!r}"):
        return AdminClient(_conf(connection, heard, own), logger=SecretFreeLog(secrets(connection)))


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise ConfigError(
            "the Kafka sink needs confluent-kafka: pip install 'airflow-provider-connect[kafka]' where this task runs"
        ) from None
    return confluent_kafka
