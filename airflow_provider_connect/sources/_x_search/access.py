"""Where X is and with which token it is asked. DAG files import this: keep it light."""

from __future__ import annotations

from pydantic import SecretStr

from airflow_provider_connect.clients.http.access import Access
from airflow_provider_connect.clients.http.auth import bearer_auth
from airflow_provider_connect.clients.http.fields import (
    base_url,
    ca_bundle_problems,
    collected,
    own_host_problem,
    proxy_problems,
)
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._x_search.limits import limit_problems

HOST = "api.x.com"


def host_of(connection: Connection) -> str:
    """Return scheme and host of a connection that has no problems."""
    return base_url(connection.host or HOST, connection.port if connection.host else None)


def access(connection: Connection) -> Access:
    """Read a connection.

    :raises ConfigError: naming everything that is wrong with it.
    """
    if found := problems(connection):
        raise ConfigError("; ".join(found))
    return Access.at(connection, host_of(connection), bearer_auth(connection.password or SecretStr("")))


def problems(connection: Connection) -> list[str]:
    """Return everything that is wrong with a connection; [] if nothing is."""
    where = f"connection {connection.conn_id!r}"
    found = []
    if connection.password is None or not connection.password.get_secret_value().strip():
        found.append(f"{where}: password is empty; it holds the app's bearer token")
    checks = (own_host_problem, _app_problem, proxy_problems, ca_bundle_problems, limit_problems)
    return found + collected(connection, checks)


def _app_problem(connection: Connection) -> list[str]:
    connection.option("app")
    return []
