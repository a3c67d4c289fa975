"""What a server gives back of a secret is not told, also where its answer breaks off inside it."""

from __future__ import annotations

import datetime as dt
import gzip
import time

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import basic_auth
from airflow_provider_connect.clients.http.client import ERROR_TEXT_BYTES, ErrorText, excerpt
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.secrets import Secrets
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.equipment.http.raw_server import Peer, RawServer
from tests.equipment.http.sending import request
from tests.unit.clients.http.test_message import AUTH, LIMITS
from tests.unit.test_secrets import ENCODINGS

PASSWORD = "hunter2supersecret"
HARD = 'Ca\'n<a>r&y "p\\w"%41+/é&amp;end'
ERROR = b'{"error":"bad password hunter2supersecre'
CUTS = {
    "length": b"Content-Length: 9000\r\n\r\n" + ERROR,
    "chunks": b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(ERROR), ERROR),
    "inside a chunk": b"Transfer-Encoding: chunked\r\n\r\nfff\r\n" + ERROR,
    "no framing": b"\r\n" + ERROR,
    "gzip": b"Content-Encoding: gzip\r\nContent-Length: 9000\r\n\r\n" + gzip.compress(ERROR + b'"}', 0)[:-11],
    "a gzip in a whole body": b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (10 + 5 + len(ERROR))
    + gzip.compress(ERROR + b't"}', 0)[: 10 + 5 + len(ERROR)],
}


def poll(server: RawServer) -> ConnectError:
    connection = Connection(conn_id="m", host=server.url, login="someone", password=PASSWORD, extra={"project_id": "1"})
    with MixpanelSource().open(connection, PollContext()) as poller:
        (part,) = poller.plan([Day(date=dt.date(2026, 3, 1))])
        with pytest.raises(ConnectError) as caught:
            list(poller.poll(part, Tally()))
    return caught.value


@pytest.mark.parametrize("ending", ["closes", "stalls"])
@pytest.mark.parametrize("cut", CUTS)
def test_an_error_that_breaks_off_inside_a_secret_tells_none_of_it(
    cut: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_connect.clients.http.client._ERROR_SECONDS", 0.5)

    def answer(peer: Peer) -> None:
        peer.say(b"HTTP/1.1 500 Trouble\r\n" + CUTS[cut])
        if ending == "stalls":
            peer.wait()

    with RawServer(answer) as server:
        message = str(poll(server))
    assert "hunter" not in message
    assert "bad password ***" in message


@pytest.mark.parametrize(
    ("framing", "body", "says"),
    [
        (b"Content-Length: 7", b"trouble", ErrorText("trouble", is_cut=False)),
        (b"Content-Length: 8", b"trouble", ErrorText("trouble", is_cut=True)),
        (b"Content-Length: 7000", b"x" * 7000, ErrorText("x" * 7000, is_cut=False)),
        (b"Content-Length: 9000", b"x" * 9000, ErrorText("x" * ERROR_TEXT_BYTES, is_cut=True)),
        (b"Transfer-Encoding: chunked", b"7\r\ntrouble\r\n0\r\n\r\n", ErrorText("trouble", is_cut=False)),
        (b"Transfer-Encoding: chunked", b"7\r\ntrouble\r\n", ErrorText("trouble", is_cut=True)),
        (b"X: y", b"trouble", ErrorText("trouble", is_cut=True)),
        (
            b"Content-Encoding: gzip\r\nContent-Length: 27",
            gzip.compress(b"trouble", mtime=0),
            ErrorText("trouble", is_cut=False),
        ),
        (b"Content-Encoding: gzip\r\nContent-Length: 7", b"trouble", ErrorText("", is_cut=True)),
    ],
)
def test_an_error_says_whether_its_end_was_seen(framing: bytes, body: bytes, says: ErrorText) -> None:
    with (
        RawServer(lambda peer: peer.say(b"HTTP/1.1 500 Trouble\r\n" + framing + b"\r\n\r\n" + body)) as server,
        request(f"{server.url}/", {}, AUTH, LIMITS) as found,
    ):
        assert found.text() == says


# No escape's length is a multiple of thirteen: these cuts fall on every place inside one.
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("outer", ENCODINGS)
@pytest.mark.parametrize("inner", ["plain", "json", "html", "percent", "python repr"])
def test_no_cut_shows_the_beginning_of_a_secret_in_any_form(inner: str, outer: str, step: int) -> None:
    secrets = Secrets([HARD])
    echo = ENCODINGS[outer](ENCODINGS[inner](HARD))
    for end in range(1, len(echo) + 1, step if len(echo) > 100 else 1):
        said = excerpt(f"before {echo[:end]}", secrets, is_cut=True)
        assert said in ("before ***", "before"), (echo[:end], said)


def test_a_cut_outside_a_secret_changes_nothing() -> None:
    assert excerpt("no such project", Secrets(["hush"]), is_cut=True) == "no such project"
    assert excerpt("the end", Secrets(["d0or"]), is_cut=True) == "the en***"
    assert excerpt("the end", Secrets(["d0or"])) == "the end"
    assert excerpt("", Secrets(["d0or"]), is_cut=True) == ""


def test_a_long_secret_and_a_text_of_escapes_cost_little() -> None:
    secrets = Secrets(["&#39;%27\\u0027" * 20, "s" * 300])
    started = time.process_time()
    for piece in ("\\u0026#39;", "%2525", "&amp;amp;", "\\\\", "s", "&#x"):
        excerpt(piece * (4095 // len(piece)), secrets, is_cut=True)
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ("Content-Encoding: hunter2supersecret", RetriableError),
        ("Content-Encoding: x-hunter2%73upersecret-x", RetriableError),
    ],
)
def test_a_header_that_holds_a_secret_is_not_told(header: str, error: type[ConnectError]) -> None:
    head = f"HTTP/1.1 200 OK\r\n{header}\r\nContent-Length: 0\r\n\r\n".encode()
    with RawServer(lambda peer: peer.say(head)) as server:
        found = poll(server)
    assert type(found) is error
    assert "only gzip" in str(found)
    assert "hunter" not in str(found)


def test_a_redirect_that_cuts_a_secret_in_two_tells_neither_half() -> None:
    secret = "alpha@bravo/carol"
    head = f"HTTP/1.1 302 Found\r\nLocation: https://{secret}.example/\r\nContent-Length: 0\r\n\r\n".encode()
    with RawServer(lambda peer: peer.say(head)) as server, pytest.raises(ConfigError, match="redirects") as caught:
        request(f"{server.url}/", {}, basic_auth(SecretStr("user"), SecretStr(secret)), LIMITS)
    assert not [half for half in ("alpha", "bravo", "carol") if half in str(caught.value)]
