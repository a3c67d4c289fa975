"""A Mixpanel that answers every request with one status and body, behind the default connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

EVENT = b'{"event":"a","properties":{"time":1}}\n'


class Mixpanel(HTTPServer):
    """Answers every request with one status and body; remembers what it was asked."""

    status = 200
    body = EVENT
    asked: list[tuple[str, str]]


class Handler(BaseHTTPRequestHandler):
    server: Mixpanel

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def mixpanel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mixpanel]:
    with Mixpanel(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        connection = {
            "conn_type": "mixpanel",
            "host": f"http://127.0.0.1:{server.server_port}",
            "login": "me",
            "password": "hush-hush",
            "extra": {"project_id": "7"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_MIXPANEL_DEFAULT", json.dumps(connection))
        yield server
        server.shutdown()
        thread.join()
