"""Host, credentials and limits of a Mixpanel project."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import SecretStr

from airflow_provider_connect.clients.http import access as http
from airflow_provider_connect.clients.http.auth import basic_auth
from airflow_provider_connect.clients.http.client import Body, HttpResponse, request
from airflow_provider_connect.clients.http.connection_fields import (
    base_url,
    ca_bundle_problems,
    collect_problems,
    host_override_problems,
    proxy_problems,
)
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.quota.limits import Quota, quota_problems, quotas_from_extra, shared_quota_name
from airflow_provider_connect.secrets import Secrets

Api = Literal["export", "query", "app"]
"""Mixpanel API with its own limits and plans."""

HOSTS = {"us": "data.mixpanel.com", "eu": "data-eu.mixpanel.com", "in": "data-in.mixpanel.com"}
"""Export hosts by region: https://developer.mixpanel.com/reference/raw-event-export (2026-11)."""

QUERY_HOSTS = {"us": "mixpanel.com", "eu": "eu.mixpanel.com", "in": "in.mixpanel.com"}
"""Hosts of the Query and App APIs by region: https://developer.mixpanel.com/reference/query-api (2026-11)."""

_REGIMES = ("utc", "project_local")


@dataclass(frozen=True)
class MixpanelAccess(http.HttpAccess):
    """Host and credentials for one API of a project."""

    server_text: str = ""
    project_id: str | None = None
    api: Api = "export"

    @property
    def secrets(self) -> Secrets:
        """Credentials of host and proxy."""
        return Secrets([*self.credentials.auth().secrets, *self.route.secrets])

    def request(
        self,
        path: str,
        params: Mapping[str, str],
        limits: HttpTimeouts,
        on_sent: Callable[[], None],
        body: Body | None = None,
    ) -> HttpResponse:
        """Send a request. Returns the answer with an unread body."""
        auth, pairs = self.credentials.auth(), tuple(params.items())
        return request(self.route, self.url + path, auth, limits, params=pairs, body=body, on_sent=on_sent)

    @classmethod
    def from_connection(cls, connection: Connection, api: Api = "export") -> MixpanelAccess:
        """Read a connection. Raises ConfigError with every problem."""
        problems = access_problems(connection, api)
        if problems:
            raise ConfigError("; ".join(problems))
        empty_secret = SecretStr("")
        secret = connection.password or empty_secret
        is_account = _is_filled(connection.login)
        user, password = (connection.login or empty_secret, secret) if is_account else (secret, empty_secret)
        return cls.for_url(
            connection,
            server_url(connection, api),
            basic_auth(user, password),
            server_text=f"host {connection.host}" if connection.host else f"region {_region(connection)!r}",
            project_id=connection.option("project_id"),
            api=api,
        )


def access_problems(connection: Connection, api: Api = "export") -> list[str]:
    subject = f"connection {connection.conn_id!r}"
    problems = []
    if api == "app" and not _is_filled(connection.login):
        problems.append(
            f"{subject}: login is empty, so the password counts as a project secret, which Mixpanel's App API "
            "refuses. Enter the user name and secret of a service account"
        )
    if not _is_filled(connection.password):
        problems.append(f"{subject}: password is empty. Enter the service account's secret, or the project secret")
    if connection.login is not None and ":" in connection.login.get_secret_value():
        problems.append(f"{subject}: login contains a colon, which HTTP Basic does not allow")
    checks = (
        _project_problem,
        _choice_problems,
        host_override_problems,
        proxy_problems,
        ca_bundle_problems,
        limit_problems,
    )
    return problems + collect_problems(connection, checks)


def _is_filled(secret: SecretStr | None) -> bool:
    return secret is not None and secret.get_secret_value() != ""


def _project_problem(connection: Connection) -> list[str]:
    project_id = connection.option("project_id")
    if project_id is None:
        return ["extra has no project_id, which a service account needs"] if _is_filled(connection.login) else []
    if not re.fullmatch(r"[0-9]{1,20}", project_id):
        return ["extra field 'project_id' is not a number"]
    return []


def _choice_problems(connection: Connection) -> list[str]:
    problems = []
    for name, choices in (("region", tuple(HOSTS)), ("timestamps", _REGIMES)):
        value = connection.option(name)
        if value is not None and value not in choices:
            problems.append(f"extra field {name!r} is not one of {', '.join(choices)}")
    return problems


def _region(connection: Connection) -> str:
    return connection.option("region") or "us"


def server_url(connection: Connection, api: Api) -> str:
    if not connection.host:
        return base_url((HOSTS if api == "export" else QUERY_HOSTS)[_region(connection)], None)
    return base_url(connection.host, connection.port)


VENDOR_LIMITS = {
    "export": Quota("export", requests=60, per_second=3, at_once=100),
    "query": Quota("query", requests=60, at_once=5),
}
"""Mixpanel's limits by API: https://developer.mixpanel.com/reference/rate-limits (2026-11)."""


def quota_of(connection: Connection, api: str) -> Quota | None:
    """Return a project's quota for one API, shared by all its connections, or None."""
    if api not in VENDOR_LIMITS:
        return None
    server = connection.host or connection.option("region") or "us", connection.port
    name = shared_quota_name("mixpanel", api, connection.option("project_id") or connection.conn_id, server)
    return replace(quotas_from_extra(connection.extra, VENDOR_LIMITS)[api], name=name)


def limit_problems(connection: Connection) -> list[str]:
    return quota_problems(connection.extra, VENDOR_LIMITS)
