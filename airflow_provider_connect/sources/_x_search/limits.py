"""How often an app may ask: https://docs.x.com/x-api/fundamentals/rate-limits (2026-11). DAG files import this."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.quota.limits import Quota, quota_problems, quotas_in, shared_name

_WINDOW_SECONDS = 900.0

VENDORS = {
    "recent": Quota("recent", requests=450, seconds=_WINDOW_SECONDS),
    "all": Quota("all", requests=300, seconds=_WINDOW_SECONDS, per_second=1),
    "counts": Quota("counts", requests=300, seconds=_WINDOW_SECONDS),
}
"""X's own figures for an app. A connection may set others."""


def quota_of(connection: Connection, what: str) -> Quota:
    """Return an app's limit on one endpoint, whichever task asks.

    An app has one bearer token, and two connections with it share its limits; the token is no part of the name.

    :raises ConfigError: if the connection's own limits are wrong.
    """
    name = shared_name(
        "x", what, connection.option("app") or connection.conn_id, (connection.host or "", connection.port)
    )
    return replace(quotas_in(connection.extra, VENDORS)[what], name=name)


def limit_problems(connection: Connection) -> list[str]:
    """Return what is wrong with a connection's own limits."""
    return quota_problems(connection.extra, VENDORS)
