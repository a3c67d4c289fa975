"""A REST API on a port of this machine, with every kind of paging and the quirks by which APIs lose rows.

``quirks`` are permanent. ``faults`` see each request in turn and may answer instead of the API. ``asked`` records the
requests.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from airflow_provider_connect.connection import Connection
from tests.equipment.rest_api.items import DATE, items_of, parents

Quirk = Literal[
    "always_a_token",  # a cursor or link on the last page, too
    "caps_silently",  # serves fewer than it is asked for
    "drops_after_paging",  # filters rows after it has cut pages
    "empty_page_in_the_middle",
    "ends_at_20",  # lists no more, and says nothing of it
    "ignores_the_page",
    "inclusive_end",
    "links_hold_the_query",
    "loops",  # A, B, A, B
    "null_for_empty",
    "omits_empty",
    "past_the_end_is_400",
    "repeats_the_last_page",
    "total_is_null",
    "tokens_change_rows_stay",
]


@dataclass
class Request:
    """A request: the path as sent, still quoted, and the query's pairs in order."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: Mapping[str, str]
    document: Any = None

    def first(self, name: str, default: str = "") -> str:
        return next((value for key, value in self.query if key == name), default)


@dataclass
class Answer:
    """What goes back.

    :param cut: how many bytes of the body are not sent, though announced.
    """

    document: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    cut: int = 0

    @property
    def body(self) -> bytes:
        return self.raw if self.raw is not None else json.dumps(self.document, ensure_ascii=False).encode()


Fault = Callable[[Request], Answer | None]
"""Answers in the API's place; None lets it answer itself."""


