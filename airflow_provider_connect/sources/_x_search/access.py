"""Where X is and with which token it is asked. DAG files import this: keep it light."""

from __future__ import annotations

from pydantic import SecretStr

from airflow_provider_connect.clients.http.access import Access, Given
from airflow_provider_connect.clients.http.addresses import Reach
from airflow_provider_connect.clients.http.auth import bearer_auth
from airflow_provider_connect.clients.http.fields import ca_bundle_problems, proxy_problems
from airflow_provider_connect.clients.http.host import base_url, host_problem
from airflow_provider_connect.clients.http.route import Route, origin_of
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
    url = host_of(connection)
    proxy = connection.option("proxy")
    return Access(
        name=connection.conn_id,
        url=url,
        credentials=Given(bearer_auth(connection.password or SecretStr(""))),
        route=Route(
            Reach(frozenset({origin_of(url)[1]})), SecretStr(proxy) if proxy else None, connection.option("ca_bundle")
        ),
    )


def problems(connection: Connection) -> list[str]:
    """Return everything that is wrong with a connection; [] if nothing is."""
    where = f"connection {connection.conn_id!r}"
    found = []
    if connection.password is None or not connection.password.get_secret_value().strip():
        found.append(f"{where}: password is empty; it holds the app's bearer token")
    for check in (_host_problem, _app_problem, proxy_problems, ca_bundle_problems, limit_problems):
        try:
            found += [f"{where}: {problem}" for problem in check(connection)]
        except ConfigError as error:  # an extra field that is not a string
            found.append(str(error))
    return found


def _host_problem(connection: Connection) -> list[str]:
    problem = host_problem(connection.host, connection.port) if connection.host else None
    return [problem] if problem else []


def _app_problem(connection: Connection) -> list[str]:
    connection.option("app")
    return []
