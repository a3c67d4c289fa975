"""Client of a schema registry with Confluent's API.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html (2026-11).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError

_SETTINGS = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "proxy",
)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MAX_REASON = 500


def registry_url(connection: Connection) -> str:
    """Return the registry's URL, made from the connection's host (which may be a URL) and port.

    :raises ConfigError: the host is no http or https URL, or contains credentials.
    """
    host = connection.host or ""
    address = host if "://" in host else f"{connection.path or 'http'}://{host}"
    subject = f"connection {connection.conn_id!r}"
    try:
        parts = urlsplit(address)
        port = parts.port or connection.port
    except ValueError:
        raise ConfigError(f"{subject}: its host is no URL of a schema registry") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "," in host:
        raise ConfigError(f"{subject}: its host must be the http(s) URL of one schema registry")
    if parts.username or parts.password:
        raise ConfigError(f"{subject}: its host contains a user. Use the fields login and password")
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path}".rstrip("/")


def check_connection(connection: Connection) -> list[str]:
    """Validate a registry connection without network access. Returns the problems found."""
    subject = f"connection {connection.conn_id!r}"
    complaints = [
        f"{subject}: extra field {name!r} is unknown. A schema registry's connection accepts {', '.join(_SETTINGS)}"
        for name in connection.extra
        if name not in _SETTINGS
    ]
    if (connection.login is None) != (connection.password is None):
        complaints.append(f"{subject}: login and password belong together. Set both or neither")
    try:
        parts = urlsplit(registry_url(connection))
    except ConfigError as error:
        return [*complaints, str(error)]
    if connection.login is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        complaints.append(f"{subject}: its password would be sent without TLS. Use an https URL")
    return complaints


TextFormat = Literal["serialized"] | None
"""Of a Protobuf schema: a descriptor in base64, or source text."""


class SchemaReference(NamedTuple):
    """Another schema that a schema uses.

    :param name: of the Avro type or the imported file.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class RegisteredSchema:
    """One version of a subject.

    :param kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.
    """

    id: int
    version: int
    document: str
    kind: str
    references: tuple[SchemaReference, ...] = ()

    @property
    def has_references(self) -> bool:
        """True if the document alone is not the whole schema."""
        return bool(self.references)


