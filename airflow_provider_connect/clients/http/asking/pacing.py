"""Spaces a process's requests by its share of the rate limits."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_connect.clients.http.asking.rules import RateLimits
from airflow_provider_connect.patience import Clock


class RequestPace:
    """One process's share of an API's rate limits, across polls. Thread-safe.

    :param share: number of processes.
    """

    def __init__(self, limits: RateLimits, share: int) -> None:
        self._lock = threading.Lock()
        self._spans = [
            _Span(max_requests / share, seconds)
            for max_requests, seconds in ((limits.per_second, 1.0), (limits.per_minute, 60.0))
            if max_requests is not None
        ]
        self._slots = threading.BoundedSemaphore(max(1, limits.at_once // share)) if limits.at_once else None
        self._paused_until = -math.inf

    def wait_seconds(self, clock_seconds: float) -> float:
        """Return the time until the next request may be sent. At 0 the request counts as sent."""
        with self._lock:
            wait = max(
                [self._paused_until - clock_seconds, 0.0, *(span.wait_seconds(clock_seconds) for span in self._spans)]
            )
            if wait <= 0:
                for span in self._spans:
                    span.send_times.append(clock_seconds)
            return wait

    def pause_seconds_left(self, clock_seconds: float) -> float:
        """Return the rest of the pause that the API requested."""
        with self._lock:
            return max(self._paused_until - clock_seconds, 0.0)

    def pause_until(self, until: float) -> None:
        """Send nothing before this time of the poll's clock."""
        with self._lock:
            self._paused_until = max(self._paused_until, until)

    @contextmanager
    def concurrency_slot(self, clock: Clock, raise_if_ended: Callable[[], None]) -> Iterator[None]:
        """Hold one of the allowed concurrent requests inside the block. Waits for a free one.

        :param raise_if_ended: called during the wait.
        """
        if self._slots is None:
            yield
            return
        while not self._slots.acquire(blocking=False):
            clock.sleep(0.01)
            raise_if_ended()
        try:
            yield
        finally:
            self._slots.release()


class _Span:
    """A limit of requests per time span."""

    def __init__(self, max_requests: float, seconds: float) -> None:
        self._max_requests = max(1, math.floor(max_requests))
        self._seconds = seconds * self._max_requests / max_requests
        self.send_times: deque[float] = deque(maxlen=self._max_requests)

    def wait_seconds(self, clock_seconds: float) -> float:
        if len(self.send_times) < self._max_requests:
            return 0.0
        return self.send_times[0] + self._seconds - clock_seconds


_paces: dict[tuple[object, ...], RequestPace] = {}
_paces_lock = threading.Lock()


def request_pace(name: str, url: str, limits: RateLimits, share: int) -> RequestPace:
    """Return the pace of an API and connection, one for the whole process."""
    key = name, url, limits, share
    with _paces_lock:
        return _paces.setdefault(key, RequestPace(limits, share))
