"""Connections for unit tests: to a server with prepared answers, and to ports that do not answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.connection import Connection

CANARY = "CANARYSECRET"


@pytest.fixture(scope="module")
def private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    kind = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()).decode()


def key(private_key: str = CANARY, **changes: Any) -> dict[str, Any]:
    return {
        "type": "service_account",
        "project_id": "keys-project",
        "client_email": "robot@keys-project.iam.gserviceaccount.com",
        "private_key": private_key,
        "private_key_id": CANARY,
        "token_uri": "https://oauth2.googleapis.com/token",
    } | changes


def connection(**extra: Any) -> Connection:
    return Connection(conn_id="google_cloud_default", conn_type="google_cloud_platform", extra=extra)


LOCAL = {
    "rest_endpoint": "http://127.0.0.1:1",
    "grpc_endpoint": "http://127.0.0.1:2",
    "is_anonymous": True,
    "project": "connect-test",
}


class Server:
    """Answers every request with a prepared answer."""

    def __init__(self) -> None:
        self.answer: tuple[int, Any] = (200, {})
        self.first: list[tuple[int, Any]] = []
        self.asked = 0
        self.passwords: list[str | None] = []
        self.bodies: list[Any] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked += 1
                server.passwords.append(self.headers.get("Authorization"))
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.bodies.append(json.loads(body) if body.startswith(b"{") else None)
                status, answer = server.first.pop(0) if server.first else server.answer
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            do_POST = do_GET  # noqa: N815

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.http.shutdown()
    started.http.server_close()


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def refused(status: int, reason: str, message: str = "x") -> tuple[int, Any]:
    return status, {"error": {"code": status, "message": message, "errors": [{"reason": reason}]}}


def job(reason: str = "", name: str = "a_job") -> tuple[int, Any]:
    error = {"errorResult": {"reason": reason, "message": "x"}} if reason else {}
    reference = {"projectId": "connect-test", "jobId": name, "location": "US"}
    return 200, {"jobReference": reference, "configuration": {"query": {}}, "status": {"state": "DONE"} | error}


ROWS = (200, {"jobComplete": True, "totalRows": "0", "schema": {"fields": []}})


def api_at(rest: str, grpc_target: str = "127.0.0.1:1", budget: float = 0.8, **more: Any) -> BigQueryApi:
    extra = LOCAL | {"rest_endpoint": rest, "grpc_endpoint": f"http://{grpc_target}"}
    return BigQueryApi.open(connection(**extra, **more), timeout_seconds=2.0, retry_budget_seconds=budget)
