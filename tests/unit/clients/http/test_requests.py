"""What is sent: methods, bodies, credentials and headers, as a real server hears them."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import NO_AUTH, Auth, basic_auth, bearer_auth, header_auth, proxy_auth
from airflow_provider_connect.clients.http.client import Body, form_body, json_body
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.errors import ConfigError
from tests.equipment.http.sending import request

LIMITS = HttpTimeouts(connect_timeout_seconds=5, read_timeout_seconds=5, deadline_seconds=20)
SECRET = SecretStr("s3cret/ü?>")


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def _echo(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        heard = {"method": self.command, "path": self.path, "headers": dict(self.headers), "body": body}
        answer = json.dumps(heard).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = _echo  # noqa: N815  # the server's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the server's signature
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def heard(url: str, auth: Auth = NO_AUTH, params: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    with request(url, params or {}, auth, LIMITS, **options) as answer:
        assert answer.status == 200
        found: dict[str, Any] = json.loads(b"".join(answer.chunks()))
    return found


def test_without_a_body_it_is_a_get(url: str) -> None:
    found = heard(f"{url}/a")
    assert (found["method"], found["path"], found["body"]) == ("GET", "/a", "")
    assert "Authorization" not in found["headers"]
    assert "Content-Length" not in found["headers"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json_body({"ü": [1, None, "\r\n"]}), "application/json"),
        (form_body({"ü": "a b&c=\r\n"}), "application/x-www-form-urlencoded"),
        (Body("text/plain", b""), "text/plain"),
    ],
)
def test_a_body_is_posted_whole(url: str, body: Body, kind: str) -> None:
    found = heard(f"{url}/a", body=body)
    assert (found["method"], found["body"].encode(), found["headers"]["Content-Type"]) == ("POST", body.data, kind)
    if kind == "application/json":
        assert json.loads(found["body"]) == {"ü": [1, None, "\r\n"]}
    elif body.data:
        assert parse_qs(found["body"]) == {"ü": ["a b&c=\r\n"]}


def test_a_large_body_arrives_whole(url: str) -> None:
    body = json_body("x" * 3_000_000)
    assert heard(url, body=body)["body"].encode() == body.data


@pytest.mark.parametrize(
    ("path", "params", "sent"),
    [
        ("?page=2", {}, "/?page=2"),
        ("/a?cursor=x%2By", {}, "/a?cursor=x%2By"),
        ("/a?cursor=x", {"q": "é &"}, "/a?cursor=x&q=%C3%A9+%26"),
        ("/ü b", {}, "/%C3%BC%20b"),
    ],
)
def test_a_next_links_query_is_sent_as_it_is(url: str, path: str, params: dict[str, str], sent: str) -> None:
    assert heard(f"{url}{path}", params=params)["path"] == sent


@pytest.mark.parametrize(
    ("auth", "name", "value"),
    [
        (basic_auth(SecretStr("me"), SECRET), "Authorization", "Basic bWU6czNjcmV0L8O8Pz4="),
        (bearer_auth(SecretStr("t0ken")), "Authorization", "Bearer t0ken"),
        (header_auth("X-Api-Key", SecretStr("k3y")), "X-Api-Key", "k3y"),
    ],
)
def test_credentials_are_sent_and_never_shown(url: str, auth: Auth, name: str, value: str) -> None:
    found = heard(url, auth, headers={"X-Version": "3", name: "not this one"})
    assert found["headers"][name] == value
    assert found["headers"]["X-Version"] == "3"
    assert value.rsplit(maxsplit=1)[-1].rstrip("=") in auth.secrets
    assert not any(secret in repr(auth) for secret in auth.secrets)


def test_basic_credentials_are_secret_in_every_form() -> None:
    token = base64.b64encode("me:s3cret/ü?>".encode()).decode()
    safe = token.rstrip("=").replace("+", "-").replace("/", "_")
    assert basic_auth(SecretStr("me"), SECRET).secrets == ("me", "s3cret/ü?>", token.rstrip("="), safe)


def test_a_proxys_credentials_come_out_of_its_url() -> None:
    message = proxy_auth(SecretStr("http://m%20e:p%C3%BC@proxy:3128"))
    assert message.headers == {"Proxy-Authorization": f"Basic {base64.b64encode('m e:pü'.encode()).decode()}"}
    assert message.secrets[:2] == ("m e", "pü")
    assert proxy_auth(SecretStr("http://proxy:3128")) == NO_AUTH == proxy_auth(None)


@pytest.mark.parametrize(
    ("auth", "headers"),
    [
        (bearer_auth(SecretStr("s3cret\r\nX-Evil: 1")), {}),
        (bearer_auth(SecretStr("s3crét")), {}),
        (NO_AUTH, {"X-Version": "3\r\nX-Evil: s3cret"}),
        (NO_AUTH, {"X Version": "s3cret"}),
        (NO_AUTH, {"": "s3cret"}),
    ],
)
def test_what_no_header_can_hold_is_a_wrong_option(url: str, auth: Auth, headers: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^the header '[\w -]*' cannot be sent") as caught:
        request(url, {}, auth, LIMITS, headers=headers)
    assert "cr" not in str(caught.value).replace("credential", "")
