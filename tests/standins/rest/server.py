"""Serves a ledger's events as https://docs.stripe.com/api/events/list and /api/pagination document it (2026-11).

``GET /v1/events`` takes ``created[gte]``, ``created[lt]``, ``limit`` and ``starting_after``, lists the newest first and
says in ``has_more`` whether there are others. Who asks needs the key as a bearer token. One request in so many is
answered with 429, without a word on how long to wait. It speaks plain HTTP on 127.0.0.1 and names itself in its
``Server`` header.
"""

from __future__ import annotations

import datetime as dt
import hmac
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast
from urllib.parse import parse_qsl, urlsplit

from tests.standins.rest.events import Ledger, as_text

MOST_ON_A_PAGE = 100
_USUAL = 10
_SECONDS = 86_400
_LONGEST_RANGE_DAYS = 40


class StandIn:
    """The server: ``with StandIn(Ledger(), key="…") as api: api.url``.

    :param busy_every: each time so many requests have come, one is answered with 429; 0 answers all.
    :param port: 0 takes a free one.
    """

    def __init__(self, ledger: Ledger, *, key: str, busy_every: int = 0, port: int = 0) -> None:
        self._ledger = ledger
        self._key = key
        self._busy_every = busy_every
        self._requests = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), self)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="rest-standin", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, target: str, authorization: str) -> tuple[int, Any]:
        """Return status and document.

        :param target: path and query.
        """
        parts = urlsplit(target)
        with self._lock:
            self._requests += 1
            is_busy = self._busy_every and not self._requests % self._busy_every
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self._key}".encode()):
            return 401, _error("invalid_request_error", "Invalid API key provided.")
        if is_busy:
            return 429, _error("rate_limit_error", "Too many requests hit the API too quickly.")
        if parts.path != "/v1/events":
            return 404, _error("invalid_request_error", f"Unrecognized request URL (GET: {parts.path}).")
        try:
            return 200, self._page(dict(parse_qsl(parts.query)))
        except (KeyError, ValueError):
            return 400, _error("invalid_request_error", "created[gte], created[lt], limit or starting_after is wrong.")

    def _page(self, params: dict[str, str]) -> dict[str, Any]:
        since, until = int(params["created[gte]"]), int(params["created[lt]"])
        limit = int(params.get("limit", _USUAL))
        first, last = since // _SECONDS, (until - 1) // _SECONDS
        if not (1 <= limit <= MOST_ON_A_PAGE and last - first < _LONGEST_RANGE_DAYS):
            raise ValueError("out of range")
        days = [dt.date(1970, 1, 1) + dt.timedelta(days=day) for day in range(last, first - 1, -1)]
        events = [
            event for day in days for event in self._ledger.events_of_day(day) if since <= event["created"] < until
        ]
        start = 0
        if "starting_after" in params:
            start = [event["id"] for event in events].index(params["starting_after"]) + 1
        page = events[start : start + limit]
        return {"object": "list", "url": "/v1/events", "has_more": start + limit < len(events), "data": page}


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], standin: StandIn) -> None:
        self.standin = standin
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "rest-standin/1"
    sys_version = ""
    disable_nagle_algorithm = True

    def do_GET(self) -> None:  # http.server's name
        status, document = cast(_Server, self.server).standin.answer(self.path, self.headers.get("Authorization", ""))
        body = as_text(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""
