"""Who counts requests and bytes, and what becomes of documents, statuses and redirects without rules and patience."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.client import Body, json_body
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer, Heard, Said

Make = Callable[..., JsonApi]
OK = Said({"rows": [1]})


def test_callbacks_report_each_sent_request_and_the_bytes_of_cut_answers(asker_of: Make) -> None:
    message: list[Any] = []
    cut = Said(gzip.compress(b"x" * 9999)[:-9], 200, {"Content-Encoding": "gzip"})

    def answer(heard: Heard) -> Said:
        message.append(f"heard {heard.path}")
        return next(said)

    said = iter([Said({}, 503), cut, OK])
    with AnsweringServer(answer) as server:
        hooks = {"on_sent": lambda: message.append("sent"), "on_received": lambda *each: message.append(each)}
        asker_of(server).ask(Call("a"), **hooks)
    assert sorted(map(str, message[:2])) == ["heard /a", "sent"]  # it need not be heard yet
    assert message.count("sent") == 3
    assert [each for each in message if isinstance(each, tuple)] == [(len(bytes(cut.body)), 0), (13, 13)]


def test_no_two_threads_count_at_once(asker_of: Make) -> None:
    together, counting, most = threading.Barrier(4, timeout=10), 0, []

    def answer(_: Heard) -> Said:
        together.wait()
        return OK

    def count(*_: int) -> None:
        nonlocal counting
        counting += 1
        most.append(counting)
        time.sleep(0.01)
        counting -= 1

    with AnsweringServer(answer) as server:
        asker = asker_of(server)
        asked = {"target": asker.ask, "args": (Call("a"),), "kwargs": {"on_sent": count, "on_received": count}}
        threads = [threading.Thread(**asked) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1] * 8


@pytest.mark.parametrize("body", ['{"a": 1', "<html>", '{"a": 1} {', "[" * 100_000])
def test_an_incomplete_document_is_refused(asker_of: Make, body: str) -> None:
    with AnsweringServer(lambda _: Said(body.encode())) as server:
        reply = asker_of(server).ask(Call("a"))
        with pytest.raises(RetriableError, match=rf"sent no complete JSON document \({len(body)} bytes\)") as caught:
            _ = reply.document
    assert caught.value.__suppress_context__


def test_it_asks_with_get_and_sends_with_post(asker_of: Make) -> None:
    with AnsweringServer(lambda _: Said({"is": "ä"})) as server:
        asker = asker_of(server)
        assert asker.ask(Call("/", params={"a": "b&c"})).document == {"is": "ä"}
        asker.ask(Call("/", body=json_body({"b": 1})))
        asker.ask(Call("/", body=Body("application/json", b'{"b": 2}')))
        assert [(heard.method, heard.params, heard.body) for heard in server.heard] == [
            ("GET", [("a", "b&c")], b""),
            ("POST", [], b'{"b": 1}'),
            ("POST", [], b'{"b": 2}'),
        ]


def test_statuses_that_are_an_answer_are_returned(asker_of: Make) -> None:
    with AnsweringServer(lambda _: Said({"no": "such"}, 404)) as server:
        asker = asker_of(server, patience_seconds=0)
        reply = asker.ask(Call("/", allowed=(404,)))
        assert (reply.status, reply.verdict, reply.body) == (404, "ignored", b"")
        with pytest.raises(ConfigError, match="answered 404"):
            asker.ask(Call("/", allowed=(409,)))


def test_redirects_are_refused_without_follows_redirects(asker_of: Make) -> None:
    with AnsweringServer(lambda _: Said(b"", 302, {"Location": "/there"})) as server:
        with pytest.raises(ConfigError, match=r"redirects \(status 302\) to another path. Redirects are not followed"):
            asker_of(server, follows_redirects=False).ask(Call("a"))
        assert len(server.heard) == 1


def test_a_failure_is_not_retried_without_patience(clock: NoTime) -> None:
    with AnsweringServer(lambda _: Said({}, 503)) as server:
        api = JsonApi(Connection(conn_id="c", host=server.url), clock=clock)
        with pytest.raises(RetriableError, match=r"answered 503: the service is unavailable now. Its answer: '\{\}'$"):
            api.ask(Call("a"))
        assert (len(server.heard), clock.pauses) == (1, [])


@pytest.mark.parametrize(
    ("call", "requests"),
    [
        (Call("a"), 2),
        (Call("a", body=json_body({})), 1),
        (Call("a", "PUT"), 1),
        (Call("a", body=json_body({}), is_repeatable=True), 2),
        (Call("a", is_repeatable=False), 1),
    ],
)
def test_a_post_is_repeated_only_if_it_is_repeatable(asker_of: Make, call: Call, requests: int) -> None:
    with AnsweringServer(lambda _: Said(b"", 503)) as server:
        with pytest.raises(RetriableError):
            asker_of(server, patience_seconds=1.5).ask(call)
        assert len(server.heard) == requests
