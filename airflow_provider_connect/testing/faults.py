"""Servers of a case's own: one that fails as it is told, by itself or as a proxy before a good one."""

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
"""Only so that a failing case ends."""
BLOCK_BYTES = 64 * 1024


class Listener:
    """Listens on a port of this machine until its block ends, and talks to whoever comes in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.getsockname()[1])

    def talk(self, near: socket.socket) -> None:
        """Talk to a client; its connection is ended afterwards."""
        raise NotImplementedError

    def call(self, port: int) -> socket.socket:
        """Return a connection to another server of this machine, which lasts as long as this block at the most."""
        return self._kept(socket.create_connection(("127.0.0.1", port)))

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, name="listener", daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            for each in self._open:
                end(each)

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(self._kept(near),), daemon=True).start()

    def _talk(self, near: socket.socket) -> None:
        with suppress(OSError):
            self.talk(near)
        end(near)

    def _kept(self, made: socket.socket) -> socket.socket:
        made.settimeout(GIVE_UP_SECONDS)
        with self._lock:
            self._open.append(made)
        return made


class FaultyServer(Listener):
    """Fails as it is told.

    :param behind: port of a good server that it passes requests on to; without one it answers them itself.
    :param status: what it answers itself, such as ``"401 Unauthorized"``, and with it whatever it was sent, so that a
        client which shows answers shows its secrets.
    :param cut_after: bytes of answers, over all connections, after which every one is closed; None for no limit.
    :ivar passed: bytes of answers passed on so far.
    """

    def __init__(self, *, behind: int | None = None, status: str = "", cut_after: int | None = None) -> None:
        super().__init__()
        self.passed = 0
        self._behind = behind
        self._status = status
        self._cut_after = cut_after

    def talk(self, near: socket.socket) -> None:
        """Answer a request, or pass it on."""
        if self._behind is None:
            near.sendall(_answer(self._status, _head(near)))
        elif not self._is_cut():
            far = self.call(self._behind)
            threading.Thread(target=_carry, args=(near, far), daemon=True).start()
            self._carry_back(far, near)

    def _is_cut(self) -> bool:
        with self._lock:
            return self._cut_after is not None and self.passed >= self._cut_after

    def _carry_back(self, far: socket.socket, near: socket.socket) -> None:
        while data := far.recv(BLOCK_BYTES):
            with self._lock:
                left = len(data) if self._cut_after is None else max(self._cut_after - self.passed, 0)
                self.passed += len(data[:left])
            near.sendall(data[:left])
            if left < len(data) or self._is_cut():
                break
        end(far)


def end(made: socket.socket) -> None:
    """End a connection at once, whoever else uses it."""
    with suppress(OSError):
        made.shutdown(socket.SHUT_RDWR)
    made.close()


def _carry(near: socket.socket, far: socket.socket) -> None:
    with suppress(OSError):
        while data := near.recv(BLOCK_BYTES):
            far.sendall(data)
        far.shutdown(socket.SHUT_WR)


def _head(near: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and (data := near.recv(BLOCK_BYTES)):
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


class Gate(Listener):
    """Passes on what clients and a server say to each other, and stops each time the speaker changes.

    Where both take turns, as in HTTP, that is before a request reaches the server and before its answer goes back.

    :param behind: port of the server on this machine.
    :ivar stops: how many there were since :meth:`watch`.
    """

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.stops = 0
        self._behind = behind
        self._at_stop: Callable[[int], bool] = lambda stop: True

    def watch(self, at_stop: Callable[[int], bool]) -> None:
        """Call this at each stop from now on.

        :param at_stop: is given the stop's number, from 0 on; False ends the connection there.
        """
        with self._lock:
            self.stops, self._at_stop = 0, at_stop

    def talk(self, near: socket.socket) -> None:
        """Pass on a conversation until either side, or a stop, ends it."""
        far, speaker = self.call(self._behind), None
        while ready := select.select([near, far], [], [], GIVE_UP_SECONDS)[0]:
            for side in ready:
                data = side.recv(BLOCK_BYTES)
                if not data or (side is not speaker and not self._passes()):
                    end(far)
                    return
                speaker = side
                (far if side is near else near).sendall(data)

    def _passes(self) -> bool:
        with self._lock:
            number, at_stop = self.stops, self._at_stop
            self.stops += 1
        return at_stop(number)
