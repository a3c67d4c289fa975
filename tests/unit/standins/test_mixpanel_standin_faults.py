from __future__ import annotations

import base64
import datetime as dt
import gzip
import json
import re
import socket
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.standins.mixpanel.access import Account
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import (
    ANSWER_KINDS,
    GZIP_KINDS,
    KINDS,
    LINE_KINDS,
    PAGE_KINDS,
    REPORT_KINDS,
    RETRIABLE_KINDS,
    Fault,
    FaultSchedule,
    seeded_schedule,
)
from tests.standins.mixpanel.server import StandIn
from tests.standins.wire import WIRE_KINDS, Framing

DATE = dt.date(2026, 10, 5)
PROJECT = Project(seed=3, events_per_day=60, duplicates_per_day=4)
LINES = list(PROJECT.lines(DATE))
WHOLE = b"".join(LINES)


class Reply(NamedTuple):
    """What came over one connection until it ended, and how it ended."""

    head: str
    rest: bytes
    end: str
    seconds: float

    @property
    def status(self) -> int:
        return int(self.head.split()[1])

    def header(self, name: str) -> str | None:
        found = re.search(rf"^{name}: (.*)\r$", self.head, re.MULTILINE | re.IGNORECASE)
        return found[1] if found else None

    def body(self) -> bytes:
        """Take the framing off; it must be whole."""
        if self.header("Content-Length") is not None:
            assert len(self.rest) == int(self.header("Content-Length") or 0)
            return self.rest
        body, whole = dechunk(self.rest)
        assert whole
        return body

    def text(self) -> bytes:
        body = self.body()
        return gzip.decompress(body) if self.header("Content-Encoding") == "gzip" else body


def dechunk(raw: bytes) -> tuple[bytes, bool]:
    body = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        length = int(size, 16)
        if len(raw) < length + 2:
            return body + raw[:length], False
        body, raw = body + raw[:length], raw[length + 2 :]
        if length == 0:
            return body, raw == b""
    return body, False


def fetch(standin: StandIn, accept: str = "gzip") -> Reply:
    """Send one request by hand and read until the connection ends."""
    credentials = base64.b64encode(f"{Account.username}:{standin.account.secret}".encode()).decode()
    request = (
        f"GET /api/2.0/export?from_date={DATE}&to_date={DATE}&project_id={Account.project_id} HTTP/1.1\r\n"
        f"Host: x\r\nAuthorization: Basic {credentials}\r\nAccept-Encoding: {accept}\r\nConnection: close\r\n\r\n"
    )
    received, end, started = b"", "closed", time.monotonic()
    with socket.create_connection(("127.0.0.1", standin.port), timeout=10) as connection:
        connection.sendall(request.encode())
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            end = "reset"
    head, _, rest = received.partition(b"\r\n\r\n")
    return Reply(head.decode() + "\r\n", rest, end, time.monotonic() - started)


def faulty(kind: str, framing: Framing = "chunked", accept: str = "gzip", **options: Any) -> Reply:
    """Fetch with one fault, and check that the next request is served whole."""
    with StandIn(PROJECT, faults=[Fault(kind, **options)], framing=framing) as standin:
        reply = fetch(standin, accept)
        assert standin.stats["faults"] == {kind: 1}
        assert fetch(standin, accept).text() == WHOLE
    return reply


