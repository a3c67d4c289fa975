"""A proxy between the client libraries and BigQuery: it counts and times every call, and breaks selected ones.

Calls have a name: ``"POST /projects/p/jobs"`` for REST (the path after ``/bigquery/v2``, uploads as
``"POST /upload/projects/p/jobs"``), ``"AppendRows"`` and so on for gRPC, where each message of AppendRows is a call of
its own. A rule breaks the calls whose name its pattern finds, all or the n-th ones.
"""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import requests

SERVICE = "/google.cloud.bigquery.storage.v1.BigQueryWrite/"


@dataclass(frozen=True)
class Lose:
    """The call has its effect, the answer never arrives: the connection is cut."""


@dataclass(frozen=True)
class Cut:
    """The connection is cut before the call has an effect."""


@dataclass(frozen=True)
class Silent:
    """The call has no effect and no answer."""

    seconds: float = 60.0


@dataclass(frozen=True)
class Slow:
    """The call takes longer."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """The call waits until it is released, and is made then."""

    let_go: threading.Event


@dataclass(frozen=True)
class Refuse:
    """An error instead of the call, with the body that BigQuery really sends."""

    status: int
    reason: str = ""
    message: str = "made by the test"


@dataclass(frozen=True)
class RefuseAfter(Refuse):
    """The same after the call has had its effect."""


@dataclass(frozen=True)
class Fail:
    """A gRPC status ends the call; for AppendRows the whole connection."""

    code: grpc.StatusCode
    message: str = "made by the test"


@dataclass(frozen=True)
class FailAfter(Fail):
    """The same after the call has had its effect."""


@dataclass(frozen=True)
class Answer:
    """The call is not made; this is the answer (JSON for REST, bytes for gRPC)."""

    body: Any


@dataclass(frozen=True)
class Change:
    """The call is made, and the answer passes through a function (JSON for REST, bytes for gRPC)."""

    change: Callable[[Any], Any]


@dataclass(frozen=True)
class Gate:
    """Each call asks whether it may be made.

    :param enter: takes the body, and returns what is answered instead, or None.
    """

    enter: Callable[[bytes], Any]


@dataclass
class Rule:
    pattern: str
    action: Any
    nth: tuple[int, ...] | None = None
    seen: int = 0


@dataclass
class Call:
    """One call, recorded on arrival: once a client has the answer, the call is counted."""

    name: str
    body: bytes = b""  # of REST calls that send JSON
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def end(self) -> None:
        self.seconds = time.monotonic() - self.started


@dataclass
class BigQueryProxy:
    """A proxy to something with ``project``, ``rest_url`` and ``grpc_target``; it has the same three itself."""

    behind: Any
    rules: list[Rule] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def project(self) -> str:
        return self.behind.project

    @property
    def rest_url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"

    @property
    def grpc_target(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def __enter__(self) -> BigQueryProxy:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _rest_handler(self))
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.channel = grpc.insecure_channel(self.behind.grpc_target, options=_UNLIMITED)
        self.grpc_port = 0
        self.start_grpc()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stopping.set()
        self.http.shutdown()
        self.http.server_close()
        self.grpc.stop(None).wait()
        self.channel.close()

    def start_grpc(self) -> None:
        self.grpc = grpc.server(ThreadPoolExecutor(64), options=_UNLIMITED)
        self.grpc.add_generic_rpc_handlers((_Handler(self),))
        self.grpc_port = self.grpc.add_insecure_port(f"127.0.0.1:{self.grpc_port}")
        self.grpc.start()

    def go_away(self) -> None:
        """End every gRPC connection (GOAWAY, then cancelled) and listen again on the same port."""
        self.grpc.stop(None).wait()
        self.start_grpc()

    def breaks(self, pattern: str, action: Any, *nth: int) -> Rule:
        """Break the calls whose name the pattern finds: the n-th ones, counted from 1 and from now, or all."""
        rule = Rule(pattern, action, nth or None)
        self.rules.append(rule)
        return rule

    def heal(self) -> None:
        self.rules.clear()

    def count(self, pattern: str) -> int:
        with self.lock:
            return sum(bool(re.search(pattern, call.name)) for call in self.calls)

    def seconds(self, pattern: str) -> float:
        """Total time of the calls behind the proxy: the service's own time."""
        with self.lock:
            return sum(call.seconds for call in self.calls if re.search(pattern, call.name))

    def action(self, name: str) -> Any:
        with self.lock:
            found = None
            for rule in self.rules:
                if re.search(rule.pattern, name):
                    rule.seen += 1
                    if found is None and (rule.nth is None or rule.seen in rule.nth):
                        found = rule.action
            return found

    def note(self, name: str, body: bytes = b"") -> Call:
        with self.lock:
            self.calls.append(Call(name, body))
            return self.calls[-1]


