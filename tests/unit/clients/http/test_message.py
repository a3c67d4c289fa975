"""What is a whole answer and what could be a cut one: byte by byte, and over a real socket."""

from __future__ import annotations

import socket
import tracemalloc
from contextlib import suppress
from typing import Any

import httpcore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import basic_auth
from airflow_provider_connect.clients.http.client import ERROR_TEXT_BYTES, HttpResponse
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.message import BrokenAnswerError, Exchange
from airflow_provider_connect.errors import ConfigError, RetriableError
from tests.equipment.http.raw_server import GIVE_UP_SECONDS, Peer, RawServer
from tests.equipment.http.sending import request

AUTH = basic_auth(SecretStr("user"), SecretStr("secret"))
LIMITS = HttpTimeouts(
    connect_timeout_seconds=GIVE_UP_SECONDS, read_timeout_seconds=GIVE_UP_SECONDS, deadline_seconds=GIVE_UP_SECONDS
)
OK = b"HTTP/1.1 200 OK\r\n"
BODY = b"a day's events\n"
WHOLE = {
    "length": OK + b"Content-Length: 15\r\n\r\n" + BODY,
    "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\na day\r\n0A\r\n's events\n\r\n0\r\n\r\n",
    "padded chunks": OK + b"Transfer-Encoding: Chunked\r\n\r\n000f;x=y\r\n" + BODY + b"\r\n0000\r\nTrailer: z\r\n\r\n",
    "bare newlines": b"HTTP/1.0 200\ncontent-length:15 \n\n" + BODY,
    "interim answers": b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" * 3 + OK + b"Content-Length: 15\r\n\r\n" + BODY,
}


def ask(server: RawServer) -> HttpResponse:
    return request(f"{server.url}/", {}, AUTH, LIMITS)


def read_framed(server: RawServer) -> None:
    with ask(server) as answer:
        answer.require_framing()
        list(answer.chunks())


class Wire(httpcore.NetworkStream):
    """A connection over which so many bytes come, before it ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data, self._data = self._data[:max_bytes], self._data[max_bytes:]
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Lose it."""


def read(data: bytes) -> tuple[int, bytes]:
    exchange = Exchange(Wire(data), GIVE_UP_SECONDS)
    exchange.send("GET", "/", {"Host": "api.example"}, b"")
    head = exchange.read_head()
    if not head.is_framed:
        raise BrokenAnswerError("unframed")
    return head.status, b"".join(exchange.read_body(1 << 10))


@pytest.mark.parametrize("name", WHOLE)
def test_complete_answers_are_read(name: str) -> None:
    assert read(WHOLE[name]) == (200, BODY)
    assert read(WHOLE[name] + b"HTTP/1.1 200 OK\r\n") == (200, BODY)


@pytest.mark.parametrize("name", WHOLE)
def test_no_cut_answer_passes_for_a_whole_one(name: str) -> None:
    """At whichever byte the connection ends: it is the body, or an error. A zero of a chunk's size is no last chunk."""
    whole = WHOLE[name]
    for at in range(len(whole)):
        with suppress(BrokenAnswerError):
            assert read(whole[:at])[1] == BODY
            assert at > whole.index(BODY[-10:]) + 9


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(st.binary(min_size=1, max_size=30), max_size=5), st.data())
def test_a_cut_at_any_place_of_any_chunks(pieces: list[bytes], data: st.DataObject) -> None:
    sizes = [f"{'0' * data.draw(st.integers(0, 3))}{len(piece):x}" for piece in pieces]
    chunks = [size.encode() + b"\r\n" + piece + b"\r\n" for size, piece in zip(sizes, pieces, strict=True)]
    whole = OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\n"
    assert read(whole + b"\r\n") == (200, b"".join(pieces))
    with pytest.raises(BrokenAnswerError):
        read(whole[: data.draw(st.integers(0, len(whole) - 1))])


UNFRAMED = {
    "nothing": b"",
    "notchunked": b"Transfer-Encoding: notchunked\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n",
    "gzip, chunked": b"Transfer-Encoding: gzip, chunked\r\n",
    "two codings": b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
    "identity": b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "superscript": "Content-Length: ²\r\n".encode("latin-1"),
    "superscript in utf-8": "Content-Length: ²\r\n".encode(),
    "arabic": "Content-Length: \u0665\r\n".encode(),
    "plus": b"Content-Length: +5\r\n",
    "minus": b"Content-Length: -5\r\n",
    "list": b"Content-Length: 5, 6\r\n",
    "two": b"Content-Length: 5\r\nContent-Length: 6\r\n",
    "hex": b"Content-Length: 0x10\r\n",
    "underscore": b"Content-Length: 1_0\r\n",
    "fraction": b"Content-Length: 5.0\r\n",
    "empty": b"Content-Length:\r\n",
    "space": b"Content-Length: 1 5\r\n",
    "huge": b"Content-Length: " + b"9" * 30 + b"\r\n",
}


