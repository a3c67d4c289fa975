"""Reads an API's address and credentials from an Airflow connection of type ``http``.

Fields: ``docs/http_connection.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol, Self

from pydantic import SecretStr

from airflow_provider_connect.clients.http import connection_fields
from airflow_provider_connect.clients.http.auth import (
    NO_AUTH,
    Auth,
    FetchedCredentials,
    basic_auth,
    bearer_auth,
    cookie_auth,
    header_auth,
    query_auth,
)
from airflow_provider_connect.clients.http.logins import Login, OAuth2Login, SessionLogin
from airflow_provider_connect.clients.http.named_credentials import named_credentials
from airflow_provider_connect.clients.http.network import AddressPolicy
from airflow_provider_connect.clients.http.route import HttpRoute, Origin, origin_of
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import refuse_any

_MAY_BE_SECRET_CHARACTERS = 6  # a header's name does not show whether its value is secret
_LOGIN = {"username": "{login}", "password": "{password}"}


class Credentials(Protocol):
    """Credentials for the API's own host."""

    def auth(self) -> Auth:
        """Return the credentials. May fetch them first."""

    def renew(self, refused_auth: Auth) -> Auth | None:
        """Return other credentials after the API refused ``refused_auth``, or None."""


@dataclass(frozen=True)
class StaticCredentials:
    """Unchanging credentials from the connection."""

    static_auth: Auth

    def auth(self) -> Auth:
        """Return the credentials."""
        return self.static_auth

    def renew(self, refused_auth: Auth) -> Auth | None:
        """Return None."""


@dataclass(frozen=True)
class HttpAccess:
    """Address and credentials of an API.

    :param url: base of all paths, without a final slash.
    :param allowed_origins: other allowed hosts of links and redirects.
    :param headers: sent only to the API's own host, as ``named_auth``.
    """

    name: str
    url: str
    credentials: Credentials
    route: HttpRoute
    allowed_origins: frozenset[Origin] = frozenset()
    headers: tuple[tuple[str, str], ...] = ()
    secret_header_values: tuple[str, ...] = ()
    named_auth: Auth = NO_AUTH

    @property
    def origin(self) -> Origin:
        """The only host that gets the credentials."""
        return origin_of(self.url)

    @classmethod
    def read_connection(cls, connection: Connection, extra_fields: Collection[str] = ()) -> HttpAccess:
        """Read a connection of type ``http``. Raises ConfigError with every problem."""
        refuse_any(connection_problems(connection, extra_fields))
        url, other_origins = (
            connection_fields.connection_base_url(connection),
            connection_fields.allowed_origins_of(connection),
        )
        headers = connection_fields.text_mapping(connection, "headers")
        host_names = {origin[1] for origin in (origin_of(url), *other_origins)}
        if (auth_url := connection.option("auth_url")) is not None:
            host_names.add(origin_of(connection_fields.resolve_url(url, auth_url))[1])
        route = _route(connection, host_names)
        return cls(
            name=connection.conn_id,
            url=url,
            credentials=_credentials(connection, url, route),
            route=route,
            allowed_origins=frozenset(other_origins),
            headers=tuple(headers.items()),
            secret_header_values=tuple(value for value in headers.values() if len(value) >= _MAY_BE_SECRET_CHARACTERS),
            named_auth=named_credentials(connection),
        )

    @classmethod
    def for_url(cls, connection: Connection, url: str, auth: Auth, **fields: Any) -> Self:
        """Return the access to a vendor's URL, with a connection's proxy and authorities."""
        return cls(connection.conn_id, url, StaticCredentials(auth), _route(connection, {origin_of(url)[1]}), **fields)


def _route(connection: Connection, hosts: Collection[str]) -> HttpRoute:
    proxy = connection.option("proxy")
    return HttpRoute(
        AddressPolicy(frozenset(hosts)), SecretStr(proxy) if proxy else None, connection.option("ca_bundle")
    )


def connection_problems(connection: Connection, extra_fields: Collection[str] = ()) -> list[str]:
    """Validate a connection without network. Returns the problems."""
    return connection_fields.connection_problems(connection, extra_fields)


def _credentials(connection: Connection, url: str, route: HttpRoute) -> Credentials:
    kind = connection_fields.auth_kind_of(connection)
    user, password = connection.login or SecretStr(""), connection.password or SecretStr("")
    if kind == "none":
        return StaticCredentials(NO_AUTH)
    if kind == "basic":
        return StaticCredentials(basic_auth(user, password))
    if kind == "bearer":
        return StaticCredentials(bearer_auth(password))
    if kind == "api_key":
        return StaticCredentials(_sender(connection)(password))
    login = Login(
        connection_fields.resolve_url(url, connection.option("auth_url") or ""),
        route,
        user,
        password,
        f"connection {connection.conn_id!r}",
    )
    identity = (
        kind,
        url,
        user.get_secret_value(),
        password.get_secret_value(),
        sorted(connection.extra.items(), key=str),
    )
    params = connection_fields.text_mapping(connection, "auth_params")
    if kind == "session":
        result = connection.option("auth_result")
        session = SessionLogin(
            login,
            params or _LOGIN,
            as_json=connection.option("auth_body") != "form",
            result=(result[1:].split("/") if result.startswith("/") else [result]) if result else None,
            auth=_sender(connection),
        )
        return FetchedCredentials(identity, session.fetch)
    refresh = connection.option("refresh_token") if kind == "oauth2_refresh_token" else None
    client = OAuth2Login(
        login,
        scope=connection.option("scope"),
        refresh_token=SecretStr(refresh) if refresh else None,
        client_auth="body" if connection.option("client_auth") == "body" else "basic",
        params=params,
    )
    return FetchedCredentials(identity, client.fetch)


def _sender(connection: Connection) -> Callable[[SecretStr], Auth]:
    name, location = connection.option("send_as"), connection.option("send_in")
    if name is None:
        return bearer_auth
    if location == "query":
        return lambda key: query_auth(name, key)
    if location == "cookie":
        return lambda key: cookie_auth({name: key.get_secret_value()})
    return lambda key: header_auth(name, key)
