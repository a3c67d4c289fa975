"""Bulk requests against a server with scripted answers: what is sent again, and what messages hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from airflow_provider_connect.sinks._opensearch import bulk
from airflow_provider_connect.sinks._opensearch.bulk import BulkTarget, send
from airflow_provider_connect.sinks._opensearch.client import OpenSearchClient, check_connection
from airflow_provider_connect.sinks._opensearch.documents import Document
from tests.equipment.http.answering import AnsweringServer, Heard, Said

SECRET = "value-of-a-person-91c3"  # no password


class Server:
    """Answers bulk requests: by item statuses, or with one status for a request of more than ``most`` documents."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.statuses: dict[str, list[int]] = {}
        self.most, self.status, self.reason = 1000, 200, ""
        self.headers: list[dict[str, str]] = []

    def answer(self, body: bytes) -> tuple[int, Any]:
        ids = [json.loads(line)["index"]["_id"] for line in body.splitlines()[::2]]
        self.requests.append(ids)
        if self.status != 200 and len(ids) > self.most:
            return self.status, {"error": {"type": "some_exception", "reason": SECRET}}
        return 200, {"errors": True, "items": [{"index": self._item(name)} for name in ids]}

    def _item(self, name: str) -> dict[str, Any]:
        left = self.statuses.get(name)
        status = left.pop(0) if left else 201
        error = {"type": "mapper_parsing_exception", "reason": self.reason}
        return {"_id": name, "status": status} | ({} if status < 300 else {"error": error})


@pytest.fixture
def server() -> Iterator[tuple[Server, OpenSearchClient]]:
    script = Server()

    def answered(heard: Heard) -> Said:
        script.headers.append(heard.headers)
        status, document = script.answer(heard.body)
        return Said(document, status, {"Content-Type": "application/json"})

    with AnsweringServer(answered) as http:
        client = OpenSearchClient(_connection(http.port))
        yield script, client
        client.close()


def _connection(port: int, **fields: Any) -> Connection:
    values: dict[str, Any] = {"login": "writer", "password": "pw-7d1f"} | fields
    return Connection(conn_id="search", conn_type="http", host="http://127.0.0.1", port=port, **values)


def _send(client: OpenSearchClient, names: str) -> None:
    documents = [
        Document(number, b'{"index":{"_id":"%s"}}\n{"name":"%s"}\n' % (name.encode(), SECRET.encode()))
        for number, name in enumerate(names)
    ]
    send(BulkTarget(client, "events-write", ("amount",)), documents)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_PAUSES", (0.01,))


def test_busy_items_alone_are_sent_again(server: tuple[Server, OpenSearchClient]) -> None:
    script, client = server
    script.statuses = {"b": [429, 500], "d": [503]}
    _send(client, "abcd")
    assert script.requests == [["a", "b", "c", "d"], ["b", "d"], ["b"]]


def test_who_stays_busy_is_retriable(server: tuple[Server, OpenSearchClient], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "PATIENCE_SECONDS", 0.05)
    script, client = server
    script.statuses = {"b": [429] * 100}
    with pytest.raises(RetriableError, match="is busy: 1 documents wait"):
        _send(client, "ab")


@pytest.mark.parametrize("status", [413, 400])
def test_a_request_that_is_refused_whole_is_halved(server: tuple[Server, OpenSearchClient], status: int) -> None:
    script, client = server
    script.status, script.most = status, 2
    _send(client, "abcde")
    assert sorted(name for request in script.requests if len(request) <= 2 for name in request) == [*"abcde"]


def test_one_document_too_large_is_named_by_its_row(server: tuple[Server, OpenSearchClient]) -> None:
    script, client = server
    script.status, script.most = 413, 0
    with pytest.raises(DataError, match=r"row 0: .* bytes with status 413 .*max_content_length") as caught:
        _send(client, "ab")
    assert SECRET not in str(caught.value)


def test_a_later_row_of_the_same_id_is_no_error(server: tuple[Server, OpenSearchClient]) -> None:
    script, client = server
    script.statuses = {"a": [409]}
    _send(client, "ab")
    assert len(script.requests) == 1


@pytest.mark.parametrize(("status", "error"), [(400, DataError), (403, RetriableError), (404, RetriableError)], ids=str)
def test_a_refused_item_names_row_and_column_and_no_value(
    server: tuple[Server, OpenSearchClient], status: int, error: type[ConnectError]
) -> None:
    script, client = server
    script.statuses, script.reason = {"b": [status]}, f"failed to parse field [amount]: preview '{SECRET}'"
    with pytest.raises(error) as caught:
        _send(client, "ab")
    assert SECRET not in str(caught.value)
    assert (
        status != 400
        or "row 1: OpenSearch refuses the document with status 400 (mapper_parsing_exception) for "
        in (str(caught.value))
    )
    assert status != 400 or "column 'amount'" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [(401, ConfigError, "refuses the login"), (403, ConfigError, "forbids"), (500, RetriableError, "in trouble")],
    ids=str,
)
def test_a_refused_login_is_for_a_person(
    server: tuple[Server, OpenSearchClient], status: int, error: type[ConnectError], text: str
) -> None:
    script, client = server
    script.status, script.most = status, 0
    with pytest.raises(error, match=text) as caught:
        _send(client, "a")
    assert "pw-7d1f" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_server_that_is_away_is_retriable_and_named() -> None:
    client = OpenSearchClient(_connection(9))
    with pytest.raises(RetriableError, match=r"connection 'search': OpenSearch does not answer POST .*ConnectionError"):
        _send(client, "a")


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({}, "Basic d3JpdGVyOnB3LTdkMWY="),
        ({"login": None, "extra": {"auth": "bearer"}}, "Bearer pw-7d1f"),
        (
            {
                "login": None,
                "password": "ApiKey pw",
                "extra": {"auth": "api_key", "send_in": "header", "send_as": "Authorization"},
            },
            "ApiKey pw",
        ),
    ],
    ids=["basic", "bearer", "api key"],
)
def test_the_connections_login_is_sent(
    server: tuple[Server, OpenSearchClient], fields: dict[str, Any], header: str
) -> None:
    script, client = server
    port = int(client._client.transport.hosts[0]["port"])
    connection = _connection(port, **fields)
    assert check_connection(connection) == []
    other = OpenSearchClient(connection)
    _send(other, "a")
    other.close()
    assert script.headers[-1]["authorization"] == header


def test_a_proxy_and_a_login_by_session_are_refused_before_the_first_request() -> None:
    connection = _connection(1, extra={"proxy": "http://127.0.0.1:3128", "auth": "session", "auth_url": "/login"})
    problems = check_connection(connection)
    assert any("without a proxy" in text for text in problems)
    assert any("needs auth none, basic, bearer, api_key" in text for text in problems)
