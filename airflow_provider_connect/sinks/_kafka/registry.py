"""The Schema Registry: asked by the driver, before the first record, for the id that stands before every value.

Any server with Confluent's API (https://docs.confluent.io/platform/current/schema-registry/develop/api.html, 2026-11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from airflow_provider_connect.values.avro import schema as _kafka_avro_schema
from airflow_provider_connect.values.encoded import Kind, SchemaRef
from airflow_provider_connect.values.json import schema as _kafka_json_schema
from airflow_provider_connect.values.protobuf import schema as _kafka_protobuf_schema
from airflow_provider_connect.values.protobuf.numbers import numbered

Strategy = Literal["topic", "record", "topic_record"]
Registration = Literal["auto_register", "use_latest"]

_SETTINGS = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "proxy",
)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MAX_REASON = 500
_MISFITS: dict[Kind, Callable[[str, str], list[str]]] = {
    "AVRO": _kafka_avro_schema.misfits,
    "JSON": _kafka_json_schema.misfits,
    "PROTOBUF": _kafka_protobuf_schema.misfits,
}


def subject(strategy: Strategy, topic: str, record_name: str) -> str:
    """Return the name under which a topic's value schema is registered, by Confluent's strategies."""
    if strategy == "topic":
        return f"{topic}-value"
    return record_name if strategy == "record" else f"{topic}-{record_name}"


def key_subject(topic: str) -> str:
    """Return the name under which the schema of a topic's keys is registered."""
    return f"{topic}-key"


def url(connection: Connection) -> str:
    """Return the registry's address: the connection's host, which may be a whole URL, with its port.

    :raises ConfigError: it is no http or https URL, or has a password in it.
    """
    host = connection.host or ""
    whole = host if "://" in host else f"{connection.path or 'http'}://{host}"
    where = f"connection {connection.conn_id!r}"
    try:
        parts = urlsplit(whole)
        port = parts.port or connection.port
    except ValueError:
        raise ConfigError(f"{where}: its host is no URL of a schema registry") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "," in host:
        raise ConfigError(f"{where}: its host must be the http(s) URL of one schema registry")
    if parts.username or parts.password:
        raise ConfigError(f"{where}: its host has a user in the URL; use the fields login and password")
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path}".rstrip("/")


def check_connection(connection: Connection) -> list[str]:
    """Say what is wrong with a connection to a registry as far as it can be told without the network."""
    where = f"connection {connection.conn_id!r}"
    found = [
        f"{where}: extra field {name!r} is not known; a schema registry's are {', '.join(_SETTINGS)}"
        for name in connection.extra
        if name not in _SETTINGS
    ]
    if (connection.login is None) != (connection.password is None):
        found.append(f"{where}: login and password go together: give both or none")
    try:
        parts = urlsplit(url(connection))
    except ConfigError as error:
        return [*found, str(error)]
    if connection.login is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        found.append(f"{where}: its password would go over the network in the clear; use an https URL")
    return found