class RestApi:
    """Serves items until its block ends.

    :ivar authorize: whether a request may be answered; by default any.
    """

    def __init__(
        self, items: Sequence[dict[str, Any]] | None = None, *, page_size: int = 10, quirks: Sequence[Quirk] = ()
    ) -> None:
        self.items = list(items if items is not None else items_of(DATE, 35))
        self.page_size = page_size
        self.quirks: set[str] = set(quirks)
        self.faults: list[Fault] = []
        self.asked: list[Request] = []
        self.authorize: Callable[[Request], bool] = lambda _: True
        self._lock = threading.Lock()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # on a connection that is kept, a body would wait for the head's ACK

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                parts = urlsplit(self.path)
                posted = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(
                    self.command,
                    parts.path,
                    parse_qsl(parts.query, keep_blank_values=True),
                    {name.lower(): ", ".join(self.headers.get_all(name, [])) for name in self.headers},
                    json.loads(posted) if posted[:1] in (b"{", b"[") else posted.decode(),
                )
                answer = api.answer(request)
                body = answer.body
                if "gzip" in request.headers.get("accept-encoding", ""):
                    body = gzip.compress(body, 1)
                    answer.headers["Content-Encoding"] = "gzip"
                self.send_response(answer.status)
                for name, value in ({"Content-Type": "application/json"} | answer.headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) - answer.cut])
                if answer.cut:
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def connection(self) -> Connection:
        return Connection(
            conn_id="api",
            conn_type="http",
            host="http://127.0.0.1",
            port=self.port,
            login="canary-login-5d",
            password="canary'secret\"77",
        )

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.asked.append(request)
            for fault in self.faults:
                if (answer := fault(request)) is not None:
                    return answer
        if not self.authorize(request):
            return Answer({"error": "who are you?"}, 401)
        return self.served(request)

    def served(self, request: Request) -> Answer:
        """Return the API's regular answer."""
        kind = request.path.strip("/").partition("/")[0]
        handler: Callable[[Request], Answer] | None = getattr(self, f"_{kind.replace('-', '_')}", None)
        return handler(request) if handler else Answer({"error": "no such path"}, 404)

    # What there is

    def _items_in_bounds(self, request: Request) -> list[dict[str, Any]]:
        """Return the items within the bounds, compared by the second. The end is excluded except as a quirk."""
        since, until = request.first("since"), request.first("until")
        if isinstance(request.document, dict):
            since, until = request.document.get("since", since), request.document.get("until", until)
        items_in_bounds = []
        for item in self.items:
            second = dt.datetime.fromisoformat(item["at"]).replace(microsecond=0)
            if since and second < _moment(since).replace(microsecond=0):
                continue
            if until and (second > _moment(until) if "inclusive_end" in self.quirks else second >= _moment(until)):
                continue
            items_in_bounds.append(item)
        return items_in_bounds[:20] if "ends_at_20" in self.quirks else items_in_bounds

    def _served_size(self, requested: str) -> int:
        size = int(requested) if requested else self.page_size
        return min(size, self.page_size) if "caps_silently" in self.quirks else size

    def _page_of(self, items: list[dict[str, Any]], start: int, size: int) -> list[dict[str, Any]]:
        if "ignores_the_page" in self.quirks:
            start = 0
        if "repeats_the_last_page" in self.quirks and start >= len(items):
            start = (len(items) - 1) // size * size
        if "empty_page_in_the_middle" in self.quirks and size <= start:
            if start < 2 * size:
                return []
            start -= size  # what would have been on it comes later
        page = items[start : start + size]
        return [item for item in page if item["id"] % 3] if "drops_after_paging" in self.quirks else page

    def _has_more(self, items: list[dict[str, Any]], end: int, size: int) -> bool:
        return end < len(items) + (size if "empty_page_in_the_middle" in self.quirks else 0)

    def _page_document(self, page: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        if not page and "omits_empty" in self.quirks:
            return more
        return {"items": None if not page and "null_for_empty" in self.quirks else page, **more}

    # The ways to page

    def _single(self, request: Request) -> Answer:
        return Answer(self._items_in_bounds(request))

    def _pages(self, request: Request) -> Answer:
        """Pages with numbers. Totals in the body of /pages/totals and in headers."""
        items, number, size = (
            self._items_in_bounds(request),
            int(request.first("page", "1")),
            self._served_size(request.first("size")),
        )
        page = self._page_of(items, (number - 1) * size, size)
        if "past_the_end_is_400" in self.quirks and (number - 1) * size >= len(items):
            return Answer({"code": "invalid_page"}, 400)
        headers = {"X-Total": str(len(items)), "X-Pages": str(-(-len(items) // size))}
        if not request.path.endswith("totals"):
            return Answer(page, headers=headers)
        total = None if "total_is_null" in self.quirks else len(items)
        return Answer(
            self._page_document(page, total=total, more=self._has_more(items, number * size, size)), headers=headers
        )

    def _offset(self, request: Request) -> Answer:
        items, start, size = (
            self._items_in_bounds(request),
            int(request.first("offset", "0")),
            self._served_size(request.first("limit")),
        )
        page = self._page_of(items, start, size)
        return Answer(self._page_document(page, total=len(items), more=self._has_more(items, start + size, size)))

    def _linked(self, request: Request) -> Answer:
        """A Link header, and the same address in the body."""
        items, start, size = (
            self._items_in_bounds(request),
            int(request.first("from", "0")),
            self._served_size(request.first("size")),
        )
        has_next = self._has_more(items, start + size, size) or "always_a_token" in self.quirks
        other_params = [(name, value) for name, value in request.query if name != "from"]
        following = start + size
        if "loops" in self.quirks:
            following, has_next = (size if start != size else 2 * size), True
        url = f"{request.path}?{urlencode([*other_params, ('from', str(following))])}"
        links = f'<http://127.0.0.1:{self.port}{url}>; rel="next", </first>; rel="first"'
        body = self._page_document(self._page_of(items, start, size), end_of_stream=start + size >= len(items))
        if has_next:
            body["@odata.nextLink"] = url
            body["links"] = {"next": url}
        return Answer(body, headers={"Link": links} if has_next else {})

    def _cursor(self, request: Request) -> Answer:
        """A token in the body under meta and in a header, sent back in the query or a header."""
        items, size = self._items_in_bounds(request), self._served_size(request.first("size"))
        token = request.first("cursor") or request.headers.get("x-cursor", "") or "c0"
        start = int(token.rpartition("c")[2])
        has_more = self._has_more(items, start + size, size)
        following = f"c{start + size}" if has_more or "always_a_token" in self.quirks else ""
        if "loops" in self.quirks:
            following = f"c{size if start != size else 2 * size}"
        if "tokens_change_rows_stay" in self.quirks:
            return Answer(self._page_document(items[:size], meta={"next": f"c{start + size}"}))
        page = self._page_of(items, start, size)
        body = self._page_document(page, meta={"next": following or None, "has.more": has_more}, has_more=has_more)
        return Answer(body, headers={"X-Next": following} if following else {})

    def _last(self, request: Request) -> Answer:
        """Newest first, as Stripe: the next page by the last item's id."""
        items = self._items_in_bounds(request)[::-1]
        last_id = request.first("starting_after")
        start = next((at + 1 for at, item in enumerate(items) if str(item["id"]) == last_id), 0)
        page = self._page_of(items, start, self.page_size)
        return Answer({"data": page, "has_more": start + self.page_size < len(items)})

    def _body(self, request: Request) -> Answer:
        """A continuation token in the body of a POST. Null is refused, as at Notion."""
        document = request.document
        if request.method != "POST" or document.get("start_cursor", "") is None:
            return Answer({"error": "start_cursor must be a text"}, 400)
        items, start = self._items_in_bounds(request), int(document.get("start_cursor", "0"))
        end = start + self.page_size
        has_more = end < len(items)
        return Answer(
            {"results": items[start:end], "has_more": has_more, "next_cursor": str(end) if has_more else None}
        )

    def _parents(self, request: Request) -> Answer:
        """All parents by page, or, under /parents/<id>/items, the items of one."""
        steps = request.path.strip("/").split("/")
        if len(steps) == 1:
            number = int(request.first("page", "1"))
            return Answer(parents()[(number - 1) * 3 : number * 3])
        children = [item for item in self._items_in_bounds(request) if item["parent"] == unquote(steps[1])]
        number = int(request.first("page", "1"))
        return Answer(children[(number - 1) * 2 : number * 2])

    def _count(self, request: Request) -> Answer:
        return Answer({"meta": {"count": len(self._items_in_bounds(request))}})


def _moment(text: str | int) -> dt.datetime:
    if isinstance(text, int) or text.isdigit():
        return dt.datetime.fromtimestamp(int(text), dt.UTC)
    moment = dt.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
