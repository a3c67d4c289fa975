"""A connection is kept for the next request only where nothing can get mixed up by it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.http import pool as pooling
from airflow_provider_connect.clients.http.auth import basic_auth
from airflow_provider_connect.clients.http.http_connection import HttpConnection, HttpTimeouts
from airflow_provider_connect.clients.http.network import AddressPolicy
from airflow_provider_connect.clients.http.pool import ConnectionPool
from airflow_provider_connect.errors import ConfigError, RetriableError
from tests.equipment.http.authority import Authority
from tests.equipment.http.raw_server import GIVE_UP_SECONDS, Peer, RawServer
from tests.equipment.http.sending import request

AUTH = basic_auth(SecretStr("user"), SecretStr("secret"))
LIMITS = HttpTimeouts(
    connect_timeout_seconds=GIVE_UP_SECONDS, read_timeout_seconds=GIVE_UP_SECONDS, deadline_seconds=GIVE_UP_SECONDS
)
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    made = ConnectionPool()
    yield made
    made.close()


def saying(*answers: bytes) -> Callable[[Peer], None]:
    """Answer the requests of each connection in turn, and close it behind the last one."""

    def answer(peer: Peer) -> None:
        for number, each in enumerate(answers):
            if number:
                peer.request = b""
                peer.hear()
                if not peer.request:
                    return
            peer.say(each)

    return answer


@contextmanager
def serving(pool: ConnectionPool, answer: Callable[[Peer], None], **options: Any) -> Iterator[RawServer]:
    """Serve while the block runs; the server waits for its connections to be closed."""
    with RawServer(answer, **options) as server:
        try:
            yield server
        finally:
            pool.close()


def read(url: str, pool: ConnectionPool | None, **options: Any) -> bytes:
    with request(f"{url}/", {}, AUTH, LIMITS, pool=pool, **options) as answer:
        return b"".join(answer.chunks())


@pytest.mark.parametrize("whole", [WHOLE, CHUNKED], ids=["length", "chunks"])
def test_requests_go_over_one_connection(whole: bytes, pool: ConnectionPool) -> None:
    with serving(pool, saying(whole, whole, whole)) as server:
        assert [read(server.url, pool) for _ in range(3)] == [b"hello"] * 3
        assert len(server.peers) == 1


def test_tls_requests_go_over_one_connection(pool: ConnectionPool, tmp_path: Path) -> None:
    ours = Authority("ours")
    with serving(pool, saying(WHOLE, WHOLE, WHOLE), tls=ours.server(tmp_path)) as server:
        assert [read(server.url, pool, ca_bundle=ours.pem) for _ in range(3)] == [b"hello"] * 3
        assert len(server.peers) == 1
        with pytest.raises(ConfigError, match="ca_bundle in the connection"):
            read(server.url, pool)  # whoever trusts others has no part in it
        assert len(server.peers) == 2


def test_what_tls_has_decrypted_behind_an_answer_is_no_answer_to_the_next_request(
    pool: ConnectionPool, tmp_path: Path
) -> None:
    """The first answer ends where a read ends, so what is behind it in the same record has not been read yet."""
    ours = Authority("ours")
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    body = b"x" * (4096 - len(head % 4000))
    whole = head % len(body) + body
    assert len(whole) == 4096
    wrong = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
    with serving(pool, saying(whole + wrong, WHOLE), tls=ours.server(tmp_path)) as server:
        assert read(server.url, pool, ca_bundle=ours.pem) == body
        assert read(server.url, pool, ca_bundle=ours.pem) == body
        assert len(server.peers) == 2


def test_without_a_pool_each_request_has_its_own(pool: ConnectionPool) -> None:
    with serving(pool, saying(WHOLE, WHOLE)) as server:
        assert [read(server.url, None) for _ in range(2)] == [b"hello"] * 2
        assert len(server.peers) == 2


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        WHOLE + WHOLE,
        WHOLE + b"\n",
    ],
    ids=["it says so", "it says so among others", "HTTP/1.0", "an answer that nobody asked for", "a stray byte"],
)
def test_a_connection_that_may_not_be_kept_is_not(first: bytes, pool: ConnectionPool) -> None:
    with serving(pool, saying(first, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")) as server:
        for number in (1, 2):
            assert read(server.url, pool) == b"hello"
            assert len(server.peers) == number


def test_an_answer_that_comes_late_is_none_to_the_next_request(pool: ConnectionPool) -> None:
    said = threading.Event()

    def answer(peer: Peer) -> None:
        peer.say(WHOLE)
        if len(server.peers) == 1:
            time.sleep(0.05)
            peer.say(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            said.set()
            peer.wait()

    with serving(pool, answer) as server:
        assert read(server.url, pool) == b"hello"
        assert said.wait(GIVE_UP_SECONDS)
        time.sleep(0.05)
        assert read(server.url, pool) == b"hello"


def test_an_answer_that_was_not_read_to_its_end_is_not_kept(pool: ConnectionPool) -> None:
    with serving(pool, saying(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!", WHOLE)) as server:
        for number in (1, 2):
            with request(f"{server.url}/", {}, AUTH, LIMITS, pool=pool):
                pass
            assert len(server.peers) == number


def test_an_interrupted_answer_is_not_kept_even_if_it_has_come_whole(pool: ConnectionPool) -> None:
    with serving(pool, saying(WHOLE, WHOLE)) as server:
        with request(f"{server.url}/", {}, AUTH, LIMITS, pool=pool) as answer:
            assert b"".join(answer.chunks()) == b"hello"
            answer.interrupt()
        assert read(server.url, pool) == b"hello"
        assert len(server.peers) == 2


@pytest.mark.parametrize("hears", [True, False])
def test_what_the_server_has_closed_meanwhile_is_replaced_at_once(hears: bool, pool: ConnectionPool) -> None:
    """Whether it closes before the request or when it has heard it; each sending counts."""
    sent: list[None] = []

    def answer(peer: Peer) -> None:
        peer.say(WHOLE)
        if hears:
            peer.request = b""
            peer.hear()

    with serving(pool, answer) as server:
        for _ in range(2):
            assert read(server.url, pool, on_sent=lambda: sent.append(None)) == b"hello"
            time.sleep(0.05)
        assert len(server.peers) == 2
        assert len(sent) == 3 if hears else 2


def test_a_request_whose_answer_has_begun_is_not_sent_again(pool: ConnectionPool) -> None:
    with serving(pool, saying(WHOLE, b"H")) as server:
        read(server.url, pool)
        with pytest.raises(RetriableError, match="broke off inside the headers"):
            read(server.url, pool)
        assert len(server.peers) == 1


def test_a_new_connection_that_is_closed_without_an_answer_is_an_error(pool: ConnectionPool) -> None:
    with serving(pool, lambda _: None) as server:
        with pytest.raises(RetriableError, match="closed the connection without an answer"):
            read(server.url, pool)
        assert len(server.peers) == 1


def test_every_new_connection_is_checked_and_no_other_reach_uses_it(pool: ConnectionPool) -> None:
    class Counting(AddressPolicy):
        asked = 0

        def allowed_addresses(self, host: str, found: list[Any]) -> list[Any]:
            self.asked += 1
            return super().allowed_addresses(host, found)

    reach = Counting(frozenset({"127.0.0.1"}))
    with serving(pool, saying(WHOLE, WHOLE)) as server:
        for _ in range(4):
            assert read(server.url, pool, reach=reach) == b"hello"
            time.sleep(0.02)
        assert reach.asked == len(server.peers) == 2
        read(server.url, pool, reach=reach)
        with pytest.raises(ConfigError, match="Such addresses are refused"):
            read(server.url, pool, reach=AddressPolicy(frozenset()))


def test_a_kept_request_has_a_deadline_of_its_own(pool: ConnectionPool) -> None:
    def answer(peer: Peer) -> None:
        peer.say(WHOLE)
        peer.request = b""
        peer.hear()
        peer.trickle(b"HTTP/1.1 200 ")

    with serving(pool, answer) as server:
        read(server.url, pool)
        short = LIMITS.model_copy(update={"deadline_seconds": 0.3})
        with pytest.raises(RetriableError, match=r"request_deadline_seconds=0\.3"):
            request(f"{server.url}/", {}, AUTH, short, pool=pool)
        assert len(server.peers) == 1


def test_one_that_rested_too_long_is_closed(pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "IDLE_SECONDS", 0.0)
    with serving(pool, saying(WHOLE, WHOLE)) as server:
        for number in (1, 2):
            read(server.url, pool)
            assert len(server.peers) == number


def test_a_closed_pool_keeps_nothing(pool: ConnectionPool) -> None:
    with serving(pool, saying(WHOLE, WHOLE)) as server:
        read(server.url, pool)
        pool.close()
        for number in (2, 3):
            read(server.url, pool)
            assert len(server.peers) == number


def test_what_waits_for_its_answer_can_be_interrupted_and_is_not_sent_again(pool: ConnectionPool) -> None:
    heard = threading.Event()
    links: list[HttpConnection] = []
    errors: list[BaseException] = []

    def answer(peer: Peer) -> None:
        peer.say(WHOLE)
        peer.request = b""
        peer.hear()
        heard.set()
        peer.wait()

    def ask() -> None:
        try:
            read(server.url, pool, on_opened=links.append)
        except RetriableError as error:
            errors.append(error)

    with serving(pool, answer) as server:
        read(server.url, pool)
        thread = threading.Thread(target=ask)
        thread.start()
        assert heard.wait(GIVE_UP_SECONDS)
        links[0].interrupt()
        thread.join(GIVE_UP_SECONDS)
        assert [type(error) for error in errors] == [RetriableError]
        assert len(server.peers) == 1


def test_what_is_interrupted_before_it_is_open_is_not_asked(pool: ConnectionPool) -> None:
    with serving(pool, saying(WHOLE)) as server:
        with pytest.raises(RetriableError, match="given up"):
            read(server.url, None, on_opened=lambda link: link.interrupt())
        assert server.peers == []
