"""Where credentials must not go, whatever a server answers; and a server that hangs up before it could have them."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import header_auth
from airflow_provider_connect.clients.http.client import json_body
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.errors import ConfigError, RetriableError
from tests.equipment.http.raw_server import GIVE_UP_SECONDS, Peer, RawServer
from tests.equipment.http.sending import request

LIMITS = HttpTimeouts(
    connect_timeout_seconds=GIVE_UP_SECONDS, read_timeout_seconds=GIVE_UP_SECONDS, deadline_seconds=GIVE_UP_SECONDS
)
CANARY = "canary-in-a-header"
AUTH = header_auth("X-Api-Key", SecretStr(CANARY))


def ask(url: str, **options: object) -> None:
    with request(f"{url}/v1?key=canary-in-the-query", {}, AUTH, LIMITS, **options):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("with_body", [False, True], ids=["get", "post"])
def test_a_redirect_takes_neither_headers_nor_query_nor_body_to_anybody(status: int, with_body: bool) -> None:
    with RawServer(lambda peer: peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as elsewhere:
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {elsewhere.url}/\r\nContent-Length: 0\r\n\r\n".encode()
        with RawServer(lambda peer: peer.say(head)) as server:
            with pytest.raises(ConfigError, match=rf"redirects \(status {status}\) to 127\.0\.0\.1:") as caught:
                ask(server.url, body=json_body({"a": 1}) if with_body else None)
            assert len(server.peers) == 1
        assert elsewhere.peers == []
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("to", ["{own}/v1", "/v1", "http://plain.example/", "file:///etc/passwd", "//x.example", ""])
def test_a_redirect_to_itself_to_plain_http_or_to_nowhere_is_asked_once(to: str) -> None:
    def move(peer: Peer) -> None:
        location = to.format(own=server.url)
        peer.say(f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())

    with RawServer(move) as server:
        with pytest.raises(ConfigError, match="Redirects are not followed"):
            ask(server.url)
        assert len(server.peers) == 1


@pytest.mark.parametrize("begin", [b"", b"\x16\x03\x03\x00\x7a\x02"], ids=["at once", "inside the server's hello"])
def test_a_tls_handshake_that_is_cut_is_tried_again_and_never_without_tls(begin: bytes) -> None:
    with RawServer(lambda peer: peer.say(begin), hears=False) as server:
        with pytest.raises(RetriableError):
            ask(f"https://127.0.0.1:{server.port}")
        assert [peer.request for peer in server.peers] == [b""]
