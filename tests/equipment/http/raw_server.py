"""A server on a real socket that sends exactly the bytes of a test."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType

GIVE_UP_SECONDS = 60.0
"""Ends a failing test; nothing is measured against it."""


class Peer:
    """One connection of the server."""

    def __init__(self, connected: socket.socket, stop: threading.Event) -> None:
        self._socket = connected
        self._stop = stop
        self.request = b""
        self.sent = 0

    def hear(self) -> None:
        """Read one request's head."""
        while not self.request.endswith(b"\r\n\r\n"):
            byte = self._socket.recv(1)
            if not byte:
                return
            self.request += byte

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)
        self.sent += len(data)

    def wait(self) -> None:
        """Say nothing more, and stay."""
        self._stop.wait(GIVE_UP_SECONDS)

    def trickle(self, data: bytes, seconds: float = 0.02) -> None:
        """Send the same forever, byte by byte, faster than a read times out."""
        at = 0
        while not self._stop.wait(seconds):
            self.say(data[at % len(data) :][:1])
            at += 1

    def pour(self, data: bytes) -> None:
        """Send the same forever, as fast as the client reads."""
        while not self._stop.is_set():
            self.say(data)

    def reset(self) -> None:
        """End the connection without a goodbye."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def start_tls(self, context: ssl.SSLContext) -> None:
        self._socket = context.wrap_socket(self._socket, server_side=True)

    def relay(self, port: int) -> None:
        """Relay bytes to a port of this machine and back, as a proxy does, until both sides have ended.

        In one thread: Python 3.11 does not guard a TLS socket that one thread reads and another writes.
        """
        with socket.create_connection(("127.0.0.1", port)) as far:
            targets = {self._socket: far, far: self._socket}
            while targets:
                for source in _readable(list(targets)):
                    if data := source.recv(1 << 16):
                        targets[source].sendall(data)
                    else:
                        targets.pop(source).shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


def _readable(sockets: list[socket.socket]) -> list[socket.socket]:
    decrypted = [tls_socket for tls_socket in sockets if isinstance(tls_socket, ssl.SSLSocket) and tls_socket.pending()]
    return decrypted or select.select(sockets, [], [], GIVE_UP_SECONDS)[0]


class RawServer:
    """Answers each connection with ``answer``; leaving the context also ends slow answers."""

    def __init__(
        self, answer: Callable[[Peer], None], *, hears: bool = True, tls: ssl.SSLContext | None = None
    ) -> None:
        self._answer = answer
        self._hears = hears
        self._tls = tls
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._listen)]
        self.peers: list[Peer] = []

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> RawServer:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(GIVE_UP_SECONDS)
            assert not thread.is_alive()

    def _listen(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            connected.settimeout(GIVE_UP_SECONDS)
            peer = Peer(connected, self._stop)
            self.peers.append(peer)
            thread = threading.Thread(target=self._serve, args=(peer,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: Peer) -> None:
        try:
            if self._tls is not None:
                peer.start_tls(self._tls)
            if self._hears:
                peer.hear()
            self._answer(peer)
        except OSError:  # the client has left, as it should
            pass
        finally:
            peer.close()
