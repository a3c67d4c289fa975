"""A small HTTP server of this process that answers JSON: what the stand-ins of both worked examples are made of."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

Answer = tuple[int, Any]
"""Status and document."""
Call = Callable[[str, str, dict[str, str], Any], Answer]
"""Given method, path, query and the posted document."""


class JsonServer:
    """Serves calls on a port of this machine until its block ends.

    :ivar before: called before each request with method and path; what it raises ends the connection unanswered.
    :ivar after: likewise, once the request took effect: the answer is lost.
    """

    def __init__(self, call: Call, authorization: str) -> None:
        self.before: Callable[[str, str], None] = _nothing
        self.after: Callable[[str, str], None] = _nothing
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else a body waits 40 ms for the ACK of its head

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                parts = urlsplit(self.path)
                path, posted = unquote(parts.path), self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    owner.before(self.command, path)
                    if self.headers.get("Authorization") != authorization:
                        status, document = 401, {"error": "unknown credentials"}
                    else:
                        query = dict(parse_qsl(parts.query))
                        status, document = call(self.command, path, query, json.loads(posted) if posted else None)
                    owner.after(self.command, path)
                except LostError:
                    self.close_connection = True
                    return
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class LostError(Exception):
    """Raise it in ``before`` or ``after``: the client sees the connection end."""


def _nothing(method: str, path: str) -> None:
    return