_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def error_body(status: int, reason: str, message: str) -> dict[str, Any]:
    """Return an error as BigQuery's REST API sends it."""
    domains = {"rateLimitExceeded": "usageLimits", "quotaExceeded": "usageLimits"}
    one = {"message": message, "domain": domains.get(reason, "global"), "reason": reason}
    return {"error": {"code": status, "message": message, "errors": [one] if reason else []}}


def _rest_handler(proxy: BigQueryProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def pass_on(self) -> None:
            path = self.path.split("?")[0].replace("/bigquery/v2", "")
            name = f"{self.command} {path}"
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            noted = proxy.note(name, body if body.startswith(b"{") else b"")
            action = proxy.action(name)
            if isinstance(action, Slow):
                proxy.stopping.wait(action.seconds)
            if isinstance(action, Hold):
                action.let_go.wait(60)
            if isinstance(action, Silent):
                proxy.stopping.wait(action.seconds)
                self.cut()
            elif isinstance(action, Cut):
                self.cut()
            elif isinstance(action, Refuse) and not isinstance(action, RefuseAfter):
                self.answer(action.status, error_body(action.status, action.reason, action.message))
            elif isinstance(action, Answer):
                self.answer(200, action.body)
            elif isinstance(action, Gate):
                self.pass_gate(action, body)
            else:
                self.forward(action, body)
            noted.end()

        def pass_gate(self, gate: Gate, body: bytes) -> None:
            refused = gate.enter(body)
            if refused is None:
                self.forward(None, body)
            else:
                self.answer(200, refused)

        def forward(self, action: Any, body: bytes) -> None:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "accept-encoding")}
            url = f"{proxy.behind.rest_url}{self.path}"
            got = requests.request(self.command, url, data=body, headers=headers, timeout=300)
            self.give_back(action, got)

        def give_back(self, action: Any, got: requests.Response) -> None:
            if isinstance(action, Lose):
                self.cut()
            elif isinstance(action, RefuseAfter):
                self.answer(action.status, error_body(action.status, action.reason, action.message))
            elif isinstance(action, Change) and got.ok:
                self.answer(got.status_code, action.change(got.json()))
            else:
                kept = {k: v for k, v in got.headers.items() if k.lower() in ("content-type", "location", "range")}
                if "location" in got.headers:
                    kept["location"] = got.headers["location"].replace(proxy.behind.rest_url, proxy.rest_url)
                self.answer(got.status_code, got.content, kept)

        def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for key, value in (headers or {"content-type": "application/json"}).items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def cut(self) -> None:
            self.close_connection = True
            self.connection.shutdown(2)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815

    return Handler


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, proxy: BigQueryProxy) -> None:
        self.proxy = proxy

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method == f"{SERVICE}AppendRows":
            return grpc.stream_stream_rpc_method_handler(self.append_rows)
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self.unary(details.method, request, context)
        )

    def unary(self, method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        def call() -> bytes:
            return self.proxy.channel.unary_unary(method)(request, timeout=60)

        name = method.removeprefix(SERVICE)
        noted = self.proxy.note(name)
        try:
            return self.broken(self.proxy.action(name), call, context)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
            raise
        finally:
            noted.end()

    def broken(self, action: Any, call: Callable[[], bytes], context: grpc.ServicerContext) -> bytes:
        if isinstance(action, (Slow, Silent)):
            self.proxy.stopping.wait(action.seconds)
        if isinstance(action, Hold):
            action.let_go.wait(60)
        if isinstance(action, (Silent, Cut)):
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        if isinstance(action, Fail) and not isinstance(action, FailAfter):
            context.abort(action.code, action.message)
        if isinstance(action, Answer):
            return action.body
        answer = call()
        if isinstance(action, Lose):
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        if isinstance(action, FailAfter):
            context.abort(action.code, action.message)
        return action.change(answer) if isinstance(action, Change) else answer

    def append_rows(self, incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        behind = self.proxy.channel.stream_stream(f"{SERVICE}AppendRows")(iter(outgoing.get, None))

        def call(request: bytes) -> bytes:
            outgoing.put(request)
            return next(behind)

        try:
            for request in incoming:
                noted = self.proxy.note("AppendRows")
                try:
                    yield self.broken(self.proxy.action("AppendRows"), lambda r=request: call(r), context)
                except grpc.RpcError as error:
                    context.abort(error.code(), error.details())
                finally:
                    noted.end()
        finally:
            outgoing.put(None)
            behind.cancel()
