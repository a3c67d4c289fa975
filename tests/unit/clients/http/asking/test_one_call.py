"""One call, one whole answer: what is sent, what is tried again, and what is not."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.client import form_body, json_body
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer, Heard, Said
from tests.equipment.http.raw_server import Peer, RawServer

CANARY = "canary-7f"
Make = Callable[..., JsonApi]
OK = Said({"rows": [1]})


def in_turn(*answers: Said) -> Callable[[Heard], Said]:
    """Give these answers one after the other; the last one for ever."""
    left: Iterator[Said] = iter(answers)
    last = answers[-1]
    return lambda _: next(left, last)


def test_a_path_lies_below_the_connection_s_base(asker_of: Make) -> None:
    with AnsweringServer(lambda _: OK) as server:
        asker = asker_of(server, path="/v2/", extra={"headers": {"X-Version": "3"}})
        call = Call("/issues", params=[("a", "1"), ("a", "2&"), ("b", "")], headers={"accept": "text/csv", "X-A": "b"})
        sizes: list[Any] = []
        reply = asker.ask(call, on_received=lambda *each: sizes.append(each))
        (heard,) = server.heard
    assert (heard.method, heard.path, heard.params) == ("GET", "/v2/issues", [("a", "1"), ("a", "2&")])
    assert {name: heard.headers[name] for name in ("accept", "x-a", "x-version", "accept-encoding")} == {
        "accept": "text/csv",
        "x-a": "b",
        "x-version": "3",
        "accept-encoding": "gzip",
    }
    assert (reply.status, reply.verdict, reply.body, reply.url) == (
        200,
        "rows",
        b'{"rows": [1]}',
        f"{server.url}/v2/issues",
    )
    assert reply.headers["content-length"] == "13"
    assert sizes == [(13, 13)]


def test_a_body_is_sent_as_it_is(asker_of: Make) -> None:
    with AnsweringServer(lambda _: OK) as server:
        asker = asker_of(server)
        asker.ask(Call("a", "POST", body=json_body({"cursor": None})))
        asker.ask(Call("a", "PUT", body=form_body({"b": "1"})))
        assert [(heard.method, heard.body) for heard in server.heard] == [
            ("POST", b'{"cursor": null}'),
            ("PUT", b"b=1"),
        ]


def test_a_post_without_a_body_says_so(asker_of: Make) -> None:
    with AnsweringServer(lambda _: OK) as server:
        asker_of(server).ask(Call("a", "POST"))
        asker_of(server).ask(Call("a"))
        assert [heard.headers.get("content-length") for heard in server.heard] == ["0", None]


def test_a_header_of_the_connection_is_quoted_by_no_message(asker_of: Make) -> None:
    def echo(heard: Heard) -> Said:
        return Said({"you": heard.headers["x-tenant"]}, 400)

    with AnsweringServer(echo) as server, pytest.raises(ConfigError, match="you") as caught:
        asker_of(server, extra={"headers": {"X-Tenant": CANARY}}).ask(Call("a"))
    assert CANARY not in str(caught.value)


def test_a_next_link_is_asked_for_as_it_is(asker_of: Make) -> None:
    with AnsweringServer(lambda _: OK) as server:
        asker_of(server, path="/v2").ask(Call(f"{server.url}/other?page=2&x=%2F"))
        assert (server.heard[0].path, server.heard[0].params) == ("/other", [("page", "2"), ("x", "/")])


def test_a_key_in_the_query_that_the_server_linked_with_is_sent_once(asker_of: Make) -> None:
    """dlt #1514: the next link holds the query already, and the client adds it again."""
    extra = {"auth": "api_key", "send_in": "query", "send_as": "api key"}
    with AnsweringServer(lambda _: OK) as server:
        asker = asker_of(server, password=CANARY, extra=extra)
        reply = asker.ask(Call(f"{server.url}/a?api+key={CANARY}&page=2"))
        assert reply.url == f"{server.url}/a?page=2"
        assert server.heard[0].params == [("page", "2"), ("api key", CANARY)]


def test_headers_of_the_message_itself_are_not_a_declaration_s_to_set(asker_of: Make) -> None:
    with AnsweringServer(lambda _: OK) as server:
        with pytest.raises(ConfigError, match="'Accept-Encoding' is set by the client"):
            asker_of(server).ask(Call("a", headers={"Accept-Encoding": "br"}))
        assert server.heard == []


@pytest.mark.parametrize("status", [204, 205])
def test_a_status_that_says_there_is_nothing_is_empty(asker_of: Make, status: int) -> None:
    with AnsweringServer(lambda _: Said(b"", status)) as server:
        assert asker_of(server).ask(Call("a")).verdict == "empty"


# What is tried again


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_page_that_fails_is_asked_again_alone(asker_of: Make, clock: NoTime, status: int) -> None:
    with AnsweringServer(in_turn(Said({}, status), Said({}, status), OK)) as server:
        assert asker_of(server).ask(Call("a")).verdict == "rows"
        assert len(server.heard) == 3
    assert len(clock.pauses) == 2


