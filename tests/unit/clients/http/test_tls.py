"""TLS trusts the public authorities and those the connection names: never everybody."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import basic_auth
from airflow_provider_connect.clients.http.certificates import tls_context
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.http.authority import Authority
from tests.equipment.http.raw_server import GIVE_UP_SECONDS, Peer, RawServer
from tests.equipment.http.sending import request

AUTH = basic_auth(SecretStr("user"), SecretStr("secret"))
LIMITS = HttpTimeouts(
    connect_timeout_seconds=GIVE_UP_SECONDS, read_timeout_seconds=GIVE_UP_SECONDS, deadline_seconds=GIVE_UP_SECONDS
)
OURS = Authority("ours")
THEIRS = Authority("theirs")


def hello(peer: Peer) -> None:
    peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def read(url: str, **options: Any) -> bytes:
    with request(f"{url}/", {}, AUTH, LIMITS, **options) as answer:
        return b"".join(answer.chunks())


def forms(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "ca.pem"
    path.write_text(f"# who we trust: für alle\n{THEIRS.pem}\n{OURS.pem}", encoding="utf-8")
    return {
        "path": str(path),
        "text": OURS.pem,
        "bundle": f"Ours\n{THEIRS.pem}{OURS.pem}",
        "crlf": OURS.pem.replace("\n", "\r\n"),
    }


@pytest.mark.parametrize("form", ["path", "text", "bundle", "crlf"])
def test_a_private_authority_is_trusted_where_the_connection_names_it(form: str, tmp_path: Path) -> None:
    with RawServer(hello, tls=OURS.server(tmp_path)) as server:
        assert read(server.url, ca_bundle=forms(tmp_path)[form]) == b"hello"


@pytest.mark.parametrize(
    ("host", "days", "ca_bundle"),
    [("127.0.0.1", 1, None), ("127.0.0.1", 1, THEIRS.pem), ("else.example", 1, OURS.pem), ("127.0.0.1", -1, OURS.pem)],
    ids=["unknown", "other authority", "other host", "expired"],
)
def test_any_other_certificate_is_refused(host: str, days: int, ca_bundle: str | None, tmp_path: Path) -> None:
    with RawServer(hello, tls=OURS.server(tmp_path, host, days=days)) as server:
        with pytest.raises(ConfigError, match="ca_bundle in the connection"):
            read(server.url, ca_bundle=ca_bundle)
        assert server.peers[0].request == b"", "no credentials were sent"


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What Python 3.13 and later do in every version."""
    create = ssl.create_default_context

    def create_strict(**options: Any) -> ssl.SSLContext:
        context = create(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr("ssl.create_default_context", create_strict)
    tls_context.cache_clear()
    yield
    tls_context.cache_clear()


def test_an_authority_without_key_identifiers_is_trusted_where_it_is_named(strict: None, tmp_path: Path) -> None:
    """Those of proxies that inspect TLS often have none."""
    with RawServer(hello, tls=OURS.server(tmp_path)) as server:
        assert read(server.url, ca_bundle=OURS.pem) == b"hello"


@pytest.mark.parametrize(
    ("host", "days", "pem"),
    [("127.0.0.1", 1, THEIRS.pem), ("else.example", 1, OURS.pem), ("127.0.0.1", -1, OURS.pem)],
    ids=["other authority", "other host", "expired"],
)
def test_all_else_is_looked_at_as_before(strict: None, host: str, days: int, pem: str, tmp_path: Path) -> None:
    with RawServer(hello, tls=OURS.server(tmp_path, host, days=days)) as server, pytest.raises(ConfigError):
        read(server.url, ca_bundle=pem)


def test_strictness_is_given_up_for_nobody_else(strict: None) -> None:
    assert tls_context(None).verify_flags & ssl.VERIFY_X509_STRICT
    assert not tls_context(OURS.pem).verify_flags & ssl.VERIFY_X509_STRICT


def test_the_public_authorities_stay_trusted() -> None:
    with_ours, without = tls_context(OURS.pem), tls_context(None)
    for context in (with_ours, without):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
    assert with_ours.cert_store_stats()["x509"] == without.cert_store_stats()["x509"] + 1 > 50


@pytest.mark.parametrize(
    ("ca_bundle", "says"),
    [
        ("ca.pem", "absolute path"),
        ("/nowhere/canary.pem", "cannot read (No such file"),
        ("/", "cannot read (Is a directory"),
        ("/dev/null", "no certificate"),
        ("-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\ncanary\n-----END CERTIFICATE-----", "contains an unreadable certificate"),
        (OURS.pem[:-60], "no certificate"),
        ("/\0canary", "not a path"),
        (["canary"], "text"),
    ],
    ids=["relative", "not there", "folder", "empty", "a key", "no base64", "cut", "no path", "no text"],
)
def test_what_is_wrong_with_a_ca_bundle_is_said_before_anything_is_asked(ca_bundle: Any, says: str) -> None:
    connection = Connection(conn_id="m", password="secret", extra={"ca_bundle": ca_bundle})
    (problem,) = MixpanelSource().check(connection)
    assert "'m'" in problem
    assert "ca_bundle" in problem
    assert says in problem
    assert "canary" not in problem


def test_a_proxy_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    with RawServer(hello, tls=THEIRS.server(tmp_path)) as proxy, pytest.raises(ConfigError, match="proxy has a TLS"):
        read("https://behind.example", proxy=SecretStr(proxy.url), ca_bundle=OURS.pem)
    assert proxy.peers[0].request == b""


def test_a_server_without_tls_is_no_certificate_problem() -> None:
    with RawServer(hello, hears=False) as server, pytest.raises(RetriableError, match="TLS handshake"):
        read(server.url.replace("http:", "https:"), ca_bundle=OURS.pem)


class Proxy:
    """Takes a CONNECT, answers it, and carries bytes to one port."""

    def __init__(self, port: int, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self._port = port
        self._answer = answer

    def __call__(self, peer: Peer) -> None:
        peer.say(self._answer)
        peer.relay(self._port)


@pytest.mark.parametrize("is_secured", [False, True], ids=["http proxy", "https proxy"])
def test_through_a_proxy_to_tls(is_secured: bool, tmp_path: Path) -> None:
    tls = OURS.server(tmp_path) if is_secured else None
    with (
        RawServer(hello, tls=OURS.server(tmp_path, "behind.example")) as server,
        RawServer(Proxy(server.port), tls=tls) as proxy,
    ):
        url = SecretStr(proxy.url.replace("://", "://someone:a%20b%C3%A9@"))
        assert read("https://behind.example", proxy=url, ca_bundle=OURS.pem) == b"hello"
    asked, seen = proxy.peers[0].request.decode(), server.peers[0].request.decode()
    assert asked.startswith("CONNECT behind.example:443 HTTP/1.1\r\n")
    assert f"Proxy-Authorization: Basic {base64.b64encode('someone:a bé'.encode()).decode()}\r\n" in asked
    assert "\r\nAuthorization:" not in asked
    assert "Proxy-Authorization" not in seen
    assert "\r\nHost: behind.example\r\n" in seen


def test_through_a_proxy_without_tls() -> None:
    with RawServer(hello) as proxy:
        assert read("http://localhost:1", proxy=SecretStr(proxy.url)) == b"hello"
    assert proxy.peers[0].request.startswith(b"GET http://localhost:1/ HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "type_"),
    [
        (b"HTTP/1.1 407 Who are you\r\nContent-Length: 6\r\n\r\ncanary", ConfigError),
        (b"HTTP/1.1 502 Bad gateway\r\n\r\ncanary", RetriableError),
        (b"HTTP/1.1 200 OK", RetriableError),
        (b"canary\r\n\r\n", RetriableError),
    ],
)
def test_a_proxy_that_refuses_is_named_and_not_quoted(answer: bytes, type_: type[Exception]) -> None:
    with RawServer(lambda peer: peer.say(answer)) as proxy, pytest.raises(type_, match="connection's proxy") as caught:
        read("https://behind.example", proxy=SecretStr(proxy.url.replace("://", "://canary:canary@")))
    assert type(caught.value) is type_
    assert "canary" not in str(caught.value)
