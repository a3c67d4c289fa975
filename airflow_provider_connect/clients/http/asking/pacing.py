"""How fast one process asks an API: its part of the limits, kept from one poll to the next."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_connect.clients.http.asking.rules import RateLimits
from airflow_provider_connect.patience import Clock


class RequestPace:
    """One process's part of the limits of one API. For several threads at once.

    :param share: by how many processes a job's part is shared.
    """

    def __init__(self, limits: RateLimits, share: int) -> None:
        self._lock = threading.Lock()
        self._spans = [
            _Span(most / share, seconds)
            for most, seconds in ((limits.per_second, 1.0), (limits.per_minute, 60.0))
            if most is not None
        ]
        self._slots = threading.BoundedSemaphore(max(1, limits.at_once // share)) if limits.at_once else None
        self._paused_until = -math.inf

    def wait_seconds(self, clock_seconds: float) -> float:
        """Return how long until a request may be sent; at 0, one is counted as sent."""
        with self._lock:
            wait = max([self._paused_until - clock_seconds, 0.0, *(span.wait_seconds(clock_seconds) for span in self._spans)])
            if wait <= 0:
                for span in self._spans:
                    span.send_times.append(clock_seconds)
            return wait

    def pause_seconds_left(self, clock_seconds: float) -> float:
        """Return how long the API wants to be left alone yet."""
        with self._lock:
            return max(self._paused_until - clock_seconds, 0.0)

    def pause_until(self, until: float) -> None:
        """Send nothing before an instant, as the API has said."""
        with self._lock:
            self._paused_until = max(self._paused_until, until)

    @contextmanager
    def concurrency_slot(self, clock: Clock, raise_if_ended: Callable[[], None]) -> Iterator[None]:
        """Have no more than so many requests under way while the block runs.

        :param raise_if_ended: raises if the wait is over.
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
    """So many requests in so many seconds; where they are no whole number, the next smaller one in less time."""

    def __init__(self, most: float, seconds: float) -> None:
        self._most = max(1, math.floor(most))
        self._seconds = seconds * self._most / most
        self.send_times: deque[float] = deque(maxlen=self._most)

    def wait_seconds(self, clock_seconds: float) -> float:
        if len(self.send_times) < self._most:
            return 0.0
        return self.send_times[0] + self._seconds - clock_seconds


_paces: dict[tuple[object, ...], RequestPace] = {}
_paces_lock = threading.Lock()


def request_pace(name: str, url: str, limits: RateLimits, share: int) -> RequestPace:
    """Return this process's pace for an API and who asks it: the same for every poll that runs here."""
    key = name, url, limits, share
    with _paces_lock:
        return _paces.setdefault(key, RequestPace(limits, share))
