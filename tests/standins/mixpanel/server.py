"""A stand-in for Mixpanel's raw event export and Query APIs, on this machine only. It is not Mixpanel.

It answers ``GET /api/2.0/export`` as https://developer.mixpanel.com/reference/raw-event-export documents it
(2026-11) and as connectors have seen it: made-up events (:mod:`.events`), accounts and rate limits (:mod:`.access`)
and faults (:mod:`.faults`). The endpoints of the Query API (:mod:`.query_api`) are on the same host here: made-up
profiles and cohorts (:mod:`.people`), in sessions of pages (:mod:`.engage`), and reports (:mod:`.reports`). Unlike
Mixpanel it speaks plain HTTP, keeps to 127.0.0.1, knows one project and one account, and understands a part of
Mixpanel's expressions (:mod:`.expressions`). Every answer names it in its ``Server`` header.

For other processes there is ``GET /_standin/stats``, ``GET /_standin/truth?date=``, ``GET`` and ``POST
/_standin/faults`` (a JSON list that replaces the schedule).

From the command line: ``python -m tests.standins.mixpanel``; see :mod:`.__main__`.
"""

from __future__ import annotations

import datetime as dt
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from tests.standins.mixpanel.access import Account, Gate, Limits
from tests.standins.mixpanel.bodies import DayStore
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.export import export
from tests.standins.mixpanel.faults import EXPORT_PATH, Fault, FaultSchedule
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.query import Query, RefusedError, parse_query
from tests.standins.mixpanel.query_api import Question, parse_question, query
from tests.standins.mixpanel.reports import Reports
from tests.standins.stats import Stats
from tests.standins.wire import Answer, Framing, Wire

