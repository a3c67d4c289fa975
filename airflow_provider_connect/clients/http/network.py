"""Connects: httpcore's network, with a name service that cannot hang and addresses that are looked at."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

import httpcore

from airflow_provider_connect.clients.http.addresses import Reach


class Network(httpcore.NetworkBackend):
    """Connects to hosts, within a time.

    :param left_seconds: how long it may take yet. Raises an error when the time is up.
    :param connected: called with each socket as soon as it is there. Raises an error if it is not wanted any more.
    :param reach: the addresses that may be connected to.
    """

    def __init__(
        self, left_seconds: Callable[[], float], connected: Callable[[socket.socket], None], reach: Reach | None
    ) -> None:
        self._left_seconds = left_seconds
        self._connected = connected
        self._reach = reach

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that accepts it."""
        refusal: Exception = OSError("no address")
        addresses = self._resolve(host, port)
        if self._reach is not None:  # what is checked here is what is connected to: the name is not asked for again
            addresses = self._reach.permitted(host, addresses)
        for *_, address in addresses:
            left = max(min(timeout or threading.TIMEOUT_MAX, self._left_seconds()), 0.001)
            try:
                stream = httpcore.SyncBackend().connect_tcp(address[0], port, left, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                refusal = error
                continue
            try:
                self._connected(stream.get_extra_info("socket"))
            except BaseException:
                stream.close()
                raise
            return stream
        raise refusal

    def _resolve(self, host: str, port: int) -> list[Any]:
        """Ask the name service, in a thread: a question without an answer cannot be ended in any other way."""
        answers: queue.SimpleQueue[list[Any] | OSError | ValueError] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
            except (OSError, ValueError) as error:
                answers.put(error)

        threading.Thread(target=ask, name="http-resolve", daemon=True).start()
        try:
            answer = answers.get(timeout=min(self._left_seconds(), threading.TIMEOUT_MAX))
        except queue.Empty:
            self._left_seconds()
            raise TimeoutError from None
        if isinstance(answer, (OSError, ValueError)):
            raise answer
        return answer
