"""A proxy between the client libraries and BigQuery: it counts and times every call, and breaks selected ones.

Calls have a name: ``"POST /projects/p/jobs"`` for REST (the path after ``/bigquery/v2``, uploads as
``"POST /upload/projects/p/jobs"``), ``"AppendRows"`` and so on for gRPC, where each message of AppendRows is a call of
its own. A rule breaks the calls whose name its pattern finds, all or the n-th ones. A slow call is made late, and a
change is given the answer as JSON for REST, as bytes for gRPC.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import requests

from tests.equipment.broken_calls import Breaker, Call, Change, Cut, Hold, Lose, Rule, Slow

SERVICE = "/google.cloud.bigquery.storage.v1.BigQueryWrite/"


@dataclass(frozen=True)
class Silent:
    """The call has no effect and no answer."""

    seconds: float = 60.0


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
class Gate:
    """Each call asks whether it may be made.

    :param enter: takes the body, and returns what is answered instead, or None.
    """

    enter: Callable[[bytes], Any]


@dataclass
class NamedCall(Call):
    """A call by its name.

    :param body: of REST calls that send JSON.
    """

    name: str
    body: bytes = b""


@dataclass
class BigQueryProxy(Breaker[NamedCall]):
    """A proxy to something with ``project``, ``rest_url`` and ``grpc_target``; it has the same three itself."""

    behind: Any

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

    def breaks(self, pattern: str, action: Any, *nth: int) -> Rule[NamedCall]:
        """Break the calls whose name the pattern finds: the n-th ones, counted from 1 and from now, or all."""
        return self.add_rule(_named(pattern), action, nth)

    def count(self, pattern: str) -> int:
        return len(self.found(_named(pattern)))

    def seconds(self, pattern: str) -> float:
        """Total time of the calls behind the proxy: the service's own time."""
        return sum(call.seconds for call in self.found(_named(pattern)))


def _named(pattern: str) -> Callable[[NamedCall], bool]:
    return lambda call: re.search(pattern, call.name) is not None


_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def error_body(status: int, reason: str, message: str) -> dict[str, Any]:
    """Return an error as BigQuery's REST API sends it."""
    domains = {"rateLimitExceeded": "usageLimits", "quotaExceeded": "usageLimits"}
    one = {"message": message, "domain": domains.get(reason, "global"), "reason": reason}
    return {"error": {"code": status, "message": message, "errors": [one] if reason else []}}


def _rest_handler(proxy: BigQueryProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits 40 ms for the ACK of its head

        def log_message(self, *args: Any) -> None:
            pass

        def pass_on(self) -> None:
            path = self.path.split("?")[0].replace("/bigquery/v2", "")
            name = f"{self.command} {path}"
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            call = NamedCall(name, body if body.startswith(b"{") else b"")
            action = proxy.note(call)
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
            call.end()

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
        def make() -> bytes:
            return self.proxy.channel.unary_unary(method)(request, timeout=60)

        call = NamedCall(method.removeprefix(SERVICE))
        try:
            return self.broken(self.proxy.note(call), make, context)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
            raise
        finally:
            call.end()

    def broken(self, action: Any, make: Callable[[], bytes], context: grpc.ServicerContext) -> bytes:
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
        answer = make()
        if isinstance(action, Lose):
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        if isinstance(action, FailAfter):
            context.abort(action.code, action.message)
        return action.change(answer) if isinstance(action, Change) else answer

    def append_rows(self, incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        behind = self.proxy.channel.stream_stream(f"{SERVICE}AppendRows")(iter(outgoing.get, None))

        def make(request: bytes) -> bytes:
            outgoing.put(request)
            return next(behind)

        try:
            for request in incoming:
                call = NamedCall("AppendRows")
                try:
                    yield self.broken(self.proxy.note(call), lambda r=request: make(r), context)
                except grpc.RpcError as error:
                    context.abort(error.code(), error.details())
                finally:
                    call.end()
        finally:
            outgoing.put(None)
            behind.cancel()