def unparsable(line: bytes) -> bool:
    try:
        json.loads(line, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return True
    return False


@pytest.mark.parametrize("framing", ["chunked", "length"])
@pytest.mark.parametrize("accept", ["gzip", "identity"])
def test_without_a_fault_the_framing_is_whole(framing: Framing, accept: str) -> None:
    with StandIn(PROJECT, framing=framing) as standin:
        reply = fetch(standin, accept)
    assert (reply.status, reply.text(), reply.end) == (200, WHOLE, "closed")


@pytest.mark.parametrize("accept", ["gzip", "identity"])
def test_terminated_early(accept: str) -> None:
    reply = faulty("terminated_early", at=0.25, accept=accept)
    assert reply.status == 200
    assert reply.text() == b"".join(LINES[:16]) + b"terminated early\n"


@pytest.mark.parametrize("kind", ["error_line", "bad_line", "nan_line", "bad_utf8", "no_event", "duplicate_keys"])
def test_a_bad_line_is_put_among_whole_ones(kind: str) -> None:
    lines = faulty(kind, at=0.5, count=2).text().split(b"\n")
    assert [line + b"\n" for line in lines[:32] + lines[34:-1]] == LINES
    bad = lines[32]
    assert bad == lines[33]
    expected = {
        "error_line": lambda: json.loads(bad).keys() == {"error"},
        "bad_line": lambda: unparsable(bad),
        "nan_line": lambda: unparsable(bad) and not unparsable(bad.replace(b"NaN", b"1")),
        "bad_utf8": lambda: bad.decode(errors="ignore") != bad.decode(errors="replace"),
        "no_event": lambda: json.loads(bad).keys() == {"properties"},
        "duplicate_keys": lambda: len(json.loads(bad, object_pairs_hook=list)) == 3,
    }
    assert expected[kind]()


def test_split_record_can_be_joined_again() -> None:
    lines = faulty("split_record", at=0.5).text().split(b"\n")
    first, second = lines[32:34], lines[34:36]
    assert all(map(unparsable, first + second))
    assert b"".join(first) + b"\n" == LINES[32]
    assert first[0].split(b'"$browser":"')[1].isalpha()
    assert b"".join(second) + b"\n" == LINES[33]
    assert second[0].endswith(b'"properties":{')
    assert len(lines) - 1 == len(LINES) + 2


def test_huge_line_is_valid() -> None:
    lines = faulty("huge_line", size_bytes=3_000_000).text().split(b"\n")
    assert len(json.loads(lines[32])["properties"]["text"]) == 3_000_000


def test_other_zone_is_outside_the_day() -> None:
    lines = faulty("other_zone", count=3).text().split(b"\n")[:-1]
    assert len(lines) == len(LINES) + 3
    strangers = [json.loads(line)["properties"] for line in lines if line + b"\n" not in set(LINES)]
    assert len({stranger["$insert_id"] for stranger in strangers}) == 3
    for stranger in strangers:
        assert dt.datetime.fromtimestamp(stranger["time"], dt.UTC).date() > DATE


def test_cut_last_line() -> None:
    text = faulty("cut_last_line").text()
    assert WHOLE.startswith(text)
    assert text.count(b"\n") == len(LINES) - 1
    assert unparsable(text.rpartition(b"\n")[2])


@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_cut_gzip_has_valid_framing(framing: Framing) -> None:
    for at in (0.5, 1.0):
        body = faulty("cut_gzip", framing, at=at).body()
        decoder = zlib.decompressobj(31)
        assert WHOLE.startswith(decoder.decompress(body))
        assert not decoder.eof


def test_no_trailer() -> None:
    body = faulty("no_trailer").body()
    decoder = zlib.decompressobj(31)
    assert decoder.decompress(body) == WHOLE
    assert not decoder.eof


def test_bad_crc() -> None:
    with pytest.raises(gzip.BadGzipFile, match="CRC"):
        gzip.decompress(faulty("bad_crc").body())


def test_garbage_after() -> None:
    decoder = zlib.decompressobj(31)
    assert decoder.decompress(faulty("garbage_after").body()) == WHOLE
    assert decoder.eof
    assert decoder.unused_data == b"garbage after the stream"


def test_multi_member_is_valid() -> None:
    body = faulty("multi_member").body()
    assert gzip.decompress(body) == WHOLE
    members = 0
    while body:
        decoder = zlib.decompressobj(31)
        decoder.decompress(body)
        assert decoder.eof
        body, members = decoder.unused_data, members + 1
    assert members == 3


def test_a_gzip_fault_waits_for_a_client_that_takes_gzip() -> None:
    with StandIn(PROJECT, faults=[Fault("bad_crc")]) as standin:
        assert fetch(standin, "identity").text() == WHOLE
        with pytest.raises(gzip.BadGzipFile):
            fetch(standin).text()


@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_cut_chunked_ends_inside_a_chunk(framing: Framing) -> None:
    reply = faulty("cut_chunked", framing, accept="identity", at=0.4)
    body, whole = dechunk(reply.rest)
    assert (whole, reply.end) == (False, "closed")
    assert body == WHOLE[: int(len(WHOLE) * 0.4)]


def test_short_length_promises_more_than_comes() -> None:
    for at in (0.3, 1.0):
        reply = faulty("short_length", accept="identity", at=at)
        assert reply.rest == WHOLE[: int(len(WHOLE) * at)]
        assert int(reply.header("Content-Length") or 0) == len(WHOLE) + 1


def test_eof_delimited_has_no_framing() -> None:
    reply = faulty("eof_delimited")
    assert reply.header("Content-Length") is reply.header("Transfer-Encoding") is None
    assert gzip.decompress(reply.rest) == WHOLE


def test_reset_comes_in_the_middle_of_the_body() -> None:
    reply = faulty("reset", "length", accept="identity", at=0.5)
    assert reply.end == "reset"
    assert reply.status == 200
    assert reply.rest == WHOLE[: len(WHOLE) // 2]


def test_refuse_says_nothing() -> None:
    reply = faulty("refuse")
    assert (reply.head, reply.rest, reply.end) == ("\r\n", b"", "closed")


def test_silent_waits_and_then_says_nothing() -> None:
    reply = faulty("silent", seconds=0.3)
    assert (reply.head, reply.rest) == ("\r\n", b"")
    assert reply.seconds >= 0.3


def test_slow_trickles_and_is_whole() -> None:
    reply = faulty("slow", size_bytes=2000, seconds=0.02)
    assert reply.text() == WHOLE
    assert reply.seconds >= 0.02 * (len(reply.body()) // 2000 - 1)


def test_the_server_does_not_wait_for_its_slow_answers() -> None:
    started = time.monotonic()
    with StandIn(PROJECT, faults=[Fault("slow", size_bytes=1, seconds=60)]) as standin:
        with socket.create_connection(("127.0.0.1", standin.port), timeout=10) as connection:
            connection.sendall(b"GET /api/2.0/export HTTP/1.1\r\n\r\n")
            assert b" 401 " in connection.recv(100)
            standin.__exit__(None, None, None)
            while connection.recv(65536):
                continue
        assert time.monotonic() - started < 5


def test_status_has_any_code_headers_and_body() -> None:
    reply = faulty("status", status=302, headers={"Location": "http://169.254.169.254/"}, body="moved")
    assert (reply.status, reply.header("Location"), reply.body()) == (302, "http://169.254.169.254/", b"moved")


@pytest.mark.parametrize(
    ("kind", "content_type"), [("html", "text/html; charset=utf-8"), ("html_as_text", "text/plain")]
)
def test_login_pages(kind: str, content_type: str) -> None:
    reply = faulty(kind)
    assert (reply.status, reply.header("Content-Type")) == (200, content_type)
    assert reply.body().startswith(b"<!DOCTYPE html>")


@pytest.mark.parametrize("accept", ["gzip", "identity"])
def test_zeros(accept: str) -> None:
    reply = faulty("zeros", size_bytes=5_000_001, accept=accept)
    assert reply.text() == bytes(5_000_001)
    assert (len(reply.body()) < 100_000) == (accept == "gzip")


def test_error_document_and_empty_are_200() -> None:
    reply = faulty("error_document")
    assert reply.status == 200
    assert "error" in json.loads(reply.body())
    reply = faulty("empty")
    assert (reply.status, reply.body()) == (200, b"")


def test_every_kind_is_on_one_level_and_is_tested_here() -> None:
    levels = [LINE_KINDS, GZIP_KINDS, ANSWER_KINDS, WIRE_KINDS, PAGE_KINDS, REPORT_KINDS, {"none"}]
    assert sum(map(len, levels)) == len(KINDS)
    source = "".join(
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in (Path(__file__).name, "test_mixpanel_query.py", "test_mixpanel_reports.py")
    )
    assert [kind for kind in KINDS if f'"{kind}"' not in source] == []
    assert [kind for kind in KINDS if not re.search(rf"^    {kind} ", Fault.__doc__ or "", re.MULTILINE)] == []


def test_a_request_takes_the_first_fault_that_fits() -> None:
    other = DATE + dt.timedelta(days=1)
    always = Fault("empty", times=None)
    schedule = FaultSchedule([Fault("none", date=DATE), Fault("html", date=other), Fault("zeros", date=DATE), always])
    taken = [schedule.take([DATE], accepts_gzip=True) for _ in range(4)]
    assert [fault.kind for fault in taken if fault] == ["none", "zeros", "empty", "empty"]
    span = schedule.take([DATE, other], accepts_gzip=True)
    assert span is not None
    assert span.kind == "html"
    assert schedule.remaining() == [always]


def test_a_fault_survives_json() -> None:
    fault = Fault("status", date=DATE, times=None, status=429, headers={"Retry-After": "7"})
    assert Fault.from_json(json.loads(json.dumps(fault.as_json()))) == fault


def test_unknown_faults_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown fault 'typo'"):
        Fault("typo")
    with pytest.raises(ValueError, match="fraction"):
        Fault("reset", at=1.5)


def test_a_seeded_schedule_is_repeatable_and_retriable() -> None:
    dates = [DATE + dt.timedelta(days=i) for i in range(200)]
    faults = seeded_schedule(5, dates, 0.3)
    assert faults == seeded_schedule(5, reversed(dates), 0.3)
    assert faults != seeded_schedule(6, dates, 0.3)
    assert 30 < len(faults) < 90
    assert {fault.kind for fault in faults} == set(RETRIABLE_KINDS)
    assert len(seeded_schedule(5, dates, 1.0)) == 200
    assert seeded_schedule(5, dates, 0.0) == []
