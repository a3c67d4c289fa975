"""How often a project may be asked: https://developer.mixpanel.com/reference/rate-limits (2026-11)."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.quota.limits import Quota, quota_problems, quotas_in, shared_name

VENDORS = {
    "export": Quota("export", requests=60, per_second=3, at_once=100),
    "query": Quota("query", requests=60, at_once=5),
}
"""Mixpanel's own figures. They have been others before, so a connection may set them."""


def quota_of(connection: Connection, api: str) -> Quota | None:
    """Return the quota of a project for one API, as Mixpanel counts each apart; None for one without known limits.

    It is the project's, not the connection's: two connections to one project share it.

    :raises ConfigError: if the connection's own limits are wrong.
    """
    if api not in VENDORS:
        return None
    where = connection.host or connection.option("region") or "us", connection.port
    name = shared_name("mixpanel", api, connection.option("project_id") or connection.conn_id, where)
    return replace(quotas_in(connection.extra, VENDORS)[api], name=name)


def limit_problems(connection: Connection) -> list[str]:
    """Return what is wrong with a connection's own limits."""
    return quota_problems(connection.extra, VENDORS)
