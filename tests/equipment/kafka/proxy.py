"""A proxy between Kafka clients and one broker: it counts every call, and breaks those that a test selects.

A client goes where the broker's metadata sends it, so the broker needs a listener that advertises the proxy's port::

    port = free_port()
    with KafkaProxy(port) as proxy:
        KafkaBroker(folder, listeners={"PROXIED": Listener(port=port, advertised_port=proxy.port)}).start()

The protocol, as far as needed here: a request is int32 length, int16 api key, int16 version, int32 correlation id;
an answer is int32 length, int32 correlation id, and comes in the order of the requests of its connection
(https://kafka.apache.org/protocol, 2026-11). Plain TCP only. A slow call has its effect at once, only its answer is
late; a change is given the answer after its correlation id.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tests.equipment.broken_calls import Breaker, Call, Change, Cut, Hold, Lose, Rule, Slow


class Api(IntEnum):
    """The numbers of the calls that tests use."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26


@dataclass(frozen=True)
class Drop:
    """The call has its effect, the answer never arrives, the connection stays: the client waits until its timeout."""


@dataclass(frozen=True)
class Refuse:
    """An error code instead of the call; for InitProducerId and EndTxn, whose answers begin alike."""

    code: int


FIRST_FLEXIBLE = {Api.INIT_PRODUCER_ID: 2, Api.END_TXN: 3}
"""The first version whose answer header ends with a tag buffer."""


@dataclass
class ApiCall(Call):
    """A call of an API; its time is 0 until its answer has been returned.

    :param body: all after the correlation id.
    """

    api: int
    version: int
    body: bytes


@dataclass
class KafkaProxy(Breaker[ApiCall]):
    """A proxy to a broker's port on this machine; the broker may come and go."""

    upstream: int
    connections: list[_Connection] = field(default_factory=list, init=False)

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> KafkaProxy:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.accepting = threading.Thread(target=self._accept, daemon=True)
        self.accepting.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stopping.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.listener.close()
        self.cut()

    def breaks(self, api: int, action: Any, *nth: int, containing: bytes = b"") -> Rule[ApiCall]:
        """Break the calls of an api whose body holds some bytes: the n-th ones, counted from 1 and from now, or all."""
        return self.add_rule(_of_api(api, containing), action, nth)

    def forget(self) -> None:
        """Break nothing more, cut all connections and forget all calls."""
        self.heal()
        self.cut()
        with self.lock:
            self.calls.clear()

    def cut(self) -> None:
        """Cut all open connections."""
        with self.lock:
            found = list(self.connections)
        for connection in found:
            connection.cut()
        for connection in found:
            connection.join()

    def count(self, api: int, containing: bytes = b"") -> int:
        return len(self.found(_of_api(api, containing)))

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.upstream), timeout=10)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            connection = _Connection(self, client, broker)
            connection.start()
            with self.lock:
                self.connections = [each for each in self.connections if each.lives()] + [connection]


def _of_api(api: int, containing: bytes) -> Callable[[ApiCall], bool]:
    return lambda call: call.api == api and containing in call.body


class _Connection:
    """A client's connection and its counterpart to the broker, with a thread for each direction."""

    def __init__(self, proxy: KafkaProxy, client: socket.socket, broker: socket.socket) -> None:
        self.proxy, self.client, self.broker = proxy, client, broker
        self.pending: dict[int, tuple[ApiCall, Any]] = {}
        self.ended = threading.Event()
        self.sending = threading.Lock()  # of answers: both threads send them
        self.open = 2
        self.threads = [
            threading.Thread(target=self._run, args=(pump,), daemon=True) for pump in (self._ask, self._answer)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def lives(self) -> bool:
        return any(thread.is_alive() for thread in self.threads)

    def join(self) -> None:
        for thread in self.threads:
            thread.join()

    def cut(self) -> None:
        self.ended.set()
        for end in (self.client, self.broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _run(self, pump: Callable[[], None]) -> None:
        try:
            with contextlib.suppress(OSError, EOFError):
                pump()
        finally:
            self.cut()
            with self.sending:
                self.open -= 1
                last = not self.open
            if last:
                self.client.close()
                self.broker.close()

    def _ask(self) -> None:
        while True:
            frame = _frame(self.client)
            api, version, correlation = struct.unpack_from(">hhi", frame)
            call = ApiCall(api, version, frame[8:])
            action = self.proxy.note(call)
            if isinstance(action, Hold):
                while not action.let_go.wait(0.05):
                    if self.ended.is_set():
                        return
            if isinstance(action, Cut):
                return
            if isinstance(action, Refuse):
                self._give(correlation, _refusal(call, action.code))
                continue
            self.pending[correlation] = (call, action)
            self.broker.sendall(struct.pack(">i", len(frame)) + frame)

    def _answer(self) -> None:
        while True:
            frame = _frame(self.broker)
            [correlation] = struct.unpack_from(">i", frame)
            call, action = self.pending.pop(correlation)
            body = frame[4:]
            if isinstance(action, Lose):
                return
            if isinstance(action, Drop):
                continue
            if isinstance(action, Slow):
                self.ended.wait(action.seconds)
            if isinstance(action, Change):
                body = action.change(body)
            call.end()
            self._give(correlation, body)

    def _give(self, correlation: int, body: bytes) -> None:
        with self.sending:
            self.client.sendall(struct.pack(">ii", len(body) + 4, correlation) + body)


def _frame(end: socket.socket) -> bytes:
    [length] = struct.unpack(">i", _exactly(end, 4))
    return _exactly(end, length)


def _exactly(end: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = end.recv(min(length - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return bytes(data)


def _refusal(call: ApiCall, code: int) -> bytes:
    header = b"\0" if call.version >= FIRST_FLEXIBLE[Api(call.api)] else b""
    no_throttle = struct.pack(">i", 0)
    # The fields after the code differ by version; zeros mean "none" in each.
    return header + no_throttle + struct.pack(">h", code) + bytes(32)