_UNANSWERED_KINDS = frozenset({"refuse", "silent"})


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class StandIn:
    """The server, for use inside a test's process: ``with StandIn(Project()) as mixpanel: mixpanel.url``.

    :param faults: the schedule to start with; replace it at any time with ``standin.faults.replace([...])``.
    :param cache: a folder that keeps compressed days for later processes; None keeps them in memory.
    :param now: the clock that decides what "today" is, and that the Date header shows.
    :param framing: of answers without a fault.
    :param port: 0 takes a free one.
    :param people: whom the Query API knows; replace them to change the answers to new sessions.
    :param engage: how it pages them.
    :param reports: what funnels, retention, saved reports and annotations say.
    :param query_limits: the Query API's own.
    :raises OSError: if the port is taken.
    """

    def __init__(
        self,
        project: Project,
        *,
        faults: Iterable[Fault] = (),
        limits: Limits | None = None,
        account: Account | None = None,
        cache: Path | None = None,
        now: Callable[[], dt.datetime] = _utc_now,
        framing: Framing = "chunked",
        port: int = 0,
        people: People | None = None,
        engage: Engage | None = None,
        reports: Reports | None = None,
        query_limits: Limits | None = None,
    ) -> None:
        self.account = account or Account()
        self.faults = FaultSchedule(faults)
        self.gate = Gate(limits or Limits(), self.account.project_id)
        self.query_gate = Gate(query_limits or Limits(), self.account.project_id)
        self.people = people or People()
        self.engage = engage or Engage()
        self.reports = reports or Reports()
        self.framing: Framing = framing
        self.stop = threading.Event()
        self._cache = cache
        self._now = now
        self._stats = Stats()
        self.project = project
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="mixpanel-standin", daemon=True
        )

    @property
    def project(self) -> Project:
        """What is served; set another project to change the answers for the same days."""
        return self._store_of[0]

    @project.setter
    def project(self, project: Project) -> None:
        self._store_of = (project, DayStore(project, self._cache))

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
        """Requests and answers so far; see :meth:`Stats.snapshot`."""
        return self._stats.snapshot()

    @property
    def counts(self) -> Stats:
        """The counters themselves, for the handler."""
        return self._stats

    @property
    def now(self) -> dt.datetime:
        """The present instant by the server's clock, as its answers' Date header has it."""
        return self._now()

    @property
    def today(self) -> dt.date:
        """The last date that may be requested."""
        return self.project.today(self.now)

    def prepare(self, dates: Iterable[dt.date]) -> None:
        """Make and compress days now, each for a request for that day only, so that no request waits."""
        for date in dates:
            self._store_of[1].gzipped((date,))

    def answer(self, query: Query, fault: Fault | None, *, accepts_gzip: bool) -> Answer:
        """Return the project's answer to ``query``."""
        project, store = self._store_of
        return export(store, project, query, fault, accepts_gzip=accepts_gzip)

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
    request_queue_size = 256  # Airflow may start a hundred exports at once

    def __init__(self, address: tuple[str, int], standin: StandIn) -> None:
        self.standin = standin
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for its next request
                except OSError:
                    continue  # the client or a fault has closed it

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):  # these mean that the client has left
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "mixpanel-standin/1"
    sys_version = ""
    disable_nagle_algorithm = True
    timeout = 300  # seconds for one read or write

    @property
    def _standin(self) -> StandIn:
        return cast(_Server, self.server).standin

    def do_GET(self) -> None:  # http.server's name
        path = urlsplit(self.path).path
        if path == EXPORT_PATH:
            self._export()
        elif path.startswith("/_standin/"):
            self._inspect(path.removeprefix("/_standin/"))
        elif question := parse_question("GET", path, self._parameters()):
            self._query(question)
        else:
            self._json(404, {"request": path, "error": "Not found"})

    def do_POST(self) -> None:  # http.server's name
        path = urlsplit(self.path).path
        is_query = parse_question("POST", path, {}) is not None
        if path != "/_standin/faults" and not is_query:
            self.close_connection = True  # the body stays unread
            self._json(405, {"request": self.path, "error": "Method not allowed"})
            return
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if is_query:
            form = {name: fault[-1] for name, fault in parse_qs(text.decode(), keep_blank_values=True).items()}
            self._query(Question("POST", path, self._parameters(), form))
            return
        try:
            faults = [Fault.from_json(options) for options in json.loads(text)]
        except (ValueError, TypeError) as error:
            self._json(400, {"error": str(error)})
            return
        self._standin.faults.replace(faults)
        self._json(200, {"faults": len(faults)})

    def _export(self) -> None:
        standin = self._standin
        try:
            query = self._admit()
        except RefusedError as refusal:
            self._refuse(refusal)
            return
        standin.counts.start()
        try:
            self._serve(query)
        except (ConnectionError, TimeoutError):
            standin.counts.count_aborted()
            self.close_connection = True
        finally:
            standin.counts.end()
            standin.gate.leave()

    def _admit(self) -> Query:
        standin = self._standin
        parameters = parse_qs(urlsplit(self.path).query)
        standin.account.authorize(self.headers.get("Authorization"), parameters.get("project_id", [None])[-1])
        query = parse_query(self.path, standin.today)
        standin.gate.enter()
        return query

    def _serve(self, query: Query) -> None:
        standin = self._standin
        accepts_gzip = _accepts_gzip(self.headers.get("Accept-Encoding"))
        fault = standin.faults.take(query.dates, accepts_gzip=accepts_gzip)
        kind = fault.kind if fault else None
        answer = standin.answer(query, fault, accepts_gzip=accepts_gzip)
        status = "none" if kind in _UNANSWERED_KINDS else str(answer.status)
        standin.counts.count_answer(_requested_dates(self.path), status, kind)
        self._wire().send(answer, standin.framing, fault)

    def _query(self, question: Question) -> None:
        standin = self._standin
        try:
            standin.account.authorize(
                self.headers.get("Authorization"),
                question.params.get("project_id"),
                is_query=not question.is_app,
                takes_secret=not question.is_app,
            )
            standin.query_gate.enter(is_counted=not (question.page or question.is_app))
        except RefusedError as refusal:
            self._refuse(refusal, question.name)
            return
        standin.counts.start()
        try:
            self._serve_query(question)
        except RefusedError as refusal:
            self._refuse(refusal, question.name)
        except (ConnectionError, TimeoutError):
            standin.counts.count_aborted()
            self.close_connection = True
        finally:
            standin.counts.end()
            standin.query_gate.leave()

    def _serve_query(self, question: Question) -> None:
        standin = self._standin
        accepts_gzip = _accepts_gzip(self.headers.get("Accept-Encoding"))
        fault = standin.faults.take((), accepts_gzip=accepts_gzip, path=question.path, page=question.page)
        answer = query(standin, question, fault, accepts_gzip=accepts_gzip)
        kind = fault.kind if fault else None
        standin.counts.count_answer(question.name, "none" if kind in _UNANSWERED_KINDS else str(answer.status), kind)
        self._wire().send(answer, standin.framing, fault)

    def _parameters(self) -> dict[str, str]:
        return {name: texts[-1] for name, texts in parse_qs(urlsplit(self.path).query).items()}

    def _refuse(self, refusal: RefusedError, request_name: str = "") -> None:
        self._standin.counts.count_answer(request_name or _requested_dates(self.path), str(refusal.status))
        if refusal.form == "json":
            self._json(refusal.status, {"request": self.path, "error": refusal.message}, refusal.headers)
        else:
            body = memoryview(refusal.message.encode())
            self._wire().send(Answer(refusal.status, body, {"Content-Type": "text/plain", **refusal.headers}), "length")

    def _inspect(self, name: str) -> None:
        standin = self._standin
        if name == "stats":
            self._json(200, standin.stats)
        elif name == "faults":
            self._json(200, [fault.as_json() for fault in standin.faults.remaining()])
        elif name == "truth":
            self._truth(parse_qs(urlsplit(self.path).query).get("date", [""])[-1])
        else:
            self._json(404, {"error": "known: stats, faults, truth?date=yyyy-mm-dd"})

    def _truth(self, text: str) -> None:
        try:
            date = dt.date.fromisoformat(text)
        except ValueError:
            self._json(400, {"error": "date must be yyyy-mm-dd"})
            return
        self._json(200, self._standin.project.truth(date)._asdict())

    def _json(self, status: int, document: object, headers: dict[str, str] | None = None) -> None:
        body = memoryview(json.dumps(document).encode())
        self._wire().send(Answer(status, body, {"Content-Type": "application/json", **(headers or {})}), "length")

    def _wire(self) -> Wire:
        return Wire(self, self._standin.counts.count_bytes_sent, self._standin.stop)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the time for the Date header, by the stand-in's own clock."""
        return super().date_time_string(self._standin.now.timestamp() if timestamp is None else timestamp)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the stats count requests, and a request line may hold secrets."""


def _requested_dates(target: str) -> str:
    """Return the dates that a request names, if any, and no other text of the client's."""
    parameters = parse_qs(urlsplit(target).query)
    try:
        first, last = (dt.date.fromisoformat(parameters[name][-1]) for name in ("from_date", "to_date"))
    except (KeyError, ValueError):
        return "unreadable"
    return str(first) if first == last else f"{first}..{last}"


def _accepts_gzip(header: str | None) -> bool:
    """Tell whether Accept-Encoding has gzip or ``*`` without ``q=0``."""
    for coding in (header or "").split(","):
        name, _, weight = coding.replace(" ", "").partition(";q=")
        if name in ("gzip", "*"):
            return weight not in ("0", "0.0", "0.00", "0.000")
    return False
