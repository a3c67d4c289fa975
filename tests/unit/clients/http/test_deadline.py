"""``request_deadline_seconds`` ends a request wherever the server is slow: not only while the body comes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import basic_auth
from airflow_provider_connect.clients.http.client import HttpResponse
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.errors import RetriableError
from tests.equipment.http.raw_server import GIVE_UP_SECONDS, Peer, RawServer
from tests.equipment.http.sending import request

AUTH = basic_auth(SecretStr("user"), SecretStr("secret"))
LIMITS = HttpTimeouts(
    connect_timeout_seconds=GIVE_UP_SECONDS, read_timeout_seconds=GIVE_UP_SECONDS, deadline_seconds=0.3
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SLOW = {
    "status line": (b"HTTP/1.1 200 ", b"x"),
    "100 continue": (b"HTTP/1.1 100 Continue\r\nX: ", b"x"),
    "after 100 continue": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ", b"x"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
    "body without an end": (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    "chunk size": (CHUNKED + b"5;", b"x"),
    "chunks": (CHUNKED, b"1\r\nx\r\n"),
    "inside a chunk": (CHUNKED + b"fffff\r\n", b"x"),
    "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n"),
}


def read(url: str, **options: SecretStr) -> None:
    with request(f"{url}/path", {}, AUTH, LIMITS, **options) as answer:
        for _ in answer.chunks():
            pass


@pytest.mark.parametrize("place", SLOW)
def test_slow_bytes_end_at_the_deadline(place: str) -> None:
    whole, slow = SLOW[place]

    def answer(peer: Peer) -> None:
        peer.say(whole)
        peer.trickle(slow)

    with RawServer(answer) as server, pytest.raises(RetriableError, match=r"request_deadline_seconds=0\.3"):
        read(server.url)


def test_a_slow_tls_handshake_ends_at_the_deadline() -> None:
    def answer(peer: Peer) -> None:
        peer.say(b"\x16\x03\x03\x40\x00")  # a record of 16 KB
        peer.trickle(b"\x02")

    with RawServer(answer, hears=False) as server, pytest.raises(RetriableError, match="request_deadline_seconds"):
        read(server.url.replace("http:", "https:"))


def test_a_slow_proxy_ends_at_the_deadline() -> None:
    def answer(peer: Peer) -> None:
        peer.say(b"HTTP/1.1 200 ")
        peer.trickle(b"x")

    with RawServer(answer) as server, pytest.raises(RetriableError, match="request_deadline_seconds"):
        read("https://nowhere.invalid", proxy=SecretStr(server.url))


@pytest.fixture
def mute_name_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """One that answers when the test is over; yields what it was asked and has answered."""
    over = threading.Event()
    answered: list[str] = []

    def asked(host: str, port: int, **options: Any) -> Any:
        over.wait(GIVE_UP_SECONDS)
        answered.append(host)
        raise socket.gaierror

    monkeypatch.setattr("socket.getaddrinfo", asked)
    yield answered
    over.set()


@pytest.mark.parametrize("proxy", [None, SecretStr("http://proxy.example:3128")], ids=["directly", "proxy"])
def test_a_slow_name_service_ends_at_the_deadline(mute_name_service: list[str], proxy: SecretStr | None) -> None:
    with pytest.raises(RetriableError, match=r"request_deadline_seconds=0\.3") as caught:
        request("https://name.example", {}, AUTH, LIMITS, proxy=proxy)
    assert mute_name_service == []
    assert caught.value.__cause__ is None


def test_a_reader_that_is_slow_itself_ends_at_the_deadline() -> None:
    def answer(peer: Peer) -> None:
        peer.say(CHUNKED)
        peer.pour(b"1\r\nx\r\n")

    def read_slowly(found: HttpResponse) -> None:
        for _ in found.chunks():
            threading.Event().wait(0.05)

    with RawServer(answer) as server, request(f"{server.url}/", {}, AUTH, LIMITS) as found:  # noqa: SIM117
        with pytest.raises(RetriableError, match="request_deadline_seconds"):
            read_slowly(found)


def test_a_slow_error_is_told_by_its_status_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.clients.http.client._ERROR_SECONDS", 0.2)
    patient = LIMITS.model_copy(update={"deadline_seconds": GIVE_UP_SECONDS})

    def answer(peer: Peer) -> None:
        peer.say(b"HTTP/1.1 500 Trouble\r\nContent-Length: 9000\r\n\r\nbecause ")
        peer.trickle(b"x")

    with RawServer(answer) as server, request(f"{server.url}/", {}, AUTH, patient) as found:
        assert found.text().text.startswith("because x")


def test_no_thread_and_no_socket_is_left() -> None:
    before = set(threading.enumerate())
    with RawServer(lambda peer: peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")) as server:
        for _ in range(3):
            read(server.url)
        with pytest.raises(RetriableError), socket.create_server(("127.0.0.1", 0)) as silent:
            read(f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert {thread for thread in set(threading.enumerate()) - before if thread.name == "http-deadline"} == set()