@pytest.mark.parametrize("name", UNFRAMED)
def test_a_length_that_can_be_read_in_two_ways_is_none(name: str) -> None:
    with (
        RawServer(lambda peer: peer.say(OK + UNFRAMED[name] + b"\r\nhello")) as server,
        pytest.raises(RetriableError, match="neither Content-Length nor chunks"),
        ask(server) as answer,
    ):
        answer.require_framing()


@pytest.mark.parametrize(
    "lengths", [b"Content-Length: 15, 15\r\n", b"Content-Length: 15\r\ncontent-length: 15\r\n"], ids=["list", "two"]
)
def test_a_length_that_is_said_twice_is_one(lengths: bytes) -> None:
    assert read(OK + lengths + b"\r\n" + BODY) == (200, BODY)
    with pytest.raises(BrokenAnswerError, match="before the announced end"):
        read(OK + lengths + b"\r\n" + BODY[:-1])


BROKEN = {
    "no http": b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "http/2": b"HTTP/2 200\r\n\r\n",
    "http/2.0": b"HTTP/2.0 200\r\nContent-Length: 0\r\n\r\n",
    "http/1.2": b"HTTP/1.2 200\r\nContent-Length: 0\r\n\r\n",
    "http/0.9": b"HTTP/0.9 200\r\nContent-Length: 0\r\n\r\n",
    "switched": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "folded": OK + b"X: y\r\n Content-Length: 5\r\n\r\n",
    "space before the colon": OK + b"Content-Length : 5\r\n\r\n",
    "bare cr": OK + b"X: y\rContent-Length: 5\r\n\r\n",
    "no colon": OK + b"Content-Length 5\r\n\r\n",
    "endless headers": OK + b"X: y\r\n" * 20_000,
    "endless header": OK + b"X: " + b"y" * 100_000,
    "endless interim answers": b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
    "signed chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    "hex chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "negative chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    "empty chunk size": OK + b"Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
    "chunk longer than said": OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
    "endless chunk size": OK + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"x" * 100_000,
    "endless trailers": OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 20_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_answers_are_retriable(name: str) -> None:
    with pytest.raises(BrokenAnswerError):
        read(BROKEN[name])
    with RawServer(lambda peer: peer.say(BROKEN[name])) as server, pytest.raises(RetriableError, match=r"127\.0\.0\.1"):
        read_framed(server)


def test_a_server_that_answers_nothing() -> None:
    with RawServer(lambda peer: None) as server, pytest.raises(RetriableError, match="without an answer"):
        request(f"{server.url}/", {}, AUTH, LIMITS)


def test_the_request_is_plain_http() -> None:
    with RawServer(lambda peer: peer.say(WHOLE["length"])) as server:
        request(f"{server.url}/a/b", {"q": "é &=+\r\nX: y"}, AUTH, LIMITS).__exit__(None, None, None)
        lines = server.peers[0].request.decode("ascii").split("\r\n")
    assert lines[0] == "GET /a/b?q=%C3%A9+%26%3D%2B%0D%0AX%3A+y HTTP/1.1"
    assert f"Host: 127.0.0.1:{server.port}" in lines
    assert "Authorization: Basic dXNlcjpzZWNyZXQ=" in lines
    assert "Accept-Encoding: gzip" in lines
    assert not any(line.startswith("X:") for line in lines)


@pytest.mark.parametrize("host", ["a..b", "a b", "-" * 300, "ä" * 100, "127.0.0.1:99999", ""])
def test_an_invalid_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="not a valid host"):
        request(f"http://{host}/", {}, AUTH, LIMITS)


ENDLESS = {
    "length": b"Content-Length: 99999999999\r\n\r\n",
    "chunks": b"Transfer-Encoding: chunked\r\n\r\n",
    "nothing": b"\r\n",
    "gzip": b"Content-Encoding: gzip\r\nContent-Length: 99999999999\r\n\r\n",
}
PIECE = b"x" * (1 << 16)


def endless(status: bytes, framing: str) -> Any:
    def answer(peer: Peer) -> None:
        peer._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        peer.say(b"HTTP/1.1 " + status + b"\r\nLocation: http://else.example/\r\n" + ENDLESS[framing])
        peer.pour(b"10000\r\n" + PIECE + b"\r\n" if framing == "chunks" else PIECE)

    return answer


@pytest.mark.parametrize("framing", ENDLESS)
@pytest.mark.parametrize("status", [b"302 Found", b"307 Temporary Redirect", b"500 Trouble", b"403 Forbidden"])
def test_an_endless_error_is_left_after_a_few_kilobytes(status: bytes, framing: str) -> None:
    tracemalloc.start()
    try:
        with RawServer(endless(status, framing)) as server:
            with suppress(ConfigError), ask(server) as answer:
                answer.text()
                assert answer.wire_bytes <= ERROR_TEXT_BYTES + (1 << 10), "one read more than is kept"
            peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20
    assert server.peers[0].sent < 64 << 20, "what the system's own buffers take, and no more"
