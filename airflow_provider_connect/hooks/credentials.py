"""Converts Airflow connections to ours. Masks every secret in the logs first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret
from pydantic import SecretStr

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks.variables import runs_in_task
from airflow_provider_connect.secrets import is_secret_name
from airflow_provider_connect.sink import Connections, Sink
from airflow_provider_connect.source import Source

SPARK_TYPES = ("spark",)
_URL_PASSWORD = re.compile(r"://[^/:\s]*:([^/\s]+)@")


def resolve_connection(conn_id: str) -> Connection:
    """Return a connection and mask its secrets in the logs.

    :raises ConfigError: no such connection, or its extra is no JSON object.
    """
    try:
        connection = _airflow_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigError(
            f"Airflow has no connection {conn_id!r}. Create it under Admin > Connections or with 'airflow connections "
            f"add {conn_id} --conn-json …'"
        ) from None
    extra = _extra(conn_id, connection.extra)
    for secret in filter(None, [connection.password, *_secrets(extra), *_url_passwords(connection.host)]):
        mask_secret(secret)
    return Connection(
        conn_id=conn_id,
        conn_type=connection.conn_type or "",
        host=connection.host or None,
        port=connection.port,
        path=connection.schema or None,
        login=SecretStr(connection.login) if connection.login else None,
        password=SecretStr(connection.password) if connection.password else None,
        extra=extra,
    )


def _airflow_connection(conn_id: str) -> Any:
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        if runs_in_task():
            raise
    # On a command line, get_connection skips the database.
    from airflow.models.connection import Connection as StoredConnection  # noqa: PLC0415  # a task must not load the database

    return StoredConnection.get_connection_from_secrets(conn_id)


def resolve_source(source: Source) -> Connection:
    """Return a source's connection after the source has checked it.

    :raises ConfigError: with every problem.
    """
    connection = resolve_connection(source.conn_id)
    if problems := [*_source_type_problems(source, connection), *source.check(connection)]:
        raise ConfigError("\n".join(problems))
    return connection


def resolve_all(source: Source, sink: Sink, spark_conn_id: str, shape_conn_ids: Sequence[str] = ()) -> Connections:
    """Return the connections of a source, a sink and shapes, by id.

    :param spark_conn_id: must exist, too.

    :raises ConfigError: with every problem.
    """
    connections: Connections = {}
    problems: list[str] = []
    for conn_id in dict.fromkeys((spark_conn_id, source.conn_id, *sink.connection_ids, *shape_conn_ids)):
        try:
            connections[conn_id] = resolve_connection(conn_id)
        except ConfigError as error:
            problems.append(str(error))
    problems += _type_problems("Spark (argument conn_id)", connections.get(spark_conn_id), SPARK_TYPES)
    problems += _source_type_problems(source, connections.get(source.conn_id))
    for option, types in sink.connection_types.items():
        connection = connections.get(getattr(sink, option) or "")
        problems += _type_problems(f"{type(sink).__name__} (option {option})", connection, types)
    if source.conn_id in connections:
        problems += source.check(connections[source.conn_id])
    if all(conn_id in connections for conn_id in sink.connection_ids):
        problems += sink.check(connections)
    if problems:
        raise ConfigError("\n".join(problems))
    return {conn_id: connections[conn_id] for conn_id in (source.conn_id, *sink.connection_ids, *shape_conn_ids)}


def _source_type_problems(source: Source, connection: Connection | None) -> list[str]:
    return _type_problems(f"{type(source).__name__} (option conn_id)", connection, source.connection_types)


def _type_problems(user: str, connection: Connection | None, types: tuple[str, ...]) -> list[str]:
    if connection is None or connection.conn_type in ("", *types):
        return []
    accepted_types = " or ".join(map(repr, types))
    problem = f"connection {connection.conn_id!r} has type {connection.conn_type!r}; "
    problem += f"{user} requires type {accepted_types}"
    if connection.conn_type == "generic":
        problem += (
            ". For a type whose provider is not installed, 'airflow connections add --conn-type' stores 'generic': use "
            "--conn-json, with conn_type in it"
        )
    return [problem]


def _extra(conn_id: str, text: str | None) -> dict[str, Any]:
    try:
        extra = json.loads(text) if text else {}
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise ConfigError(f"connection {conn_id!r}: its extra field is not a JSON object")
    return extra


def _secrets(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _secrets(inner, f"{name}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, name)
    elif isinstance(value, str):
        if is_secret_name(name):
            yield value
        yield from _url_passwords(value)


def _url_passwords(value: str | None) -> list[str]:
    passwords = _URL_PASSWORD.findall(value) if value else []
    return [*passwords, *(unquote(password) for password in passwords)]
