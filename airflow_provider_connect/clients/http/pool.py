"""Connections that are kept for the next request: a new one costs a page two or three ways over the network.

A connection is kept only after an answer whose end was seen, and used again only while nothing has come over it since.
A server may still close it at the moment in which a request is sent. Then nobody knows whether the server has seen that
request, so what may not be sent twice gets a connection of its own.
"""

from __future__ import annotations

import threading
import time

from airflow_provider_connect.clients.http.link import Link, Place

IDLE_SECONDS = 4.0
"""How long a connection is kept: many servers close theirs after five seconds."""


class Pool:
    """The open connections of one poll that nobody uses at the moment. For several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Place, list[tuple[float, Link]]] = {}
        self._is_closed = False

    def take(self, place: Place) -> Link | None:
        """Return a connection to a place, which was checked when it was made; None if there is none."""
        while True:
            with self._lock:
                kept = self._idle.get(place)
                if not kept:
                    return None
                since, link = kept.pop()
            if time.monotonic() - since < IDLE_SECONDS and link.is_quiet():
                return link
            link.close()

    def give(self, link: Link) -> None:
        """Keep a connection whose answer has come whole, or close it."""
        if not link.rest():
            link.close()
            return
        with self._lock:
            if not self._is_closed:
                self._idle.setdefault(link.place, []).append((time.monotonic(), link))
                return
        link.close()

    def close(self) -> None:
        """Close all, and keep none from now on."""
        with self._lock:
            self._is_closed = True
            idle = [link for kept in self._idle.values() for _, link in kept]
            self._idle.clear()
        for link in idle:
            link.close()
