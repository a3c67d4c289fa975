"""Address, token and limits of X. DAG files import this."""

from __future__ import annotations

from dataclasses import replace

from pydantic import SecretStr

from airflow_provider_connect.clients.http.access import HttpAccess
from airflow_provider_connect.clients.http.auth import bearer_auth
from airflow_provider_connect.clients.http.connection_fields import (
    base_url,
    ca_bundle_problems,
    collect_problems,
    host_override_problems,
    proxy_problems,
)
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.quota.limits import Quota, quota_problems, quotas_from_extra, shared_quota_name

_WINDOW_SECONDS = 900.0

VENDOR_LIMITS = {
    "recent": Quota("recent", requests=450, seconds=_WINDOW_SECONDS),
    "all": Quota("all", requests=300, seconds=_WINDOW_SECONDS, per_second=1),
    "counts": Quota("counts", requests=300, seconds=_WINDOW_SECONDS),
}
"""X's limits for an app, by endpoint: https://docs.x.com/x-api/fundamentals/rate-limits (2026-11)."""


def quota_of(connection: Connection, endpoint: str) -> Quota:
    """Return an app's limit on one endpoint, shared by all connections with the same ``app``."""
    name = shared_quota_name(
        "x", endpoint, connection.option("app") or connection.conn_id, (connection.host or "", connection.port)
    )
    return replace(quotas_from_extra(connection.extra, VENDOR_LIMITS)[endpoint], name=name)


def limit_problems(connection: Connection) -> list[str]:
    return quota_problems(connection.extra, VENDOR_LIMITS)


HOST = "api.x.com"


def server_url(connection: Connection) -> str:
    return base_url(connection.host or HOST, connection.port if connection.host else None)


def read_access(connection: Connection) -> HttpAccess:
    """Read a connection. Raises ConfigError with every problem."""
    if problems := access_problems(connection):
        raise ConfigError("; ".join(problems))
    return HttpAccess.for_url(connection, server_url(connection), bearer_auth(connection.password or SecretStr("")))


def access_problems(connection: Connection) -> list[str]:
    subject = f"connection {connection.conn_id!r}"
    messages = []
    if connection.password is None or not connection.password.get_secret_value().strip():
        messages.append(f"{subject}: password is empty. Enter the app's bearer token")
    checks = (host_override_problems, _app_problem, proxy_problems, ca_bundle_problems, limit_problems)
    return messages + collect_problems(connection, checks)


def _app_problem(connection: Connection) -> list[str]:
    connection.option("app")
    return []
