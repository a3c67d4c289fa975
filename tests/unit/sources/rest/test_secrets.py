"""Credentials belong to the connection: literal ones in a declaration are refused, and named ones are sent."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from airflow_provider_connect.clients.http.access import connection_problems
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources.rest import Cursor, NextLink, RestSource, Single
from airflow_provider_connect.testing.polls import poll
from tests.equipment.http.answering import AnsweringServer, Heard, Said
from tests.equipment.rest_api.items import DATE
from tests.equipment.rest_api.reading import DAY, declared, ids

CANARY = "canary-7f"
BOUNDS = {"since": "{day.start}", "until": "{day.end}"}


def asking(paging: Any = None, **request: Any) -> RestSource:
    body = {"method": "POST"} if {"body", "form"} & request.keys() else {}
    params = {"params": BOUNDS | request.pop("params", {})}
    return declared("", paging or Single(), request={"path": "/x"} | body | params | request)


@pytest.mark.parametrize(
    ("request_options", "location"),
    [
        ({"params": {"token": CANARY}}, "query"),
        ({"params": {"key": [CANARY]}}, "query"),
        ({"body": {"client_secret": CANARY}}, "body"),
        ({"body": {"auth": {"accessToken": CANARY}}}, "body"),
        ({"body": [{"secret": CANARY}]}, "body"),
        ({"body": {"Password": CANARY}}, "body"),
        ({"form": {"app_key": CANARY}}, "body"),
        ({"headers": {"X-Auth-Token": CANARY}}, "header"),
        ({"headers": {"X-Shopify-Access-Token": CANARY}}, "header"),
        ({"params": {"key": 7314}}, "query"),
        ({"body": {"auth": {"pwd": [73.14]}}}, "body"),
        ({"form": {"api-secret-key": CANARY}}, "body"),
    ],
)
def test_a_literal_credential_is_refused_with_the_place_where_it_belongs(
    request_options: dict[str, Any], location: str
) -> None:
    with pytest.raises(ConfigError, match=r"looks like a credential\. Move it to the connection") as caught:
        asking(**request_options)
    assert f'credentials: {{"{location}": {{' in str(caught.value)
    assert not any(literal in str(caught.value) for literal in (CANARY, "7314", "73.14"))


@pytest.mark.parametrize("name", ["api_key", "access_token", "client_secret", "Authorization"])
def test_a_parameter_that_is_a_credential_cannot_be_public(name: str) -> None:
    with pytest.raises(ConfigError, match=f"request: '{name}' is a credential. Move it to the connection"):
        asking(params={name: CANARY}, public=[name])


@pytest.mark.parametrize(
    ("request_options", "paging"),
    [
        ({"params": {"key": "status"}, "public": ["key"]}, None),
        ({"body": {"filter": {"key": "status"}}, "public": ["key"]}, None),
        ({"params": {"page_token": "first", "sort_key": "id", "keys": "a"}}, None),
        ({"params": {"key": 7, "token": ""}, "public": ["key"]}, None),
        ({"body": {"token": True}}, None),
        ({"headers": {"Idempotency-Key": "a", "X-Auth-Token": "{day.start:date}"}}, None),
        ({"headers": {"X-Sync-Token": "full"}, "public": ["x-sync-token"]}, None),
        ({"headers": {"X-Auth-Token": "{{ var.value.shop_token }}"}}, None),
        ({"body": {"token": "first"}}, Cursor(at="next", put="token", ends="no_token")),
        ({"form": {"key": "{day.start:date}"}}, None),
        ({"params": {"token": "{{ var.value.shop_token }}"}}, None),
    ],
)
def test_a_harmless_text_passes(request_options: dict[str, Any], paging: Any) -> None:
    asking(paging, **request_options)


@pytest.mark.parametrize("is_parent", [True, False])
def test_a_secret_of_a_template_passes_after_rendering(*, is_parent: bool) -> None:
    request = {"path": "/x", "method": "POST", "params": BOUNDS, "body": {"auth": {"token": "{{ var.value.shop }}"}}}
    parent = {
        "stream": "parents",
        "request": {name: value for name, value in request.items() if name != "params"},
        "paging": Single(),
        "records": {"key": ["id"], "columns": {"id": "bigint"}},
        "snapshot": "replace",
    }
    source = (
        declared("/x/{parent.id}", Single(), parent=parent) if is_parent else declared("", Single(), request=request)
    )
    checked = source.rendered(lambda text: text.replace("{{ var.value.shop }}", CANARY)).checked()
    asked = checked.parent.request if checked.parent is not None else checked.request
    assert asked.body == {"auth": {"token": CANARY}}


NAMED = {
    "header": {"X-App-Id": "app-1"},
    "query": {"key": "{password}"},
    "cookie": {"session": "s-1"},
    "body": {"/auth/client_secret": "{password}", "login": "{login}"},
}


def serve(heard: Heard) -> Said:
    is_first = "page" not in dict(heard.params)
    row = {"id": 1 if is_first else 2, "at": f"{DATE}T12:00:00Z", "name": "a"}
    return Said({"items": [row], "next": f"/x?page=2&key={CANARY}" if is_first else None})


@pytest.mark.parametrize("auth", ["none", "bearer", "api_key"])
def test_named_credentials_are_sent_in_header_query_cookie_and_body(auth: str) -> None:
    by_cookie = {"send_as": "sid", "send_in": "cookie"}
    source = declared(
        "",
        NextLink(at="next", ends="no_token"),
        request={"path": "/x", "method": "POST", "body": BOUNDS | {"auth": {"kind": "app"}}},
        at="items",
    )
    with AnsweringServer(serve) as server:
        connection = Connection(
            conn_id="api",
            conn_type="http",
            host=server.url,
            login="me",
            password=CANARY,
            extra={"auth": auth, "credentials": NAMED} | (by_cookie if auth == "api_key" else {}),
        )
        assert connection_problems(connection) == []
        assert ids(poll(source, connection, DAY)) == [1, 2]
    for heard in server.heard:
        assert dict(heard.params)["key"] == CANARY
        cookies = "session=s-1" if auth != "api_key" else f"sid={CANARY}; session=s-1"
        assert (heard.headers["x-app-id"], heard.headers["cookie"]) == ("app-1", cookies)
        assert heard.headers.get("authorization") == (f"Bearer {CANARY}" if auth == "bearer" else None)
        body = json.loads(heard.body)
        assert (body["auth"], body["login"]) == ({"kind": "app", "client_secret": CANARY}, "me")
    assert [name for name, _ in server.heard[1].params] == ["page", "key"], "the link's own key is not sent twice"


def test_named_credentials_go_into_a_form_and_into_no_request_without_a_body() -> None:
    for request in ({"path": "/x", "method": "POST", "form": BOUNDS}, {"path": "/x", "params": BOUNDS}):
        with AnsweringServer(lambda _: Said({"items": []})) as server:
            connection = Connection(
                conn_id="api",
                conn_type="http",
                host=server.url,
                password=CANARY,
                extra={"credentials": {"body": {"app_key": "{password}", "since": "no"}}},
            )
            poll(declared("", Single(), request=request, at="items"), connection, DAY)
            (heard,) = server.heard
        if "form" in request:
            assert parse_qs(heard.body.decode()) == {
                "until": ["2026-10-06T00:00:00Z"],
                "app_key": [CANARY],
                "since": ["no"],
            }
        else:
            assert (heard.method, heard.body) == ("GET", b"")


def test_no_message_quotes_a_named_credential_and_no_other_host_gets_one() -> None:
    def refuse(heard: Heard) -> Said:
        return Said({"error": f"wrong key {CANARY} of {heard.headers.get('x-app-id')}"}, 403)

    with AnsweringServer(refuse) as other, AnsweringServer(lambda _: Said({"items": [], "next": other.url})) as server:
        connection = Connection(
            conn_id="api",
            conn_type="http",
            host=server.url,
            extra={
                "credentials": {"query": {"key": CANARY}, "header": {"X-App-Id": "app-1-long"}},
                "allowed_hosts": [other.url],
            },
        )
        source = declared("/x", NextLink(at="next", ends="no_token"), at="items")
        with pytest.raises(ConfigError) as caught:
            poll(source, connection, DAY)
        (heard,) = other.heard
    assert CANARY not in str(caught.value)
    assert "answered 403" in str(caught.value)
    assert ("x-app-id" in heard.headers, heard.params) == (False, [])


@pytest.mark.parametrize(
    ("credentials", "text"),
    [
        (CANARY, "must map locations to names and texts"),
        ({"params": {"key": CANARY}}, "has an unknown location; known: body, cookie, header, query"),
        ({"query": CANARY}, "'query' must map names to texts"),
        ({"query": {"key": 7}}, "'query' must map names to texts"),
        ({"header": {"Cookie": CANARY}}, "'Cookie' cannot be set as a header"),
        ({"body": {"/a~2": CANARY}}, "in a JSON Pointer"),
    ],
)
def test_wrong_named_credentials_are_problems_of_the_connection(credentials: Any, text: str) -> None:
    connection = Connection(conn_id="api", conn_type="http", host="x.example", extra={"credentials": credentials})
    (problem,) = connection_problems(connection)
    assert text in problem
    assert CANARY not in problem


def test_named_credentials_are_not_sent_by_plain_http() -> None:
    connection = Connection(
        conn_id="api", conn_type="http", host="http://x.example", extra={"credentials": {"query": {"key": CANARY}}}
    )
    assert "uses plain http" in connection_problems(connection)[0]
