"""A JSON API: whole documents, and errors that say what to do."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_connect.clients.http.json_api import JsonApi, connection_problems
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from tests.equipment.examples.json_server import JsonServer
from tests.equipment.http.raw_server import Peer, RawServer

PASSWORD = "s3cret-7f"
BASIC = "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()


def connection(port: int | None = 80, host: str = "http://127.0.0.1", **fields: Any) -> Connection:
    return Connection(conn_id="c", host=host, port=port, **({"login": "me", "password": PASSWORD} | fields))


@pytest.fixture
def asked() -> list[Any]:
    return []


@pytest.fixture
def api(asked: list[Any]) -> Iterator[JsonApi]:
    def call(*what: Any) -> tuple[int, Any]:
        asked.append(what)
        return (int(what[1].strip("/")), {"echo": BASIC + PASSWORD}) if what[1] != "/" else (200, {"is": "ä"})

    with JsonServer(call, BASIC) as server:
        yield JsonApi(connection(server.port), "basic")


def test_it_asks_with_get_and_sends_with_post(api: JsonApi, asked: list[Any]) -> None:
    sent: list[int] = []
    reply = api.ask("/", {"a": "b&c"}, sent=lambda: sent.append(1))
    assert (reply.status, reply.document, reply.size) == (200, {"is": "ä"}, 16)
    api.ask("/", body={"b": 1})
    api.ask("/", body=b'{"b": 2}')
    assert asked == [("GET", "/", {"a": "b&c"}, None), ("POST", "/", {}, {"b": 1}), ("POST", "/", {}, {"b": 2})]
    assert sent == [1]


def test_statuses_that_are_an_answer_are_returned(api: JsonApi) -> None:
    assert api.ask("/404", allowed=(404,)) == (404, None, 0)
    with pytest.raises(ConfigError):
        api.ask("/409", allowed=(404,))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ConfigError),
        (401, ConfigError),
        (404, ConfigError),
        (408, RetriableError),
        (425, RetriableError),
        (429, RetriableError),
        (500, RetriableError),
        (503, RetriableError),
    ],
)
def test_a_status_says_who_can_mend_it_and_what_is_quoted_is_no_secret(
    api: JsonApi, status: int, error: type[Exception]
) -> None:
    with pytest.raises(error, match=f"answered {status}") as caught:
        api.ask(f"/{status}")
    assert "echo" in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert BASIC.removeprefix("Basic ") not in str(caught.value)


@pytest.mark.parametrize("body", ['{"a": 1', "", "<html>", '{"a": 1} {', "[" * 100_000])
def test_what_is_no_whole_document_is_no_answer(body: str) -> None:
    def say(peer: Peer) -> None:
        peer.hear()
        peer.say(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())

    with RawServer(say) as server, pytest.raises(RetriableError, match="no whole JSON document") as caught:
        JsonApi(connection(server.port), "basic").ask("/")
    assert caught.value.__suppress_context__


def test_an_answer_without_a_body_has_no_document() -> None:
    def say(peer: Peer) -> None:
        peer.hear()
        peer.say(b"HTTP/1.1 204 No Content\r\n\r\n")

    with RawServer(say) as server:
        assert JsonApi(connection(server.port), "basic").ask("/") == (204, None, 0)


def test_a_good_connection_is_no_problem() -> None:
    assert connection_problems(connection(), "basic") == []
    assert connection_problems(connection(None, "api.example"), "basic") == []
    assert connection_problems(connection(None, "https://api.example:8443/", login=None), "bearer") == []


@pytest.mark.parametrize(
    "host",
    [
        "",
        "http://api.example",
        "ftp://api.example",
        "https://a@api.example",
        "https://api.example/v1",
        "https://a:x",
        "[::1",
        "https://api.example:8443",
        "https://api.example?a=b",
    ],
)
def test_a_host_that_is_none_is_told_without_showing_it(host: str) -> None:
    (problem,) = connection_problems(connection(host=host), "basic")
    assert "host must be" in problem
    assert "example" not in problem
    with pytest.raises(ConfigError, match="host must be"):
        JsonApi(connection(host=host), "basic")


def test_every_problem_comes_at_once() -> None:
    broken = connection(host="", login="a:b", password="")
    assert len(connection_problems(broken, "basic")) == 3
    assert len(connection_problems(broken, "bearer")) == 2
