"""Counts the stand-in's requests and answers, for tests."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any


class Stats:
    """Counts of requests and answers, without headers, credentials or records."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, Counter[str]] = {}
        self._faults: Counter[str] = Counter()
        self._bytes = self._running = self._peak = self._aborted = 0

    def start(self) -> None:
        """Count an export that is being served."""
        with self._lock:
            self._running += 1
            self._peak = max(self._peak, self._running)

    def end(self) -> None:
        """Count the end of a served export."""
        with self._lock:
            self._running -= 1

    def count_answer(self, dates: str, status: str, fault: str | None = None) -> None:
        """Count an answer, before its first byte leaves; ``status`` is ``none`` if there is no answer."""
        with self._lock:
            self._requests.setdefault(dates, Counter())[status] += 1
            if fault:
                self._faults[fault] += 1

    def count_bytes_sent(self, count_bytes: int) -> None:
        """Add body bytes."""
        with self._lock:
            self._bytes += count_bytes

    def count_aborted(self) -> None:
        """Count a client that left before the end."""
        with self._lock:
            self._aborted += 1

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON types; ``requests`` is by dates asked, then by status."""
        with self._lock:
            return {
                "requests": {dates: dict(counts) for dates, counts in sorted(self._requests.items())},
                "faults": dict(self._faults),
                "bytes": self._bytes,
                "running": self._running,
                "concurrent_peak": self._peak,
                "clients_gone": self._aborted,
            }
