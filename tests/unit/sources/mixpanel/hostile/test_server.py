"""A server that means harm, on a real socket: what one poll of it costs, ends with, and tells."""

import base64
import datetime as dt
import gzip
import html
import json
import time
import tracemalloc
from urllib.parse import quote

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DeadlineError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.equipment.http.raw_server import RawServer

DAY = Day(date=dt.date(2026, 3, 1))
LOGIN, PASSWORD = "canary'hidden<1>", "canary\"s & 'secret' %41/\\ü"
GOOD = b'{"event":"good","properties":{"time":1772323200,"distinct_id":"d","$insert_id":"i"}}\n'
HEADS = {
    "length": lambda body: b"Content-Length: %d\r\n\r\n%s" % (len(body), body),
    "chunks": lambda body: b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body),
    "gzip": lambda body: b"Content-Encoding: gzip\r\n" + HEADS["length"](gzip.compress(body)),
}


def answering(body, framing="length", status=b"200 OK"):
    return lambda peer: peer.say(b"HTTP/1.1 " + status + b"\r\n" + HEADS[framing](body))


def poll(answer, **options):
    """Return the rows of a day and its tally."""
    tally = Tally()
    with RawServer(answer) as server:
        connection = Connection(conn_id="m", host=server.url, login=LOGIN, password=PASSWORD, extra={"project_id": "1"})
        with MixpanelSource(**options).open(connection, PollContext()) as poller:
            (part,) = poller.plan([DAY])
            return [row for _, batch in poller.poll(part, tally) for row in batch.to_pylist()], tally


@pytest.mark.parametrize("framing", HEADS)
def test_millions_of_newlines_are_counted_in_little_memory(framing):
    _, tally = poll(answering(GOOD, framing))
    assert tally.announced_bytes == (0 if framing == "chunks" else tally.wire_bytes)
    body = GOOD + b"\n" * 4_300_000 + GOOD
    answer = answering(body, framing)
    tracemalloc.start()
    rows, tally = poll(answer)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(rows), tally.counts["blank_lines"], tally.raw_bytes) == (1, 4_300_000, len(body))
    assert peak_bytes < 60 << 20


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_no_nesting_escapes_as_another_error(tolerance):
    for depth in range(900, 1000, 5):
        line = b'{"event":"e","properties":{"distinct_id":5,"a":%s1%s}}\n' % (b"[" * depth, b"]" * depth)
        try:
            rows, tally = poll(answering(GOOD + line + GOOD), errors_tolerance=tolerance)
        except ConnectError:
            assert tolerance == "none"
            continue
        assert len(rows) + len(tally.rejects) == 2


@pytest.mark.parametrize(
    "framing",
    [b"Transfer-Encoding: notchunked", "Content-Length: ²".encode("latin-1"), b"Content-Length: +93", b"X: y"],
)
def test_an_unframed_answer_is_no_day(framing):
    with pytest.raises(RetriableError, match="neither Content-Length nor chunks"):
        poll(lambda peer: peer.say(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n" + GOOD))


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", DeadlineError),
        (b"HTTP/1.1 200", DeadlineError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", DeadlineError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(GOOD), GOOD), RetriableError),
    ],
)
def test_silence_before_the_first_byte_is_a_deadline_and_later_it_is_a_broken_answer(sent, error):
    """Mixpanel prepares a large export for minutes before it sends any of it: the same request would do so again."""

    def answer(peer):
        peer.say(sent)
        time.sleep(1)

    with pytest.raises(RetriableError, match=r"sent nothing for read_timeout_seconds=0\.2") as caught:
        poll(answer, read_timeout_seconds=0.2)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    "head", [b"Content-Length: 99999999999\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n"]
)
@pytest.mark.parametrize(
    ("status", "error"), [(b"302 Found", ConfigError), (b"403 No", ConfigError), (b"500 Trouble", RetriableError)]
)
def test_an_endless_error_is_what_its_status_says(status, error, head):
    def answer(peer):
        peer.say(b"HTTP/1.1 " + status + b"\r\nLocation: http://else.example/\r\n" + head)
        peer.pour(b"x" * 65536)

    tracemalloc.start()
    with pytest.raises(error, match=status.decode()[:3]):
        poll(answer)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 4 << 20


ECHOES = {
    "as it is": str,
    "JSON": lambda text: json.dumps({"error": text}),
    "JSON, as careful servers write it": lambda text: json.dumps(text).replace("'", "\\u0027").replace("<", "\\u003C"),
    "a page": lambda text: f"<html><body>{html.escape(text)}</body></html>",
    "a page of numbers": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "a URL": lambda text: quote(text, safe=""),
    "a URL in lower case": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "JSON in a page": lambda text: html.escape(json.dumps(text)),
    "a page in JSON": lambda text: json.dumps({"error": html.escape(text)}),
}


@pytest.mark.parametrize("status", [b"400 Bad request", b"401 No", b"500 Trouble", b"200 OK", b"302 Found"])
@pytest.mark.parametrize("name", ECHOES)
def test_credentials_in_an_answer_are_never_quoted(name, status):
    def answer(peer):
        lines = peer.request.decode().split("\r\n")
        header = next(line for line in lines if line.startswith("Authorization: "))
        told = f"{header} is {base64.b64decode(header.split()[-1]).decode()}, {PASSWORD}, {LOGIN}"
        body = ECHOES[name](told)
        if status == b"200 OK":
            body = json.dumps({"error": body})
        location = b"Location: https://%s.example/\r\n" % quote(PASSWORD, safe="").encode()
        peer.say(b"HTTP/1.1 " + status + b"\r\n" + location + HEADS["length"](body.encode()))

    with pytest.raises(ConnectError) as caught:
        poll(answer)
    token = base64.b64encode(f"{LOGIN}:{PASSWORD}".encode()).decode()
    assert not [piece for piece in (token[:12], token[-12:], "secret", "hidden", "anary") if piece in str(caught.value)]
    assert caught.value.__cause__ is None
