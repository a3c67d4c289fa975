"""Where X is and with which token it is asked. DAG files import this: keep it light."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import Auth, bearer_auth, proxy_auth
from airflow_provider_connect.clients.http.certificates import ca_bundle_problem
from airflow_provider_connect.clients.http.host import base_url, host_problem
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.secrets import Secrets
from airflow_provider_connect.sources._x_search.limits import limit_problems

HOST = "api.x.com"


@dataclass(frozen=True)
class Access:
    """Host and credentials of an app.

    :param url: scheme and host, without a path.
    :param ca_bundle: authorities to trust beside the public ones: a path, or PEM text.
    """

    url: str
    auth: Auth
    proxy: SecretStr | None
    ca_bundle: str | None = field(default=None, repr=False)

    @property
    def secrets(self) -> Secrets:
        """Texts that no message may quote."""
        return Secrets([*self.auth.secrets, *proxy_auth(self.proxy).secrets])

    @classmethod
    def from_connection(cls, connection: Connection) -> Access:
        """Read a connection.

        :raises ConfigError: naming everything that is wrong with it.
        """
        if found := problems(connection):
            raise ConfigError("; ".join(found))
        proxy = connection.option("proxy")
        return cls(
            url=base_url(connection.host or HOST, connection.port if connection.host else None),
            auth=bearer_auth(connection.password or SecretStr("")),
            proxy=SecretStr(proxy) if proxy else None,
            ca_bundle=connection.option("ca_bundle"),
        )


def problems(connection: Connection) -> list[str]:
    """Return everything that is wrong with a connection; [] if nothing is."""
    where = f"connection {connection.conn_id!r}"
    found = []
    if connection.password is None or not connection.password.get_secret_value().strip():
        found.append(f"{where}: password is empty; it holds the app's bearer token")
    for check in (_host_problem, _app_problem, _proxy_problem, _ca_bundle_problem, limit_problems):
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


def _proxy_problem(connection: Connection) -> list[str]:
    proxy = connection.option("proxy")
    if proxy is None:
        return []
    try:
        parts = urlsplit(proxy)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_url = False
    return [] if is_url else ["extra field 'proxy' is not an http or https URL"]


def _ca_bundle_problem(connection: Connection) -> list[str]:
    ca_bundle = connection.option("ca_bundle")
    problem = ca_bundle_problem(ca_bundle) if ca_bundle is not None else None
    return [f"extra field {problem}"] if problem else []
