"""The environment's proxies and authorities count where a connection says so, and nowhere else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.http.access import HttpAccess, connection_problems
from airflow_provider_connect.clients.http.auth import NO_AUTH, proxy_auth
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.network import AddressPolicy
from airflow_provider_connect.clients.http.proxies import ENVIRONMENT, proxy_for
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.sources.x_search import XSearchSource
from tests.equipment.http.authority import Authority
from tests.equipment.http.raw_server import GIVE_UP_SECONDS, Peer, RawServer
from tests.equipment.http.sending import request

LIMITS = HttpTimeouts(
    connect_timeout_seconds=GIVE_UP_SECONDS, read_timeout_seconds=GIVE_UP_SECONDS, deadline_seconds=GIVE_UP_SECONDS
)
FROM_ENVIRONMENT = SecretStr(ENVIRONMENT)
OURS = Authority("ours")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without proxies and authorities."""
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def hello(peer: Peer) -> None:
    peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def read(url: str, proxy: SecretStr | None, **options: AddressPolicy) -> bytes:
    with request(url, {}, NO_AUTH, LIMITS, proxy=proxy, **options) as answer:
        return b"".join(answer.chunks())


@pytest.mark.parametrize("names", [("HTTP_PROXY",), ("http_proxy",), ("ALL_PROXY",)])
def test_a_request_goes_through_the_environments_proxy_where_the_connection_says_so(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawServer(hello) as proxy:
        for name in names:
            monkeypatch.setenv(name, proxy.url.replace("://", "://someone:canary@"))
        assert read("http://behind.example/", FROM_ENVIRONMENT, reach=AddressPolicy(frozenset())) == b"hello"
        heard = proxy.peers[0].request
    assert heard.startswith(b"GET http://behind.example/ HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic c29tZW9uZTpjYW5hcnk=" in heard


def test_a_proxy_without_a_scheme_is_reached_by_http(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(hello) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
        assert read("http://behind.example/", FROM_ENVIRONMENT) == b"hello"


def test_a_connection_that_does_not_say_so_goes_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(hello) as proxy, RawServer(hello) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        assert read(f"{server.url}/", None) == b"hello"
        assert proxy.peers == []


@pytest.mark.parametrize("exempt", ["127.0.0.1", "*", "localhost, 127.0.0.1:{port}"])
def test_no_proxy_exempts_hosts_whose_addresses_are_then_looked_at(
    exempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawServer(hello) as proxy, RawServer(hello) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", exempt.format(port=server.port))
        assert read(f"{server.url}/", FROM_ENVIRONMENT) == b"hello"
        with pytest.raises(ConfigError, match="Such addresses are refused"):
            read(f"{server.url}/", FROM_ENVIRONMENT, reach=AddressPolicy(frozenset()))
        assert proxy.peers == []


def test_without_a_proxy_in_the_environment_requests_go_directly() -> None:
    with RawServer(hello) as server:
        assert read(f"{server.url}/", FROM_ENVIRONMENT) == b"hello"


def test_https_goes_through_a_tunnel_of_the_proxy_for_https(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(lambda peer: peer.say(b"HTTP/1.1 407 Who are you\r\n\r\n")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("://", "://canary:canary@"))
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        with pytest.raises(ConfigError, match="the environment's proxy refuses with status 407") as caught:
            read("https://behind.example/", FROM_ENVIRONMENT)
        assert proxy.peers[0].request.startswith(b"CONNECT behind.example:443 HTTP/1.1\r\n")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("url", ["socks5://canary:canary@proxy.example:1080", "http://", "http://canary:port"])
def test_a_proxy_that_cannot_be_used_is_refused_and_not_quoted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", url)
    with pytest.raises(ConfigError, match="the environment's proxy for http is not an http or https URL") as caught:
        read("http://behind.example/", FROM_ENVIRONMENT)
    assert "canary" not in str(caught.value)


def test_the_passwords_of_the_environments_proxies_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://one:canary-1@proxy.example:3128")
    monkeypatch.setenv("HTTPS_PROXY", "two:canary-2@proxy.example:3128")
    auth = proxy_auth(FROM_ENVIRONMENT)
    assert auth.headers == {}
    assert {"canary-1", "canary-2"} <= set(auth.secrets)
    route = HttpAccess.read_connection(Connection(conn_id="c", host="api.example", extra={"proxy": ENVIRONMENT})).route
    assert {"canary-1", "canary-2"} <= set(route.secrets)


def test_an_echo_of_the_environments_password_is_struck_from_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    head = b"HTTP/1.1 302 Found\r\nLocation: https://canary-1.example/\r\nContent-Length: 0\r\n\r\n"
    with RawServer(lambda peer: peer.say(head)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("://", "://someone:canary-1@"))
        with pytest.raises(ConfigError, match="redirects") as caught:
            read("http://behind.example/", FROM_ENVIRONMENT)
    assert "canary" not in str(caught.value)


def test_a_fixed_proxy_is_no_matter_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    proxy = SecretStr("http://proxy.example:3128")
    assert proxy_for("http://behind.example/", proxy) is proxy


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_environments_authorities_are_trusted_where_the_connection_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "authorities.pem"
    bundle.write_text(OURS.pem, encoding="ascii")
    monkeypatch.setenv(name, str(bundle))
    with RawServer(hello, tls=OURS.server(tmp_path)) as server:
        assert read(f"{server.url}/", FROM_ENVIRONMENT) == b"hello"
        with pytest.raises(ConfigError, match="TLS certificate"):
            read(f"{server.url}/", None)
        monkeypatch.delenv(name)
        with pytest.raises(ConfigError, match="TLS certificate"):
            read(f"{server.url}/", FROM_ENVIRONMENT)


def test_authorities_of_the_environment_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/authorities.pem")
    with pytest.raises(ConfigError, match=r"the environment's SSL_CERT_FILE names a file .* \(No such file"):
        read("https://127.0.0.1:9/", FROM_ENVIRONMENT)


def test_folders_of_authorities_are_named_as_openssl_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    full.mkdir()
    empty.mkdir()
    (full / "ours.pem").write_text(OURS.pem, encoding="ascii")
    asked = ["openssl", "x509", "-hash", "-noout", "-in", str(full / "ours.pem")]
    name = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    (full / "ours.pem").rename(full / f"{name}.0")
    with RawServer(hello, tls=OURS.server(tmp_path)) as server:
        monkeypatch.setenv("SSL_CERT_DIR", f"{empty}:{full}")
        assert read(f"{server.url}/", FROM_ENVIRONMENT) == b"hello"
        monkeypatch.setenv("SSL_CERT_DIR", str(empty))
        with pytest.raises(ConfigError, match="TLS certificate"):
            read(f"{server.url}/", FROM_ENVIRONMENT)


def test_every_connection_with_a_proxy_field_takes_it() -> None:
    extra = {"proxy": ENVIRONMENT}
    assert connection_problems(Connection(conn_id="c", host="api.example", extra=extra)) == []
    mixpanel = Connection(conn_id="c", password="secret", extra=extra)
    assert MixpanelSource().check(mixpanel) == []
    x = Connection(conn_id="c", password="token", extra=extra)
    assert XSearchSource(conn_id="c", queries=["a"]).check(x) == []
    (problem,) = connection_problems(Connection(conn_id="c", host="api.example", extra={"proxy": "environments"}))
    assert "not an http or https URL, nor 'environment'" in problem


def test_a_proxy_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://someone:canary@127.0.0.1:9")
    with pytest.raises(RetriableError, match="through the environment's proxy, which does not accept"):
        read("http://behind.example/", FROM_ENVIRONMENT)
