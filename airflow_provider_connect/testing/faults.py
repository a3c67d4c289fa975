"""An HTTP server that fails as it is told: by itself, or as a proxy before a good one that cuts answers."""

from __future__ import annotations

import base64
import re
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

GIVE_UP_SECONDS = 60.0
"""Only so that a failing case ends."""
_BLOCK = 64 * 1024


class FaultyServer:
    """Listens on a port of this machine until its block ends.

    :param behind: port of a good server that it passes requests on to; without one it answers them itself.
    :param status: what it answers itself, such as ``"401 Unauthorized"``, and with it whatever it was sent, so that a
        client which shows answers shows its secrets.
    :param cut_after: bytes of answers, over all connections, after which every one is closed; None for no limit.
    :ivar passed: bytes of answers passed on so far.
    """

    def __init__(self, *, behind: int | None = None, status: str = "", cut_after: int | None = None) -> None:
        self.passed = 0
        self._behind = behind
        self._status = status
        self._cut_after = cut_after
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, name="faulty-server", daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            for each in self._open:
                _end(each)

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            self._keep(near)
            threading.Thread(target=self._answer, args=(near,), daemon=True).start()

    def _keep(self, made: socket.socket) -> None:
        made.settimeout(GIVE_UP_SECONDS)
        with self._lock:
            self._open.append(made)

    def _answer(self, near: socket.socket) -> None:
        with suppress(OSError):
            if self._behind is None:
                near.sendall(_answer(self._status, _head(near)))
            elif not self._is_cut():
                far = socket.create_connection(("127.0.0.1", self._behind))
                self._keep(far)
                threading.Thread(target=_carry, args=(near, far), daemon=True).start()
                self._carry_back(far, near)
        _end(near)

    def _is_cut(self) -> bool:
        with self._lock:
            return self._cut_after is not None and self.passed >= self._cut_after

    def _carry_back(self, far: socket.socket, near: socket.socket) -> None:
        while data := far.recv(_BLOCK):
            with self._lock:
                left = len(data) if self._cut_after is None else max(self._cut_after - self.passed, 0)
                self.passed += len(data[:left])
            near.sendall(data[:left])
            if left < len(data) or self._is_cut():
                break
        _end(far)


def _carry(near: socket.socket, far: socket.socket) -> None:
    with suppress(OSError):
        while data := near.recv(_BLOCK):
            far.sendall(data)
        far.shutdown(socket.SHUT_WR)


def _end(made: socket.socket) -> None:
    with suppress(OSError):
        made.shutdown(socket.SHUT_RDWR)
    made.close()


def _head(near: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and (data := near.recv(_BLOCK)):
        head += data
    return head


def _answer(status: str, head: bytes) -> bytes:
    echoed = head
    for token in re.findall(rb"(?i)^authorization: *basic +(\S+)", head, re.MULTILINE):
        echoed += base64.b64decode(token) + b"\n"
    about = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(echoed)}\r\nConnection: close\r\n"
    if status.startswith("429"):
        about += "Retry-After: 7\r\n"
    return about.encode() + b"\r\n" + echoed