class Registry:
    """One registry, over Confluent's own client.

    :param timeout_seconds: for one request; it is tried three times.
    :raises ConfigError: the connection is wrong, or Confluent's client is missing.
    """

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        problems = check_connection(connection)
        if problems:
            raise ConfigError("; ".join(problems))
        self.conn_id = connection.conn_id
        self.url = url(connection)
        self._client = _client(connection, self.url, timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()

    def resolve(self, subject: str, document: str, kind: Kind, registration: Registration) -> SchemaRef:
        """Return the schema's id; with ``auto_register`` a compatible schema is registered if it is new.

        With ``use_latest`` nothing is registered: values will be written by the subject's newest version.

        :raises DataError: the schema is incompatible with what the subject has; naming the fields.
        :raises ConfigError: access is denied, or there is no schema to use.
        :raises RetriableError: the registry is away.
        """
        if registration == "use_latest":
            return self._latest(subject, document, kind)
        return self._registered(subject, document, kind)

    def problems(self, subject: str, document: str, kind: Kind, registration: Registration) -> list[str]:
        """Say why :meth:`resolve` would fail for a person to mend; [] when it would not. Registers nothing.

        :raises RetriableError: the registry is away.
        """
        try:
            if registration == "use_latest":
                self._latest(subject, document, kind)
            else:
                self._compatible(subject, self._continued(subject, document, kind), kind)
        except (ConfigError, DataError) as error:
            return [str(error)]
        return []

    def pinned(self, subject: str, document: str, kind: Kind, registration: Registration) -> SchemaRef:
        """Return the oldest of the subject's schemas that holds our keys: whatever is registered later, it stays.

        A key is its bytes, and the schema's id is among them: by another schema it would be another key.

        :raises DataError: the subject has schemas, and none holds the keys.
        :raises ConfigError: access is denied, or there is no schema to use.
        :raises RetriableError: the registry is away.
        """
        found = self._oldest(subject, document, kind, registration)
        if found is None:
            doing = f"registering subject {subject!r}"
            self._call(doing, self._client.register_schema, subject, _schema(document, kind))
            found = self._oldest(subject, document, kind, registration)  # another run may have been faster
        if found is None:
            raise RetriableError(f"subject {subject!r}: the schema was registered, but is not shown yet; try again")
        return found

    def pinned_problems(self, subject: str, document: str, kind: Kind, registration: Registration) -> list[str]:
        """Say why :meth:`pinned` would fail for a person to mend; [] when it would not. Registers nothing.

        :raises RetriableError: the registry is away.
        """
        try:
            self._oldest(subject, document, kind, registration)
        except (ConfigError, DataError) as error:
            return [str(error)]
        return []

    def _oldest(self, subject: str, document: str, kind: Kind, registration: Registration) -> SchemaRef | None:
        doing = f"reading the versions of subject {subject!r}"
        why: list[str] = []
        for version in sorted(self._found(doing, self._client.get_versions, subject) or ()):
            found = self._found(doing, self._client.get_version, subject, version)
            why = self._unfit(found, document, kind)
            if not why:
                text = found.schema.schema_str
                return SchemaRef(subject, found.schema_id, version, text if text != document else None)
        if why:
            raise DataError(
                f"subject {subject!r}: no version holds the keys; the newest: {'; '.join(why)}. By another schema a "
                "row would get another key: set key_fields back, or publish into another topic"
            )
        if registration == "use_latest":
            raise self._without_schema(subject)
        return None

    def _unfit(self, found: Any, document: str, kind: Kind) -> list[str]:
        if found is None or _kind(found) != kind:
            return [f"its schema is {_kind(found) or 'gone'}, the key_converter's is {kind}"]
        if found.schema.references:
            return ["its schema refers to others, which is not supported"]
        return _MISFITS[kind](document, found.schema.schema_str)

    def _without_schema(self, subject: str) -> ConfigError:
        return ConfigError(
            f"subject {subject!r} has no schema; register one, or set schema_registration='auto_register'"
        )

    def _registered(self, subject: str, first: str, kind: Kind) -> SchemaRef:
        document = self._continued(subject, first, kind)
        known = self._lookup(subject, document, kind)
        if known is None:
            self._compatible(subject, document, kind)
            doing = f"registering subject {subject!r}"
            try:
                self._call(doing, self._client.register_schema, subject, _schema(document, kind))
            except _ConflictError:
                raise self._incompatible(subject, document, kind) from None
            known = self._lookup(subject, document, kind)
        if known is None:
            raise RetriableError(f"subject {subject!r}: the schema was registered, but is not shown yet; try again")
        return SchemaRef(subject, known.schema_id, known.version, document if document != first else None)

    def _continued(self, subject: str, document: str, kind: Kind) -> str:
        """Return a schema as it goes on from what the subject has: fields of Protobuf keep their numbers."""
        if kind != "PROTOBUF":
            return document
        return numbered(document, self._texts(subject, kind))

    def _texts(self, subject: str, kind: Kind) -> Iterator[str]:
        """Yield the subject's schemas of a kind, the newest first; each is asked for when it is wanted."""
        newest = self._newest(subject)
        if newest is None:
            return
        if _kind(newest) == kind:
            yield newest.schema.schema_str
        doing = f"reading the versions of subject {subject!r}"
        versions: list[int] = self._found(doing, self._client.get_versions, subject) or []
        for version in sorted((number for number in versions if number < newest.version), reverse=True):
            found = self._found(doing, self._client.get_version, subject, version)
            if _kind(found) == kind:
                yield found.schema.schema_str

    def _lookup(self, subject: str, document: str, kind: Kind) -> Any:
        doing = f"looking for the schema of subject {subject!r}"
        return self._found(doing, self._client.lookup_schema, subject, _schema(document, kind))

    def _compatible(self, subject: str, document: str, kind: Kind) -> None:
        """Pass when the schema may be registered under the subject's own rule.

        :raises DataError: it may not.
        """
        doing = f"asking whether the schema of subject {subject!r} is compatible"
        answer = self._found(doing, self._client.test_compatibility_all_versions, subject, _schema(document, kind))
        if answer is False:
            raise self._incompatible(subject, document, kind)

    def _incompatible(self, subject: str, document: str, kind: Kind) -> DataError:
        latest = self._newest(subject)
        differ = _MISFITS[kind](document, latest.schema.schema_str) if _kind(latest) == kind else []
        why = "; ".join(differ) or f"what differs is not in its newest version, or is no {kind} schema"
        return DataError(
            f"subject {subject!r}: the registry finds the source's schema incompatible: {why}. Change the subject's "
            "compatibility rule, or write to another topic"
        )

    def _latest(self, subject: str, document: str, kind: Kind) -> SchemaRef:
        latest = self._newest(subject)
        if latest is None:
            raise self._without_schema(subject)
        if _kind(latest) != kind:
            raise DataError(f"subject {subject!r}: its schema is {_kind(latest)}, the converter's is {kind}")
        text = latest.schema.schema_str
        if latest.schema.references:
            raise DataError(f"subject {subject!r}: its schema refers to others, which is not supported")
        differ = _MISFITS[kind](document, text)
        if differ:
            raise DataError(f"subject {subject!r}, version {latest.version}: cannot hold the rows: {'; '.join(differ)}")
        return SchemaRef(subject, latest.schema_id, latest.version, text if text != document else None)

    def _newest(self, subject: str) -> Any:
        self._client.clear_latest_caches()
        return self._found(f"reading subject {subject!r}", self._client.get_latest_version, subject)

    def _found(self, doing: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a call returns, None where there is no such subject or schema."""
        try:
            return self._call(doing, function, *args)
        except _MissingError:
            return None

    def _call(self, doing: str, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:  # noqa: BLE001 - whatever the client raises is classified
            raise self._classified(error, doing) from None

    def _classified(self, error: Exception, doing: str) -> ConnectError:
        where = f"{doing} at {self.url} (connection {self.conn_id!r})"
        status = getattr(error, "http_status_code", None)
        if status is None:
            return _without_answer(error, where)
        if status in (401, 403):
            return ConfigError(f"{where}: access denied ({status}); check login, password and the user's rights")
        if status in (408, 429) or status >= 500:
            return RetriableError(f"{where}: the registry answered {status}")
        reason = str(getattr(error, "error_message", ""))[:_MAX_REASON]
        if status == 404:
            code = str(getattr(error, "error_code", ""))
            if code.startswith("404"):
                return _MissingError(f"{where}: {reason}")
            return ConfigError(f"{where}: there is no schema registry under this address")
        return (_ConflictError if status == 409 else DataError)(f"{where}: the registry answered {status}: {reason}")


class _MissingError(ConnectError):
    """There is no such subject, version or schema."""


class _ConflictError(DataError):
    """The registry refuses a schema as incompatible."""


def _without_answer(error: Exception, where: str) -> ConnectError:
    text, name = str(error), type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify failed" in text:
        return ConfigError(f"{where}: its certificate is not trusted; set ssl.ca.location in the connection's extra")
    if "WRONG_VERSION_NUMBER" in text:
        return ConfigError(f"{where}: this port speaks no TLS; use an http URL, or the port of https")
    if isinstance(error, (TypeError, AttributeError, KeyError, ValueError)):
        return ConfigError(f"{where}: what answers is no schema registry ({name})")
    return RetriableError(f"{where}: no answer ({name})")


def _kind(found: Any) -> str:
    return found.schema.schema_type or "AVRO" if found is not None else ""


def _schema(document: str, kind: Kind) -> Any:
    from confluent_kafka.schema_registry import Schema

    return Schema(document, kind)


def _client(connection: Connection, address: str, timeout_seconds: float) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is missing: install airflow-provider-connect[registry] where the task runs"
        ) from None
    settings: dict[str, Any] = {
        "url": address,
        "timeout": timeout_seconds,
        "max.retries": 2,
        "retries.wait.ms": 200,
        "retries.max.wait.ms": 2000,
        **{name: value for name, value in connection.extra.items() if value not in (None, "")},
    }
    if connection.login and connection.password:
        user, password = connection.login.get_secret_value(), connection.password.get_secret_value()
        settings["basic.auth.user.info"] = f"{user}:{password}"
    try:
        return SchemaRegistryClient(settings)
    except (OSError, ValueError) as error:  # files of certificates that do not exist, or are none
        raise ConfigError(
            f"connection {connection.conn_id!r}: the schema registry's client refuses its settings "
            f"({type(error).__name__}); check the files it names"
        ) from None