def test_a_page_that_may_not_be_asked_again_fails_at_once(asker_of: Make, clock: NoTime) -> None:
    with AnsweringServer(lambda _: Said({}, 503, {"Retry-After": "7"})) as server:
        with pytest.raises(RetriableError) as caught:
            asker_of(server).ask(Call("a", is_repeatable=False))
        assert len(server.heard) == 1
    assert caught.value.retry_after_seconds == 7
    assert clock.pauses == []


@pytest.mark.parametrize("after", ["0", "Thu, 01 Jan 1970 00:00:00 GMT", "-5", "soon"])
def test_h9_a_retry_after_of_0_or_in_the_past_does_not_burn_all_tries_in_a_moment(
    asker_of: Make, clock: NoTime, after: str
) -> None:
    """dlt #4036."""
    with AnsweringServer(lambda _: Said({}, 429, {"Retry-After": after})) as server:
        with pytest.raises(RetriableError, match=r"\d+ tries in \d+ s"):
            asker_of(server, patience_seconds=300).ask(Call("a"))
        assert 5 <= len(server.heard) <= 20
    assert clock.seconds > 150
    assert min(clock.pauses) >= 0.5


def test_h9_a_wait_that_is_asked_for_is_kept(asker_of: Make, clock: NoTime) -> None:
    with AnsweringServer(in_turn(Said({}, 429, {"Retry-After": "40"}), OK)) as server:
        asker_of(server).ask(Call("a"))
    assert 40 <= clock.seconds <= 60


@pytest.mark.parametrize("after", ["99999999", "Thu, 05 Nov 2099 11:00:00 GMT"])
def test_h9_a_wait_of_years_is_an_hour_and_the_task_s_to_wait(asker_of: Make, clock: NoTime, after: str) -> None:
    with AnsweringServer(lambda _: Said({}, 429, {"Retry-After": after})) as server:
        with pytest.raises(RetriableError) as caught:
            asker_of(server).ask(Call("a"))
        assert len(server.heard) == 1
    assert caught.value.retry_after_seconds == 3600
    assert clock.pauses == []


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 418, 422, 304])
def test_h12_a_refusal_is_not_asked_again_and_quotes_no_secret(asker_of: Make, status: int) -> None:
    def echo(heard: Heard) -> Said:
        return Said({"error": f"no: {heard.headers['authorization']} {CANARY}"}, status)

    with AnsweringServer(echo) as server:
        with pytest.raises(ConfigError) as caught:
            asker_of(server, login="me", password=CANARY).ask(Call("a", about="stream 'issues'"))
        assert len(server.heard) == 1
    text = str(caught.value)
    assert CANARY not in text
    assert "bWU6" not in text
    if status != 304:
        assert f"(stream 'issues') answered {status}" in text
        assert "no: ***" in text or "no: Basic ***" in text


def test_a_status_that_nobody_knows_says_where_to_declare_it(asker_of: Make) -> None:
    with (
        AnsweringServer(lambda _: Said({}, 499)) as server,
        pytest.raises(ConfigError, match="no rule declares this status"),
    ):
        asker_of(server).ask(Call("a"))


# What is no answer


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (Said(b"<html>Log in</html>", 200, {"Content-Type": "text/html; charset=utf-8"}), "a web page"),
        (Said(b""), "an empty body with status 200"),
        (Said(b"x", 200, {"Content-Encoding": "br"}), "unknown Content-Encoding"),
        (Said(gzip.compress(b"x" * 9999)[:-9], 200, {"Content-Encoding": "gzip"}), "the gzip answer is cut"),
        (Said(gzip.compress(b"x")[:-5] + b"abcde", 200, {"Content-Encoding": "gzip"}), "gzip answer"),
        (Said(b"", 200, {"Content-Encoding": "gzip"}), "has no bytes"),
    ],
    ids=["H8 web page", "H8 empty", "not asked for", "H3 cut", "H4 checksum", "H3 empty gzip"],
)
def test_an_invalid_answer_is_retried(asker_of: Make, said: Said, text: str) -> None:
    with AnsweringServer(in_turn(said, OK)) as server:
        assert asker_of(server).ask(Call("a")).body == b'{"rows": [1]}'
        assert len(server.heard) == 2
    with AnsweringServer(lambda _: said) as server, pytest.raises(RetriableError, match=text):
        asker_of(server, patience_seconds=0).ask(Call("a"))


def test_json_that_is_labelled_as_a_web_page_is_an_answer(asker_of: Make) -> None:
    with AnsweringServer(lambda _: Said(b" [1]", 200, {"Content-Type": "text/html"})) as server:
        assert asker_of(server).ask(Call("a")).body == b" [1]"