class RegistryClient:
    """Client of one registry. Each request is tried three times.

    :param timeout_seconds: time limit of one try.
    :raises ConfigError: the connection is wrong, or Confluent's client is missing.
    """

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        if problems := check_connection(connection):
            raise ConfigError("; ".join(problems))
        self.conn_id = connection.conn_id
        self.url = registry_url(connection)
        self._client = _make_client(connection, self.url, timeout_seconds)

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def versions(self, subject: str) -> list[int]:
        """Return the subject's version numbers, oldest first."""
        numbers = self._find(f"reading the versions of subject {subject!r}", self._client.get_versions, subject)
        return sorted(numbers or ())

    def version(self, subject: str, version: int) -> RegisteredSchema | None:
        """Return a version of a subject, or None if deleted."""
        action = f"reading the versions of subject {subject!r}"
        return _to_registered(self._find(action, self._client.get_version, subject, version))

    def referenced(self, reference: SchemaReference, text_format: TextFormat = None) -> RegisteredSchema | None:
        """Return the schema that another one refers to, also if its version is deleted."""
        subject, version = reference.subject, reference.version
        action = f"reading version {version} of subject {subject!r}"
        request = partial(self._client.get_version, deleted=True, fmt=text_format)
        return _to_registered(self._find(action, request, subject, version))

    def newest_version(self, subject: str) -> RegisteredSchema | None:
        """Return the subject's newest version, or None."""
        self._client.clear_latest_caches()
        return _to_registered(self._find(f"reading subject {subject!r}", self._client.get_latest_version, subject))

    def document(self, schema_id: int, text_format: TextFormat = None) -> RegisteredSchema | None:
        """Return the schema with this id, or None. Its version is 0: it may stand in several subjects.

        :param text_format: form of a Protobuf schema. A registry that does not know it returns source text.
        """
        request = partial(self._client.get_schema, fmt=text_format)
        schema = self._find(f"reading schema {schema_id}", request, schema_id)
        return None if schema is None else _to_schema(schema_id, 0, schema)

    def lookup(self, subject: str, document: str, kind: str) -> RegisteredSchema | None:
        """Return the subject's version with exactly this schema, or None."""
        action = f"looking for the schema of subject {subject!r}"
        return _to_registered(self._find(action, self._client.lookup_schema, subject, _make_schema(document, kind)))

    def is_compatible(self, subject: str, document: str, kind: str) -> bool:
        """Return True if the subject's compatibility rule accepts the schema. An unknown subject accepts any."""
        action = f"asking whether the schema of subject {subject!r} is compatible"
        test_compatibility = self._client.test_compatibility_all_versions
        return self._find(action, test_compatibility, subject, _make_schema(document, kind)) is not False

    def register(self, subject: str, document: str, kind: str) -> None:
        """Register a schema.

        :raises IncompatibleError: the registry refuses it.
        """
        self._call(
            f"registering subject {subject!r}", self._client.register_schema, subject, _make_schema(document, kind)
        )

    def _find(self, action: str, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return self._call(action, function, *args)
        except _MissingError:
            return None

    def _call(self, action: str, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:  # noqa: BLE001 - whatever the client raises is classified
            raise self._classify(error, action) from None

    def _classify(self, error: Exception, action: str) -> ConnectError:
        subject = f"{action} at {self.url} (connection {self.conn_id!r})"
        status = getattr(error, "http_status_code", None)
        if status is None:
            return _no_answer_error(error, subject)
        if status in (401, 403):
            return ConfigError(f"{subject}: access denied ({status}). Check login, password and the user's rights")
        if status in (408, 429) or status >= 500:
            return RetriableError(f"{subject}: the registry answered {status}")
        reason = str(getattr(error, "error_message", ""))[:_MAX_REASON]
        if status == 404:
            code = str(getattr(error, "error_code", ""))
            if code.startswith("404"):
                return _MissingError(f"{subject}: {reason}")
            return ConfigError(f"{subject}: this address is no schema registry. Correct the host")
        return (IncompatibleError if status == 409 else DataError)(
            f"{subject}: the registry answered {status}: {reason}"
        )


class IncompatibleError(DataError):
    """The registry refuses a schema as incompatible."""


class _MissingError(ConnectError):
    """The subject, version or schema does not exist."""


def _no_answer_error(error: Exception, subject: str) -> ConnectError:
    text, name = str(error), type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify failed" in text:
        return ConfigError(f"{subject}: its certificate is not trusted. Set ssl.ca.location in the connection's extra")
    if "WRONG_VERSION_NUMBER" in text:
        return ConfigError(f"{subject}: this port speaks no TLS. Name the https port, or use an http URL")
    if isinstance(error, (TypeError, AttributeError, KeyError, ValueError)):
        return ConfigError(f"{subject}: the server is no schema registry ({name}). Correct the host")
    return RetriableError(f"{subject}: no answer ({name})")


def _to_registered(response: Any) -> RegisteredSchema | None:
    if response is None:
        return None
    return _to_schema(response.schema_id, response.version, response.schema)


def _to_schema(schema_id: int, version: int, schema: Any) -> RegisteredSchema:
    references = [
        SchemaReference(reference.name, reference.subject, reference.version) for reference in schema.references or ()
    ]
    return RegisteredSchema(
        schema_id, version, schema.schema_str or "", schema.schema_type or "AVRO", tuple(references)
    )


def _make_schema(document: str, kind: str) -> Any:
    from confluent_kafka.schema_registry import Schema

    return Schema(document, kind)


def _make_client(connection: Connection, address: str, timeout_seconds: float) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is missing. Run: pip install 'airflow-provider-connect[registry]' where the task runs"
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
    except (OSError, ValueError) as error:  # certificate files that are missing or invalid
        raise ConfigError(
            f"connection {connection.conn_id!r}: the schema registry's client refuses its settings "
            f"({type(error).__name__}). Check the files it names"
        ) from None
