"""The connections of one poll: answers that are being read, and connections that are kept for the next request.

Whoever gives the poll up ends the answers, and the pauses between them.

A new connection costs a page two or three ways over the network. One is kept only after an answer whose end was seen,
and used again only while nothing has come over it since. A server may still close it at the moment in which a request
is sent. Then nobody knows whether the server has seen that request, so what may not be sent twice gets a connection of
its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from airflow_provider_connect.clients.http.http_connection import HttpConnection
from airflow_provider_connect.clients.http.route import PoolKey
from airflow_provider_connect.errors import RetriableError

IDLE_SECONDS = 4.0
"""How long a connection is kept: many servers close theirs after five seconds."""


class ConnectionPool:
    """The open connections of one poll that nobody uses at the moment. For several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[PoolKey, list[tuple[float, HttpConnection]]] = {}
        self._is_closed = False

    def take(self, pool_key: PoolKey) -> HttpConnection | None:
        """Return a connection to a place, which was checked when it was made; None if there is none."""
        while True:
            with self._lock:
                idle_connections = self._idle.get(pool_key)
                if not idle_connections:
                    return None
                since, link = idle_connections.pop()
            if time.monotonic() - since < IDLE_SECONDS and link.is_reusable():
                return link
            link.close()

    def give_back(self, link: HttpConnection) -> None:
        """Keep a connection whose answer has come whole, or close it."""
        if not link.make_idle():
            link.close()
            return
        with self._lock:
            if not self._is_closed:
                self._idle.setdefault(link.pool_key, []).append((time.monotonic(), link))
                return
        link.close()

    def close(self) -> None:
        """Close all, and keep none from now on."""
        with self._lock:
            self._is_closed = True
            idle = [link for idle_links in self._idle.values() for _, link in idle_links]
            self._idle.clear()
        for link in idle:
            link.close()


class Interruptible(Protocol):
    """An answer, or the connection over which it is to come."""

    def interrupt(self) -> None:
        """End it now, with an error in its reader."""


class OpenResponses:
    """Answers under way. For several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open_responses: set[Interruptible] = set()
        self._ended = threading.Event()

    @property
    def is_given_up(self) -> bool:
        """Whether the poll was given up."""
        return self._ended.is_set()

    def require_open(self) -> None:
        """Make sure that the poll goes on.

        :raises RetriableError: it was given up.
        """
        if self.is_given_up:
            raise RetriableError("the poll was given up")

    @contextmanager
    def interruptible(self, answer: Interruptible) -> Iterator[None]:
        """Let :meth:`give_up` end an answer, with an error in its reader, while the block runs."""
        with self._lock:
            self._open_responses.add(answer)
            if self.is_given_up:
                answer.interrupt()
        try:
            yield
        finally:
            with self._lock:
                self._open_responses.discard(answer)

    def sleep(self, seconds: float) -> None:
        """Pause; not longer than until :meth:`give_up`."""
        self._ended.wait(seconds)

    def give_up(self) -> None:
        """Give the poll up."""
        with self._lock:
            self._ended.set()
            for answer in self._open_responses:
                answer.interrupt()