def test_h5_every_member_of_a_gzip_answer_is_read(asker_of: Make) -> None:
    body = gzip.compress(b"[1,") + gzip.compress(b"2]")
    with AnsweringServer(lambda _: Said(body, 200, {"Content-Encoding": "gzip"})) as server:
        sizes: list[Any] = []
        reply = asker_of(server).ask(Call("a"), on_received=lambda *each: sizes.append(each))
    assert reply.body == b"[1,2]"
    assert sizes == [(len(body), 5)]


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_h24_a_bomb_ends_at_what_one_answer_may_hold(asker_of: Make, encoding: str) -> None:
    body = b"0" * (8 << 20)
    said = Said(gzip.compress(body, 1) if encoding == "gzip" else body, 200, {"Content-Encoding": encoding})
    with AnsweringServer(lambda _: said) as server:
        with pytest.raises(ConfigError, match="more than 1,000,000 bytes: request smaller pages"):
            asker_of(server, max_bytes=1_000_000).ask(Call("a"))
        assert len(server.heard) == 1


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"Content-Length: 100", b"[1,2]"),
        (b"Transfer-Encoding: chunked", b"5\r\n[1,2]\r\n"),
        (b"Transfer-Encoding: chunked", b"9\r\n[1,2]"),
        (b"X: y", b"[1,2]"),
    ],
    ids=["H1", "H2 no last chunk", "H2 inside a chunk", "H6"],
)
def test_a_body_whose_end_was_not_seen_is_none(clock: NoTime, head: bytes, body: bytes) -> None:
    with RawServer(lambda peer: peer.say(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body)) as server:
        asker = JsonApi(Connection(conn_id="c", host=server.url), clock=clock, patience_seconds=3)
        with pytest.raises(RetriableError, match=r"[23] tries"):
            asker.ask(Call("a"))
        assert len(server.peers) in (2, 3)


def test_h13_an_answer_that_trickles_ends_at_its_deadline(clock: NoTime) -> None:
    def trickle(peer: Peer) -> None:
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        peer.trickle(b" ")

    times = HttpTimeouts(connect_timeout_seconds=5, read_timeout_seconds=5, deadline_seconds=0.3)
    with RawServer(trickle) as server:
        asker = JsonApi(Connection(conn_id="c", host=server.url), clock=clock, timeouts=times, patience_seconds=0)
        with pytest.raises(RetriableError, match="did not finish its answer"):
            asker.ask(Call("a"))


# Credentials that are fetched


OAUTH = {"auth": "oauth2_client_credentials", "auth_url": "/token"}


def test_h21_a_token_that_ends_in_the_middle_is_fetched_anew_and_the_page_asked_again_once(asker_of: Make) -> None:
    tokens = iter(range(9))
    valid = "Bearer t-0"

    def answer(heard: Heard) -> Said:
        if heard.path == "/token":
            return Said({"access_token": f"t-{next(tokens)}", "expires_in": 3600})
        return OK if heard.headers["authorization"] == valid else Said({"error": heard.headers["authorization"]}, 401)

    with AnsweringServer(answer) as server:
        asker = asker_of(server, login="me", password=CANARY, extra=OAUTH)
        asker.ask(Call("a"))
        valid = "Bearer t-1"
        assert asker.ask(Call("b")).verdict == "rows"
        assert [heard.path for heard in server.heard] == ["/token", "/a", "/b", "/token", "/b"]
        valid = "nobody"
        with pytest.raises(ConfigError, match="refuses the credentials") as caught:
            asker.ask(Call("c"))
        assert [heard.path for heard in server.heard][5:] == ["/c", "/token", "/c"]
    assert "t-2" not in str(caught.value)


def test_a_token_endpoint_in_trouble_is_asked_again_like_a_page(asker_of: Make, clock: NoTime) -> None:
    with AnsweringServer(in_turn(Said({}, 503), Said({"access_token": "t"}), OK)) as server:
        asker_of(server, login="me", password=CANARY, extra=OAUTH).ask(Call("a"))
        assert [heard.path for heard in server.heard] == ["/token", "/token", "/a"]


# The end of a poll


@pytest.mark.parametrize("path", ["slow", "busy"])
def test_a_poll_that_is_given_up_ends_what_it_waits_for(path: str) -> None:
    """At a real clock: an answer that does not come, and a pause of a minute."""
    has_come = threading.Event()

    def answer(peer: Peer) -> None:
        if path == "slow":
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1")
            has_come.set()
            peer.wait()
        peer.say(b"HTTP/1.1 429 No\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n")
        has_come.set()

    errors: list[ConnectError] = []

    def ask() -> None:
        try:
            asker.ask(Call(path))
        except ConnectError as error:
            errors.append(error)

    with RawServer(answer) as server:
        asker = JsonApi(Connection(conn_id="c", host=server.url), patience_seconds=300)
        thread = threading.Thread(target=ask)
        thread.start()
        assert has_come.wait(10)
        time.sleep(0.2)  # so that the pause has begun
        asker.close()
        asker.close()
        thread.join(10)
        assert not thread.is_alive()
        assert [type(error) for error in errors] == [RetriableError]
        with pytest.raises(RetriableError, match="given up"):
            asker.ask(Call("again"))
