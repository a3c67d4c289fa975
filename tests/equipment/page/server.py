"""A server of the page's files that answers with what is made up, under the page's own address and content policy."""

from __future__ import annotations

import datetime as dt
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import airflow_provider_connect
from airflow_provider_connect.page.app import POLICY
from tests.equipment.page import sample_answers

STATIC = Path(airflow_provider_connect.__file__).parent / "page" / "static"
KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PREFIX = "/connect/"
AROUND = "/around"
"""A page that shows this one within it, in a frame with the rights that Airflow gives it."""
RIGHTS = "allow-scripts allow-same-origin allow-forms allow-downloads"


@dataclass
class Answers:
    """What the server says, and what it was told.

    :ivar preview: changes of each backfill's cost.
    :ivar missing: every stream's missing days, in place of its own.
    :ivar refusal: status and text of every answer, in place of all others.
    :ivar instead: a text in place of every answer, with status 200.
    :ivar asked: the addresses of all questions, from the first.
    """

    streams: list[dict[str, Any]] = field(default_factory=sample_answers.streams)
    preview: dict[str, Any] = field(default_factory=dict)
    missing: list[dict[str, Any]] | None = None
    refusal: tuple[int, str] | None = None
    instead: str | None = None
    asked: list[str] = field(default_factory=list)
    orders: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    url: str = ""
    first_day: str = sample_answers.FIRST_DAY

    def of(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        """Return the answer to a question."""
        if path == "streams":
            return {"as_of": sample_answers.NOW, "streams": self.streams}
        if path == "backfill":
            return sample_answers.preview(query["from"][0], query["to"][0], **self.preview)
        _, dag_id, task_id, *more = path.split("/")
        (stream,) = (
            candidate for candidate in self.streams if (candidate["dag_id"], candidate["task_id"]) == (dag_id, task_id)
        )
        if more:
            return sample_answers.one_day(stream, dt.date.fromisoformat(more[1]))
        first, last = (dt.date.fromisoformat(query[name][0]) for name in ("from", "to"))
        detail = sample_answers.detail(stream, first, last) | {"first_day": self.first_day}
        return detail if self.missing is None else detail | {"missing": self.missing}


def around(query: str) -> str:
    """Return the page around the page."""
    return f'<!doctype html><iframe sandbox="{RIGHTS}" width=900 height=900 src="{PREFIX}?{query}"></iframe>'


@contextmanager
def served() -> Iterator[Answers]:
    """Serve the page."""
    answers = Answers()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            path = parts.path.removeprefix(PREFIX) or "index.html"
            if path.startswith("api/"):
                answers.asked.append(self.path.removeprefix(f"{PREFIX}api/"))
                self.say(200, answers.of(path.removeprefix("api/"), parse_qs(parts.query)))
            elif parts.path == AROUND:
                self.send(200, "text/html", around(parts.query).encode(), policy="")
            elif (file := STATIC / path).is_file():
                self.send(200, KINDS[file.suffix], file.read_bytes())
            else:
                self.send(404, "text/plain", b"nothing here")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answers.orders.append((self.path.removeprefix(f"{PREFIX}api/"), dict(self.headers.items()), body))
            self.say(200, {"done": "It is asked for", "url": "/dags/mixpanel_daily"})

        def say(self, status: int, answer: dict[str, Any]) -> None:
            if answers.refusal is not None:
                status, answer = answers.refusal[0], {"error": answers.refusal[1]}
            text = json.dumps(answer) if answers.instead is None else answers.instead
            self.send(status, "application/json", text.encode())

        def send(self, status: int, kind: str, data: bytes, policy: str = POLICY) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-security-policy", policy)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers.url = f"http://127.0.0.1:{server.server_port}{PREFIX}"
        yield answers
        server.shutdown()
