"""Connections of type http: what they mean, and what is said when they mean nothing."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.clients.http.access import HttpAccess, connection_problems
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError

CANARY = "canary-7f/ü?>"


def connection(host: str | None = "api.example", **fields: Any) -> Connection:
    extra = fields.pop("extra", {})
    return Connection(conn_id="c", conn_type="http", host=host, extra=extra, **fields)


def problem(**fields: Any) -> str:
    found = connection_problems(connection(**fields))
    assert len(found) == 1, found
    assert found[0].startswith("connection 'c': ")
    assert "canary" not in found[0]
    return found[0].removeprefix("connection 'c': ")


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({}, "https://api.example"),
        ({"path": "https", "port": 8443}, "https://api.example:8443"),
        ({"host": "https://api.example/v2/"}, "https://api.example/v2"),
        ({"host": "api.example/v2", "path": "https", "port": 8443}, "https://api.example:8443/v2"),
        ({"host": "https://api.example:8443", "port": 8443}, "https://api.example:8443"),
        ({"host": "http://localhost:8080", "login": "me"}, "http://localhost:8080"),
        ({"host": "127.0.0.1", "path": "http", "port": 8080}, "http://127.0.0.1:8080"),
        ({"host": "intranet.example", "path": "http"}, "http://intranet.example"),
    ],
)
def test_host_schema_and_port_are_put_together_as_airflow_s_http_hook_does(fields: dict[str, Any], url: str) -> None:
    assert HttpAccess.read_connection(connection(**fields)).url == url


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"host": None}, "host is empty"),
        ({"path": "ftp"}, "schema must be https or http"),
        ({"host": "ftp://api.example:21"}, "host must be 'name' or 'https://name/path'"),
        ({"extra": {"allowed_hosts": ["ftp://a.example:21"]}}, "'allowed_hosts' must be a list of names"),
        ({"host": "https://me:canary@api.example"}, "without user or query"),
        ({"host": "https://api.example?key=canary"}, "without user or query"),
        ({"host": "https://api.example:443", "port": 8443}, "another port than the field port"),
        ({"host": "https://"}, "host must be"),
        ({"path": "http", "login": "me", "password": "canary"}, "plain http, which would expose the credentials"),
        ({"path": "http", "extra": {"headers": {"X-Key": "canary"}}}, "plain http, which would expose the credentials"),
        (
            {
                "login": "me",
                "password": "canary",
                "extra": {"auth": "oauth2_client_credentials", "auth_url": "http://else.example/token"},
            },
            "'auth_url' uses plain http",
        ),
        ({"password": "canary"}, "a password without a login: set 'auth'"),
        ({"login": "a:b", "password": "canary"}, "login contains a colon"),
        ({"extra": {"auth": "bearer"}}, "password is empty; auth 'bearer' requires it"),
        ({"extra": {"auth": "canary-token"}}, "'auth' is not one of none, basic, bearer, api_key"),
        ({"password": "canary", "extra": {"auth": "api_key"}}, "extra lacks 'send_as', which auth 'api_key' requires"),
        (
            {"password": "canary", "extra": {"auth": "api_key", "send_as": "k", "send_in": "canary"}},
            "'send_in' is not one of header, query, cookie",
        ),
        ({"extra": {"auth_kind": "bearer"}}, "unknown extra field 'auth_kind'; did you mean 'auth_"),
        ({"extra": {"proxi": "canary"}}, "unknown extra field 'proxi'; did you mean 'proxy'?"),
        ({"extra": {"scope": "a"}}, "'scope' has no effect here. It belongs to auth 'oauth2_client_credentials' or"),
        ({"extra": {"proxy": "canary"}}, "'proxy' is not an http or https URL"),
        ({"extra": {"ca_bundle": "canary"}}, "ca_bundle must be an absolute path"),
        ({"extra": {"headers": "canary"}}, "'headers' must map names to texts"),
        ({"extra": {"headers": {"Accept-encoding": "canary"}}}, "'Accept-encoding' is set by the client"),
        ({"extra": {"allowed_hosts": ["https://a.example/canary"]}}, "'allowed_hosts' must be a list of names"),
        ({"extra": {"allowed_hosts": {"canary": 1}}}, "'allowed_hosts' must be a list of names"),
        ({"extra": {"auth": ["canary"]}}, "extra field 'auth' must be text"),
    ],
)
def test_what_is_wrong_is_named_at_once_and_without_values(fields: dict[str, Any], text: str) -> None:
    assert text in problem(**fields)


def test_several_problems_are_said_together() -> None:
    with pytest.raises(ConfigError, match=r"unknown extra field 'a'.*host is empty"):
        HttpAccess.read_connection(connection(host=None, extra={"a": 1}))


def test_a_source_s_own_fields_may_stand_in_the_extra() -> None:
    assert connection_problems(connection(extra={"region": "eu"}), extra_fields=("region",)) == []


def sent(**fields: Any) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    auth = HttpAccess.read_connection(connection(**fields)).credentials.auth()
    assert all(CANARY not in repr(each) for each in (auth, connection(**fields)))
    return auth.headers, auth.params


def test_credentials_of_the_connection_are_sent_as_declared() -> None:
    key = {"password": "k-1"}
    assert sent() == ({}, ())
    assert sent(login="me", password="p") == ({"Authorization": "Basic bWU6cA=="}, ())
    assert sent(login="me", password="p", extra={"auth": "none"}) == ({}, ())
    assert sent(**key, extra={"auth": "bearer"}) == ({"Authorization": "Bearer k-1"}, ())
    assert sent(**key, extra={"auth": "api_key", "send_as": "X-Key"}) == ({"X-Key": "k-1"}, ())
    named = {"auth": "api_key", "send_as": "api_key", "send_in": "query"}
    assert sent(**key, extra=named) == ({}, (("api_key", "k-1"),))
    assert sent(**key, extra=named | {"send_in": "cookie"}) == ({"Cookie": "api_key=k-1"}, ())


def test_hosts_that_links_may_lead_to_are_https_unless_they_say_otherwise() -> None:
    named = {"allowed_hosts": "files.example, http://127.0.0.1:8080,"}
    assert problem(extra=named)  # an empty name is none
    access = HttpAccess.read_connection(connection(extra={"allowed_hosts": ["files.example", "http://127.0.0.1:8080"]}))
    assert access.allowed_origins == {("https", "files.example", 443), ("http", "127.0.0.1", 8080)}
