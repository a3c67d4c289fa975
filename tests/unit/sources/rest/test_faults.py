"""What goes wrong on the wire (H1-H15), seen by a day of pages: the page is asked for again, or the day is none."""

from __future__ import annotations

import functools
import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_connect.clients.http import json_api
from airflow_provider_connect.clients.http.asking import pacing
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, QuotaError, RetriableError
from airflow_provider_connect.sources._rest import poller
from airflow_provider_connect.sources.rest import PageNumber, RateLimits, RestSource
from airflow_provider_connect.testing.polls import Poll, poll
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer, Heard, Said
from tests.equipment.http.authority import Authority
from tests.equipment.http.raw_server import Peer, RawServer
from tests.equipment.rest_api.items import DATE, items_of
from tests.equipment.rest_api.reading import DAY, declared, ids

CANARY = "canary-7f"
ITEMS = items_of(DATE, 20)
BODY = json.dumps(ITEMS[10:]).encode()
ZIPPED = gzip.compress(BODY)
PAGED = PageNumber(ends="empty_page")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> NoTime:
    """Return the clock of all pauses; a port may come twice, and with it what another test left in this process."""
    clock = NoTime()
    monkeypatch.setattr(json_api, "_PollClock", lambda _: clock)
    monkeypatch.setattr(pacing, "_paces", {})
    return clock


def said(body: bytes, *fields: bytes, status: bytes = b"200 OK", length: int | None = None) -> bytes:
    size = b"Content-Length: %d" % (len(body) if length is None else length)
    return b"\r\n".join([b"HTTP/1.1 " + status, size, *fields, b"", body])


def zipped(body: bytes) -> bytes:
    return said(body, b"Content-Encoding: gzip")


