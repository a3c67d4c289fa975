"""A stand-in for X's post search and counts, on this machine only. It is not X.

It answers ``GET /2/tweets/search/recent`` and ``/all``, ``/2/tweets/counts/recent`` and ``/all`` and
``/2/usage/tweets`` as https://docs.x.com documents them (2026-11) and as clients have seen them: made-up posts
(:mod:`.posts`), an app with its windows and its cap (:mod:`.access`), both dialects of field names (:mod:`.search`) and
faults (:mod:`.faults`). Unlike X it speaks plain HTTP, keeps to 127.0.0.1, knows one app, and understands a part of the
query language (:mod:`.query`). Every answer names it in its ``Server`` header.

For other processes there is ``GET /_standin/stats``, ``GET /_standin/truth?date=&query=``, ``GET`` and ``POST
/_standin/faults`` (a JSON list that replaces the schedule).

From the command line: ``python -m tests.standins.x``; see :mod:`.__main__`.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from tests.standins.stats import Stats
from tests.standins.wire import Answer, Wire
from tests.standins.x.access import App, Gate, Limits, RefusedError, rate_headers, rate_limit, usage_cap
from tests.standins.x.faults import Fault, FaultSchedule
from tests.standins.x.pages import page
from tests.standins.x.posts import Timeline
from tests.standins.x.search import SearchRequest, counts, expired, parse_request

_ENDPOINTS = ("search/recent", "search/all", "counts/recent", "counts/all")
_USAGE = "/2/usage/tweets"
_UNANSWERED = frozenset({"refuse", "silent"})


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class StandIn:
    """The server, for use inside a test's process: ``with StandIn(Timeline()) as x: x.url``.

    :param timeline: what is found; set another one at any time.
    :param dialects: dialects of field names requests may use.
    :param most_posts: how many posts a page has at most, whatever a request asks for; None for as many as X sends.
    :param now: the clock that decides what is recent, and of the windows.
    :param port: 0 takes a free one.
    :ivar asked: the requests that were taken, in order.
    """

    def __init__(
        self,
        timeline: Timeline | None = None,
        *,
        faults: Iterable[Fault] = (),
        app: App | None = None,
        limits: Limits | None = None,
        dialects: Iterable[str] = ("post", "tweet"),
        most_posts: int | None = None,
        now: Callable[[], dt.datetime] = _utc_now,
        port: int = 0,
    ) -> None:
        self.timeline = timeline or Timeline()
        self.app = app or App()
        self.faults = FaultSchedule(faults)
        self.dialects = frozenset(dialects)
        self.most_posts = most_posts
        self.now = now
        self.gate = Gate(limits or Limits(), lambda: self.now().timestamp())
        self.stop = threading.Event()
        self.counts = Stats()
        self.requests_taken: list[SearchRequest] = []
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="x-standin", daemon=True)

    @property
    def port(self) -> int:
        """The TCP port it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The base URL: scheme, host and port, for a connection's host."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def stats(self) -> dict[str, Any]:
        """Requests and answers so far, by endpoint."""
        return self.counts.snapshot()

    def __enter__(self) -> StandIn:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], standin: StandIn) -> None:
        self.standin = standin
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have left."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "x-standin/1"
    sys_version = ""
    disable_nagle_algorithm = True
    timeout = 300  # seconds for one read or write

    @property
    def _standin(self) -> StandIn:
        return cast(_Server, self.server).standin

    def do_GET(self) -> None:  # http.server's name
        parts = urlsplit(self.path)
        params = {name: texts[-1] for name, texts in parse_qs(parts.query, keep_blank_values=True).items()}
        endpoint = parts.path.removeprefix("/2/tweets/")
        if parts.path.startswith("/_standin/"):
            self._inspect(parts.path.removeprefix("/_standin/"), params)
        elif endpoint in _ENDPOINTS or parts.path == _USAGE:
            self._answer_api(endpoint, params)
        else:
            self._json(404, {"title": "Not Found", "type": "about:blank", "status": 404, "detail": "Not Found"})

    def do_POST(self) -> None:  # http.server's name
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if urlsplit(self.path).path != "/_standin/faults":
            self._json(405, {"title": "Method Not Allowed", "status": 405})
            return
        try:
            faults = [Fault.from_json(options) for options in json.loads(text)]
        except (ValueError, TypeError) as error:
            self._json(400, {"error": str(error)})
            return
        self._standin.faults.replace(faults)
        self._json(200, {"faults": len(faults)})

    def _answer_api(self, endpoint: str, params: dict[str, str]) -> None:
        standin = self._standin
        fault = None
        headers: dict[str, str] = {}
        try:
            standin.app.authorize(self.headers.get("Authorization"), endpoint)
            headers = standin.gate.enter(endpoint)
            if endpoint not in _ENDPOINTS:
                status, document = 200, _usage(standin)
            else:
                request = parse_request(endpoint, params, standin.app, standin.now(), standin.dialects)
                request = replace(request, size=min(request.size, standin.most_posts or request.size))
                fault = standin.faults.take(endpoint, request.start.date(), request.page)
                status, document = 200, self._find_document(request, fault)
        except RefusedError as refusal:
            status, document, headers = refusal.status, refusal.document, headers | refusal.headers
        self._answer(endpoint, status, document, headers, fault)

    def _find_document(self, request: SearchRequest, fault: Fault | None) -> Any:
        """Return the document that answers.

        :raises RefusedError: a fault refuses it.
        """
        standin = self._standin
        standin.requests_taken.append(request)
        if fault is not None:
            _refuse(fault, request, standin.now().timestamp())
        if request.endpoint.startswith("counts/"):
            return counts(standin.timeline, request)
        document = page(standin.timeline, request, fault)
        standin.gate.read(len(document.get("data", [])))
        return document

    def _answer(self, endpoint: str, status: int, document: Any, headers: dict[str, str], fault: Fault | None) -> None:
        kind = fault.kind if fault else None
        content_type, body = "application/json; charset=utf-8", json.dumps(document).encode()
        if fault is not None and kind == "status":
            status, body, headers = fault.status, fault.body.encode(), dict(fault.headers)
        elif kind == "html":
            content_type, body = "text/html", b"<html><body>Log in</body></html>"
        elif kind == "rate_limit_88":
            body = b'{"errors":[{"code":88,"message":"Rate limit exceeded"}]}'
        self._standin.counts.count_answer(endpoint, "none" if kind in _UNANSWERED else str(status), kind)
        answer = Answer(status, memoryview(body), {"Content-Type": content_type, **headers})
        try:
            self._wire().send(answer, "length", fault)
        except (ConnectionError, TimeoutError):
            self._standin.counts.count_aborted()
            self.close_connection = True

    def _inspect(self, name: str, params: dict[str, str]) -> None:
        standin = self._standin
        if name == "stats":
            self._json(200, standin.stats)
        elif name == "faults":
            self._json(200, [fault.as_json() for fault in standin.faults.remaining()])
        elif name == "truth":
            try:
                self._json(200, standin.timeline.truth(dt.date.fromisoformat(params["date"]), params["query"]))
            except (KeyError, ValueError):
                self._json(400, {"error": "truth?date=yyyy-mm-dd&query=…"})
        else:
            self._json(404, {"error": "known: stats, faults, truth?date=&query="})

    def _json(self, status: int, document: object) -> None:
        body = memoryview(json.dumps(document).encode())
        self._wire().send(Answer(status, body, {"Content-Type": "application/json"}), "length")

    def _wire(self) -> Wire:
        return Wire(self, self._standin.counts.count_bytes_sent, self._standin.stop)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the time for the Date header, by the stand-in's own clock."""
        return super().date_time_string(self._standin.now().timestamp() if timestamp is None else timestamp)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the stats count requests."""


def _usage(standin: StandIn) -> dict[str, Any]:
    cap = standin.gate.limits.monthly_posts or 3_000_000
    return {
        "data": {
            "project_cap": str(cap),
            "project_id": "1",
            "project_usage": str(standin.gate.posts),
            "cap_reset_day": 1,
        }
    }


def _refuse(fault: Fault, request: SearchRequest, current_time: float) -> None:
    """Refuse the request if the fault says so.

    :raises RefusedError: it does.
    """
    if fault.kind in ("rate_limit", "rate_limit_88"):
        raise rate_limit(rate_headers(450, 0, current_time + fault.seconds))
    if fault.kind == "usage_cap":
        raise usage_cap()
    if fault.kind == "expired_token":
        raise expired(request.token)
