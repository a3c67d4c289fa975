"""A proxy that gives the emulator names with letters beyond ASCII, which BigQuery allows.

The emulator takes ASCII names only. So other characters of a request are encoded (``ö`` as ``_uf6_``), and decoded in
the answer: in paths and bodies of REST, and in text fields of gRPC messages. Rows pass unchanged. A job's id must be
ASCII, as in BigQuery.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote

import grpc
import requests
from google.cloud.bigquery_storage_v1 import types

from tests.equipment.bigquery.proxy import SERVICE, error_body

MESSAGES = {
    "CreateWriteStream": (types.CreateWriteStreamRequest, types.WriteStream),
    "GetWriteStream": (types.GetWriteStreamRequest, types.WriteStream),
    "FinalizeWriteStream": (types.FinalizeWriteStreamRequest, types.FinalizeWriteStreamResponse),
    "BatchCommitWriteStreams": (types.BatchCommitWriteStreamsRequest, types.BatchCommitWriteStreamsResponse),
    "AppendRows": (types.AppendRowsRequest, types.AppendRowsResponse),
}
_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def written_out(text: str) -> str:
    return re.sub(r"[^\x00-\x7f]", lambda match: f"_u{ord(match[0]):x}_", text)


def read_back(text: str) -> str:
    return re.sub(r"_u([0-9a-f]{2,6})_", lambda match: chr(int(match[1], 16)), text)


class Letters:
    """The same three attributes as what it stands in front of."""

    def __init__(self, behind: Any) -> None:
        self.behind = behind
        self.project = behind.project

    def __enter__(self) -> Letters:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _rest_handler(self))
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.rest_url = f"http://127.0.0.1:{self.http.server_port}"
        self.channel = grpc.insecure_channel(self.behind.grpc_target, options=_UNLIMITED)
        self.grpc = grpc.server(ThreadPoolExecutor(16), options=_UNLIMITED)
        self.grpc.add_generic_rpc_handlers((_Handler(self.channel),))
        self.grpc_target = f"127.0.0.1:{self.grpc.add_insecure_port('127.0.0.1:0')}"
        self.grpc.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.grpc.stop(None).wait()
        self.channel.close()


def _rest_handler(letters: Letters) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits 40 ms for the ACK of its head

        def log_message(self, *args: Any) -> None:
            pass

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if body.startswith(b"{"):
                sent = json.loads(body)
                if not re.fullmatch("[A-Za-z0-9_-]*", sent.get("jobReference", {}).get("jobId") or ""):
                    self.answer(400, json.dumps(error_body(400, "invalid", "Invalid job ID")), {})
                    return
                body = written_out(json.dumps(sent, ensure_ascii=False)).encode()
            path, _, query = self.path.partition("?")
            url = f"{letters.behind.rest_url}{quote(written_out(unquote(path)), safe='/$:')}?{query}"
            dropped = ("host", "accept-encoding", "content-length")
            headers = {k: v for k, v in self.headers.items() if k.lower() not in dropped}
            got = requests.request(self.command, url, data=body, headers=headers, timeout=300)
            kept = {k: v for k, v in got.headers.items() if k.lower() in ("content-type", "location", "range")}
            self.answer(got.status_code, read_back(got.text), kept)

        def answer(self, status: int, text: str, headers: dict[str, str]) -> None:
            content = text.encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value.replace(letters.behind.rest_url, letters.rest_url))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815

    return Handler


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        asked, answered = MESSAGES[details.method.removeprefix(SERVICE)]

        def requests_of(incoming: Iterator[bytes]) -> Iterator[bytes]:
            return (_changed(asked, request, written_out) for request in incoming)

        def append_rows(incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            for answer in self.channel.stream_stream(details.method)(requests_of(incoming)):
                yield _changed(answered, answer, read_back)

        def unary(request: bytes, context: grpc.ServicerContext) -> bytes:
            answer = self.channel.unary_unary(details.method)(_changed(asked, request, written_out), timeout=60)
            return _changed(answered, answer, read_back)

        if details.method.endswith("/AppendRows"):
            return grpc.stream_stream_rpc_method_handler(append_rows)
        return grpc.unary_unary_rpc_method_handler(unary)


def _changed(message_type: Any, data: bytes, change: Callable[[str], str]) -> bytes:
    message = message_type.pb().FromString(data)
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING and field.is_repeated:
            value[:] = [change(one) for one in value]
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, change(value))
    return bytes(message.SerializeToString())
