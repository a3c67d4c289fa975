"""Airflow connections on their way to Spark, never printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from pydantic import Field, SecretStr

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.wire import Wire


class Dataset(NamedTuple):
    """Name of a source or target in lineage, without secrets: https://openlineage.io/docs/spec/naming (2026-11).

    :param namespace: the system, such as ``postgres://host:5432``.
    :param name: the dataset within it, such as ``shop.public.orders``.
    """

    namespace: str
    name: str

    @classmethod
    def from_uri(cls, uri: str) -> Dataset:
        """Return the dataset of a URI: its host, except for a local file, and its path."""
        scheme, _, host_and_path = uri.partition("://")
        host, _, path = host_and_path.partition("/")
        if not host:
            return cls(scheme, unquote(f"/{path}"))
        return cls(f"{_AS_NAMED.get(scheme, scheme)}://{host}", unquote(path))


_AS_NAMED = {"s3a": "s3", "gcs": "gs"}


class Connection(Wire):
    """The fields of an Airflow connection that connectors use.

    ``repr`` hides fields that may be secret.
    """

    conn_id: str
    conn_type: str = ""
    host: str | None = None
    port: int | None = None
    path: str | None = Field(default=None, description="Airflow's 'schema' field, renamed: pydantic owns that word.")
    login: SecretStr | None = None
    password: SecretStr | None = None
    extra: dict[str, Any] = Field(default_factory=dict, repr=False)

    def option(self, name: str) -> str | None:
        """Return a text field of the connection's extra. None if missing or empty.

        :raises ConfigError: the field is of another type.
        """
        value = self.extra.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            raise ConfigError(f"connection {self.conn_id!r}: extra field {name!r} must be text")
        return value


def dump_connections(connections: dict[str, Connection]) -> bytes:
    """Return connections as plain JSON, including secrets."""
    fields = {
        conn_id: connection.model_dump(exclude={"login", "password"})
        | {
            "login": connection.login.get_secret_value() if connection.login else None,
            "password": connection.password.get_secret_value() if connection.password else None,
        }
        for conn_id, connection in connections.items()
    }
    return json.dumps(fields).encode()


def load_connections(plain: bytes) -> dict[str, Connection]:
    """Return the connections that :func:`dump_connections` encoded."""
    return {conn_id: Connection(**fields) for conn_id, fields in json.loads(plain).items()}


def write_connections(path: Path, connections: dict[str, Connection]) -> None:
    """Write connections to a new file that only this user can read.

    :raises FileExistsError: the file exists.
    """
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(dump_connections(connections))


def read_connections(path: Path) -> dict[str, Connection]:
    """Return the connections that :func:`write_connections` wrote."""
    return load_connections(path.read_bytes())
