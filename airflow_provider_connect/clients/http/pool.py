"""Connections of one poll: responses being read, and idle connections for later requests."""

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
"""Longest time to keep an idle connection. Many servers close them after five seconds."""


class ConnectionPool:
    """Idle connections of one poll. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[PoolKey, list[tuple[float, HttpConnection]]] = {}
        self._is_closed = False

    def take(self, pool_key: PoolKey) -> HttpConnection | None:
        """Return an idle connection with a checked address, or None."""
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
        """Keep a connection after a complete response, else close it."""
        if not link.make_idle():
            link.close()
            return
        with self._lock:
            if not self._is_closed:
                self._idle.setdefault(link.pool_key, []).append((time.monotonic(), link))
                return
        link.close()

    def close(self) -> None:
        """Close all idle connections, and those given back later."""
        with self._lock:
            self._is_closed = True
            idle = [link for idle_links in self._idle.values() for _, link in idle_links]
            self._idle.clear()
        for link in idle:
            link.close()


class Interruptible(Protocol):
    """A response or connection that another thread can interrupt."""

    def interrupt(self) -> None:
        """Make the read in progress fail now."""


class OpenResponses:
    """Responses that a poll is reading. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open_responses: set[Interruptible] = set()
        self._ended = threading.Event()

    @property
    def is_given_up(self) -> bool:
        """True after :meth:`give_up`."""
        return self._ended.is_set()

    def require_open(self) -> None:
        """Raise RetriableError after :meth:`give_up`."""
        if self.is_given_up:
            raise RetriableError("the poll was given up")

    @contextmanager
    def interruptible(self, answer: Interruptible) -> Iterator[None]:
        """Let :meth:`give_up` interrupt a response inside the block."""
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
        """Sleep at most until :meth:`give_up`."""
        self._ended.wait(seconds)

    def give_up(self) -> None:
        """End the poll: interrupt its responses and pauses."""
        with self._lock:
            self._ended.set()
            for answer in self._open_responses:
                answer.interrupt()