def chunked(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body


def busy(status: bytes, *fields: bytes) -> bytes:
    return said(b"{}", *fields, status=status)


def resets(peer: Peer) -> None:
    peer.say(said(BODY)[:-100])
    peer.reset()


WRONG_SUM = ZIPPED[:-8] + struct.pack("<I", 1) + ZIPPED[-4:]
FAULTS: dict[str, bytes | Callable[[Peer], None]] = {
    "H1 shorter than its Content-Length": said(BODY, length=len(BODY) + 100),
    "H2 without the last chunk": chunked(b"%x\r\n%s\r\n" % (len(BODY), BODY)),
    "H2 cut inside a chunk": chunked(b"%x\r\n%s" % (len(BODY) + 9, BODY)),
    "H3 gzip cut in valid framing": zipped(ZIPPED[: len(ZIPPED) // 2]),
    "H4 gzip without its trailer": zipped(ZIPPED[:-8]),
    "H4 gzip with a wrong checksum": zipped(WRONG_SUM),
    "H4 garbage after the gzip": zipped(ZIPPED + b"garbage"),
    "H6 neither length nor chunks": b"HTTP/1.1 200 OK\r\n\r\n" + BODY,
    "H8 a login page": said(b"<html>log in</html>", b"Content-Type: text/html"),
    "H8 an empty body": said(b""),
    "H9 Retry-After of 0": busy(b"429 Slow", b"Retry-After: 0"),
    "H9 Retry-After in the past": busy(b"429 Slow", b"Retry-After: Thu, 01 Jan 1970 00:00:00 GMT"),
    "H9 Retry-After that says nothing": busy(b"429 Slow", b"Retry-After: soon"),
    "H9 no Retry-After": busy(b"429 Slow"),
    "H11 a 500": busy(b"500 No"),
    "H11 a 502": busy(b"502 No"),
    "H11 a 503": busy(b"503 No"),
    "H11 a 504": busy(b"504 No"),
    "H14 closed without a word": b"",
    "H14 reset in the middle": resets,
    "R2 an encoding that nobody asked for": said(BODY, b"Content-Encoding: br"),
}


class Api:
    """Two pages and an empty one; the second is answered with a fault, so often."""

    def __init__(self, fault: bytes | Callable[[Peer], None], times: int = 10_000) -> None:
        self._fault = fault
        self._left = times
        self.asked: list[str] = []

    def __call__(self, peer: Peer) -> None:
        (page,) = parse_qs(urlsplit(peer.request.split()[1].decode()).query)["page"]
        self.asked.append(page)
        if page == "2" and self._left:
            self._left -= 1
            return self._fault(peer) if callable(self._fault) else peer.say(self._fault)
        peer.say(said(json.dumps({"1": ITEMS[:10], "2": ITEMS[10:], "3": []}[page]).encode()))
        return None


def read(url: str, source: RestSource | None = None, **fields: Any) -> Poll:
    connection = Connection(conn_id="api", conn_type="http", host=url, login="me", password=CANARY, **fields)
    return poll(source or declared("/items", PAGED), connection, DAY)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_page_that_fails_once_costs_a_page_and_no_row(fault: str, clock: NoTime) -> None:
    api = Api(FAULTS[fault], times=1)
    with RawServer(api) as server:
        assert ids(read(server.url)) == [each["id"] for each in ITEMS]
    assert api.asked == ["1", "2", "2", "3"]
    assert clock.pauses, "it is not asked again in the same moment"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_page_that_always_fails_is_no_end_of_the_day(fault: str, clock: NoTime) -> None:
    """dlt #4036: and no wait of 0 burns all tries in a moment."""
    api = Api(FAULTS[fault])
    with RawServer(api) as server, pytest.raises(RetriableError, match=r"\d+ tries in \d+ s") as caught:
        read(server.url)
    assert 3 <= len(api.asked) <= 20
    assert clock.seconds > 100
    assert CANARY not in str(caught.value)
    assert "log in" not in str(caught.value)


def test_h5_every_member_of_a_gzip_page_is_read() -> None:
    half = len(BODY) // 2
    body = gzip.compress(BODY[:half]) + gzip.compress(b"") + gzip.compress(BODY[half:])
    with RawServer(Api(zipped(body))) as server:
        assert ids(read(server.url)) == [each["id"] for each in ITEMS]


@pytest.mark.parametrize("body", [BODY[:-1], BODY[: len(BODY) // 2], b'{"error": "no"}', b"[] []", b"null"])
def test_h7_h8_a_page_that_is_whole_and_no_list_is_no_short_day(body: bytes) -> None:
    """The last record cut, half a page, an error document with status 200."""
    with RawServer(Api(said(body))) as server, pytest.raises(RetriableError, match="page 2: the "):
        read(server.url)


@pytest.mark.parametrize("after", [b"99999999", b"Thu, 05 Nov 2099 11:00:00 GMT"])
def test_h9_a_wait_of_years_is_an_hour_and_not_this_task_s(after: bytes, clock: NoTime) -> None:
    api = Api(busy(b"429 Slow", b"Retry-After: " + after))
    with RawServer(api) as server, pytest.raises(RetriableError) as caught:
        read(server.url)
    assert caught.value.retry_after_seconds == 3600
    assert (api.asked, clock.pauses) == (["1", "2"], [])


def test_h10_a_long_wait_under_a_shared_limit_is_told_to_all_tasks_and_fails_none() -> None:
    """A task that gets this error waits for its turn without a worker; the others are told before they ask."""
    api = Api(busy(b"429 Slow", b"Retry-After: 1200"))
    with RawServer(api) as server, pytest.raises(QuotaError) as caught:
        read(server.url, declared("/items", PAGED, limits=RateLimits(per_hour=60)))
    assert caught.value.said == (0, 60, 1200)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_h12_a_refusal_in_the_middle_is_a_person_s_and_not_asked_again(status: int) -> None:
    api = Api(said(CANARY.encode(), status=b"%d No" % status))
    with RawServer(api) as server, pytest.raises(ConfigError, match=f"items, page 2.* answered {status}") as caught:
        read(server.url)
    assert api.asked == ["1", "2"]
    assert CANARY not in str(caught.value)


def hurried(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Let a page have less time than ten minutes."""
    times = HttpTimeouts(**{"connect_timeout_seconds": 5, "read_timeout_seconds": 5, "deadline_seconds": 5} | seconds)
    monkeypatch.setattr(poller, "JsonApi", functools.partial(JsonApi, timeouts=times))


AT_ONCE = declared("/items", PAGED, retry_budget_seconds=0)


def test_h13_a_page_that_trickles_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    def trickle(peer: Peer) -> None:
        peer.say(said(b"", length=100_000))
        peer.trickle(b" ")

    hurried(monkeypatch, deadline_seconds=0.3)
    with RawServer(Api(trickle)) as server, pytest.raises(RetriableError, match="did not finish its answer"):
        read(server.url, AT_ONCE)


def test_h14_a_server_that_never_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried(monkeypatch, read_timeout_seconds=0.2)
    with RawServer(Api(lambda peer: peer.wait())) as server, pytest.raises(RetriableError):
        read(server.url, AT_ONCE)


def test_h14_a_name_that_nobody_knows_may_be_known_later() -> None:
    with pytest.raises(RetriableError, match="name service"):
        read("https://name.invalid", AT_ONCE)


@pytest.mark.parametrize(
    ("host", "days", "trusted"),
    [("127.0.0.1", 1, False), ("else.example", 1, True), ("127.0.0.1", -1, True)],
    ids=["of nobody we know", "of another host", "expired"],
)
def test_h14_a_wrong_certificate_is_a_person_s_matter_and_gets_no_credentials(
    host: str, days: int, trusted: bool, tmp_path: Path
) -> None:
    ours = Authority("ours")
    extra = {"ca_bundle": ours.pem} if trusted else {}
    with RawServer(Api(b""), tls=ours.server(tmp_path, host, days=days)) as server:
        with pytest.raises(ConfigError, match="ca_bundle in the connection"):
            read(server.url, extra=extra)
        assert all(peer.request == b"" for peer in server.peers)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("key", ["header", "query"])
def test_h15_a_redirect_to_another_host_gets_neither_key_nor_headers(status: int, key: str) -> None:
    """R2: requests 2.34.2 sends a custom header along on a 307 to another host and port."""
    with AnsweringServer(lambda _: Said([])) as elsewhere:
        moved = Said(b"", status, {"Location": f"{elsewhere.url}/items?page=1"})
        with AnsweringServer(lambda _: moved) as server:
            extra = {"auth": "api_key", "send_as": "X-Key", "send_in": key, "headers": {"X-Tenant": CANARY}}
            with pytest.raises(ConfigError, match=f"leads to {elsewhere.url}, which .* so no request is sent"):
                read(server.url, extra=extra)
        assert elsewhere.heard == []


def test_h15_redirects_that_never_end_are_followed_a_few_times() -> None:
    def around(heard: Heard) -> Said:
        return Said(b"", 302, {"Location": f"/items?page=1&round={len(heard.params)}"})

    with AnsweringServer(around) as server:
        with pytest.raises(ConfigError, match="redirects more than 5 times"):
            read(server.url)
        assert len(server.heard) == 6
