"""Writes a stand-in's answers to the socket: framing, and faults of the wire."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Literal, Protocol

Framing = Literal["chunked", "length", "eof"]

_PIECE_BYTES = 1 << 18
# A reset drops what the kernel has not sent yet: give it time to send what should arrive.
_BEFORE_RESET_SECONDS = 0.05


class Fault(Protocol):
    """What the wire wants to know of a fault: which it is, and where, how slowly and in what pieces it acts."""

    @property
    def kind(self) -> str:
        """One of :data:`WIRE_KINDS`; any other is none of the wire's."""

    @property
    def at(self) -> float:
        """The fraction of the body before it happens."""

    @property
    def seconds(self) -> float:
        """How long it lasts, or each pause."""

    @property
    def size_bytes(self) -> int:
        """How much comes at a time."""


@dataclass(frozen=True)
class Answer:
    """A response before it is framed."""

    status: int
    body: memoryview
    headers: Mapping[str, str] = field(default_factory=dict)


class Wire:
    """Sends one answer over one handler's connection.

    :param count_bytes: called with the number of body bytes handed to the kernel.
    :param stop: set when the server ends: a slow answer must not outlive it.
    """

    def __init__(
        self, handler: BaseHTTPRequestHandler, count_bytes: Callable[[int], None], stop: threading.Event
    ) -> None:
        self._handler = handler
        self._socket: socket.socket = handler.connection
        self._count_bytes = count_bytes
        self._stop = stop

    def send(self, answer: Answer, framing: Framing, fault: Fault | None = None) -> None:
        """Send it, with the fault if it is one of the wire."""
        kind = fault.kind if fault else "none"
        if fault is None or kind not in _PLAYED:
            self._head(answer, framing)
            self._body(answer.body, framing)
            self._end(framing)
        else:
            _PLAYED[kind](self, answer, framing, fault)

    def _head(self, answer: Answer, framing: Framing, promised_bytes: int | None = None) -> None:
        handler = self._handler
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if framing == "chunked":
            handler.send_header("Transfer-Encoding", "chunked")
        elif framing == "length":
            handler.send_header("Content-Length", str(len(answer.body) if promised_bytes is None else promised_bytes))
        else:
            handler.send_header("Connection", "close")
        handler.end_headers()

    def _body(self, body: memoryview, framing: Framing, piece_bytes: int = _PIECE_BYTES, pause: float = 0) -> None:
        for start in range(0, len(body), piece_bytes):
            if start and pause and self._stop.wait(pause):
                raise ConnectionAbortedError("the stand-in is ending")
            chunk = body[start : start + piece_bytes]
            if framing == "chunked":
                self._socket.sendall(b"%x\r\n" % len(chunk))
                self._socket.sendall(chunk)
                self._socket.sendall(b"\r\n")
            else:
                self._socket.sendall(chunk)
            self._count_bytes(len(chunk))

    def _end(self, framing: Framing) -> None:
        if framing == "chunked":
            self._socket.sendall(b"0\r\n\r\n")
        elif framing == "eof":
            self._handler.close_connection = True

    def _close(self) -> None:
        self._handler.close_connection = True

    def _cut_chunked(self, answer: Answer, _: Framing, fault: Fault) -> None:
        self._head(answer, "chunked")
        part = answer.body[: int(len(answer.body) * fault.at)]
        self._body(part[: len(part) // 2], "chunked")
        remainder = part[len(part) // 2 :]
        self._socket.sendall(b"%x\r\n" % (len(answer.body) + 1))
        self._socket.sendall(remainder)
        self._count_bytes(len(remainder))
        self._close()

    def _short_length(self, answer: Answer, _: Framing, fault: Fault) -> None:
        self._head(answer, "length", promised_bytes=len(answer.body) + 1)
        self._body(answer.body[: int(len(answer.body) * fault.at)], "length")
        self._close()

    def _eof_delimited(self, answer: Answer, _: Framing, __: Fault) -> None:
        self._head(answer, "eof")
        self._body(answer.body, "eof")
        self._close()

    def _reset(self, answer: Answer, framing: Framing, fault: Fault) -> None:
        self._head(answer, framing)
        self._body(answer.body[: int(len(answer.body) * fault.at)], framing)
        time.sleep(_BEFORE_RESET_SECONDS)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The handler's own close would end the connection properly.
        os.close(self._socket.detach())
        self._close()

    def _refuse(self, _: Answer, __: Framing, ___: Fault) -> None:
        self._close()

    def _silent(self, _: Answer, __: Framing, fault: Fault) -> None:
        self._stop.wait(fault.seconds)
        self._close()

    def _slow(self, answer: Answer, framing: Framing, fault: Fault) -> None:
        self._head(answer, framing)
        self._body(answer.body, framing, piece_bytes=fault.size_bytes, pause=fault.seconds)
        self._end(framing)


_PLAYED: dict[str, Callable[[Wire, Answer, Framing, Fault], None]] = {
    "cut_chunked": Wire._cut_chunked,
    "short_length": Wire._short_length,
    "eof_delimited": Wire._eof_delimited,
    "reset": Wire._reset,
    "refuse": Wire._refuse,
    "silent": Wire._silent,
    "slow": Wire._slow,
}

WIRE_KINDS = frozenset(_PLAYED)
"""The faults that are played here."""
