"""A failing server or proxy, and a proxy that pauses between requests."""

from __future__ import annotations

import base64
import re
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

GIVE_UP_SECONDS = 60.0
"""Socket timeout. Only a failing case reaches it."""
BLOCK_BYTES = 64 * 1024


class Listener:
    """Local server until its ``with`` block ends, with a thread for each client."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))

    @property
    def port(self) -> int:
        """Port to connect to."""
        return int(self._server.getsockname()[1])

    def talk(self, client: socket.socket) -> None:
        """Serve one client. The caller then closes the connection."""
        raise NotImplementedError

    def call(self, port: int) -> socket.socket:
        """Connect to another local server until the ``with`` block ends."""
        return self._track(socket.create_connection(("127.0.0.1", port)))

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, name="listener", daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            for open_socket in self._open:
                end(open_socket)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(self._track(client),), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        with suppress(OSError):
            self.talk(client)
        end(client)

    def _track(self, new_socket: socket.socket) -> socket.socket:
        new_socket.settimeout(GIVE_UP_SECONDS)
        with self._lock:
            self._open.append(new_socket)
        return new_socket


class FaultyServer(Listener):
    """Server that answers with an error, or proxy that cuts answers.

    :param behind: port of a healthy server to forward to.
    :param status: of its answers, such as ``"401 Unauthorized"``. The body echoes the request.
    :param cut_after: forwarded bytes, over all connections, after which it closes every connection.
    :ivar passed: bytes of answers forwarded so far.
    """

    def __init__(self, *, behind: int | None = None, status: str = "", cut_after: int | None = None) -> None:
        super().__init__()
        self.passed = 0
        self._behind = behind
        self._status = status
        self._cut_after = cut_after

    def talk(self, client: socket.socket) -> None:
        """Answer a request, or forward it."""
        if self._behind is None:
            client.sendall(_build_response(self._status, _read_head(client)))
        elif not self._is_cut():
            server = self.call(self._behind)
            threading.Thread(target=_forward, args=(client, server), daemon=True).start()
            self._send_back(server, client)

    def _is_cut(self) -> bool:
        with self._lock:
            return self._cut_after is not None and self.passed >= self._cut_after

    def _send_back(self, server: socket.socket, client: socket.socket) -> None:
        while data := server.recv(BLOCK_BYTES):
            with self._lock:
                bytes_allowed = len(data) if self._cut_after is None else max(self._cut_after - self.passed, 0)
                self.passed += len(data[:bytes_allowed])
            client.sendall(data[:bytes_allowed])
            if bytes_allowed < len(data) or self._is_cut():
                break
        end(server)


def end(connection: socket.socket) -> None:
    """Close a connection immediately, even if another thread uses it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _forward(client: socket.socket, server: socket.socket) -> None:
    with suppress(OSError):
        while data := client.recv(BLOCK_BYTES):
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)


def _read_head(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and (data := client.recv(BLOCK_BYTES)):
        head += data
    return head


def _build_response(status: str, request_head: bytes) -> bytes:
    body = request_head
    for token in re.findall(rb"(?i)^authorization: *basic +(\S+)", request_head, re.MULTILINE):
        body += base64.b64decode(token) + b"\n"
    response_head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    )
    if status.startswith("429"):
        response_head += "Retry-After: 7\r\n"
    return response_head.encode() + b"\r\n" + body


class Gate(Listener):
    """Proxy of a local server that calls a function before it passes on each request and each answer.

    :param behind: port of a local server.
    :ivar stops: number of calls since :meth:`watch`.
    """

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.stops = 0
        self._behind = behind
        self._at_stop: Callable[[int], bool] = lambda stop: True

    def watch(self, at_stop: Callable[[int], bool]) -> None:
        """Set the callback for every stop and restart the count at 0.

        :param at_stop: takes the stop's number. Returns False to end the connection.
        """
        with self._lock:
            self.stops, self._at_stop = 0, at_stop

    def talk(self, client: socket.socket) -> None:
        """Forward data in both directions until a side or a stop ends the connection."""
        server, sender = self.call(self._behind), None
        while ready := select.select([client, server], [], [], GIVE_UP_SECONDS)[0]:
            for side in ready:
                data = side.recv(BLOCK_BYTES)
                if not data or (side is not sender and not self._passes()):
                    end(server)
                    return
                sender = side
                (server if side is client else client).sendall(data)

    def _passes(self) -> bool:
        with self._lock:
            number, at_stop = self.stops, self._at_stop
            self.stops += 1
        return at_stop(number)
