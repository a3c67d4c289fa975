"""A web server with answers from a test. Records the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Heard(NamedTuple):
    """A request; the names of its headers are in small letters, and a repeated one has all its values."""

    method: str
    path: str
    params: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes


class Said(NamedTuple):
    """An answer. A body that is not bytes is sent as JSON."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = {}  # nobody changes it


class AnsweringServer:
    """Answers each request with the result of ``answer``. A context manager.

    :ivar heard: the requests, in order.
    """

    def __init__(self, answer: Callable[[Heard], Said]) -> None:
        self.heard: list[Heard] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                parts = urlsplit(self.path)
                headers = {name.lower(): ", ".join(self.headers.get_all(name, [])) for name in self.headers}
                body = self.rfile.read(int(headers.get("content-length", 0)))
                heard = Heard(self.command, parts.path, parse_qsl(parts.query), headers, body)
                outer.heard.append(heard)
                response = answer(heard)
                data = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
                self.send_response_only(response.status)
                for name, value in response.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                try:
                    self.wfile.write(data)
                except ConnectionError:  # the client has had enough, as it should
                    self.close_connection = True

            do_GET = do_POST = do_PUT = _answer  # noqa: N815  # the server's names

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the server's signature
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> AnsweringServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
