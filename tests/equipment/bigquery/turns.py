"""Treats concurrent scripts on one table as BigQuery does: an action of the fault proxy.

The emulator runs one script after another, so none ever loses, and has no limits. This action aborts a script that
changes a fence row during another one's transaction, and one that exceeds the limit of DML statements.
"""

from __future__ import annotations

import heapq
import itertools
import json
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'")
_DML = re.compile(r"\b(?:INSERT INTO|DELETE FROM|MERGE INTO|UPDATE) `([^`]+)`")


def without_literals(script: str) -> str:
    """Return a script without the content of its strings, which is not SQL."""
    return _LITERAL.sub("''", script)


def statements(script: str) -> Counter[str]:
    """Count a script's DML statements by table: what a publish costs of BigQuery's limit."""
    return Counter(_DML.findall(without_literals(script)))


@dataclass
class Turns:
    """A gate before the jobs of a project.

    :param now: the clock, in seconds.
    :param limit: DML statements that one table takes in ten seconds, those of aborted transactions among them.
    :param open_seconds: how long a transaction is open.
    """

    now: Callable[[], float] = time.monotonic
    limit: int = 25
    open_seconds: float = 0.0
    lost: int = 0
    refused: int = 0
    most: int = 0
    open_until: dict[str, float] = field(default_factory=dict)
    made: dict[str, deque[float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, body: bytes) -> Any:
        """Return the failed job that a script becomes; None where it may run."""
        fence = _fence(body)
        if fence is None:
            return None
        with self.lock:
            wins = self.open_until.get(fence, self.now()) <= self.now()
            counted = statements(_query(body)) if wins else Counter({fence: 1})
            if not self._count(counted):
                self.refused += 1
                said = "Exceeded rate limits: too many dml update operations for this table"
                return failed(body, "rateLimitExceeded", said)
            if not wins:
                self.lost += 1
                said = f"Transaction is aborted due to concurrent update against table {fence}."
                return failed(body, "invalidQuery", said)
            self.open_until[fence] = self.now() + self.open_seconds
        return None

    def _count(self, counted: Counter[str]) -> bool:
        now = self.now()
        for table, number in counted.items():
            made = self.made.setdefault(table, deque())
            while made and made[0] <= now - 10.0:
                made.popleft()
            made.extend([now] * number)
            self.most = max(self.most, len(made))
        return all(len(self.made[table]) <= self.limit for table in counted)


def failed(body: bytes, reason: str, message: str) -> Any:
    job = json.loads(body)
    error = {"reason": reason, "message": f"Query error: {message} at [24:9]"}
    status = {"state": "DONE", "errorResult": error, "errors": [error]}
    return {"jobReference": job["jobReference"], "configuration": {"query": {}}, "status": status}


def _query(body: bytes) -> str:
    return str(json.loads(body).get("configuration", {}).get("query", {}).get("query", "")) if body else ""


def _fence(body: bytes) -> str | None:
    match = re.search(r"BEGIN TRANSACTION;\nUPDATE `([^`]+)`", _query(body))
    return match[1] if match else None


@dataclass
class VirtualTime:
    """A clock that threads share: it stands still while one of them works, and only one works at a time.

    So the speed of the machine does not change the result.

    :param threads: how many begin with :meth:`sleep` and end with :meth:`done`.
    """

    threads: int
    seconds: float = 0.0
    asleep: list[tuple[float, int, threading.Event]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        called = threading.Event()
        with self.lock:
            heapq.heappush(self.asleep, (self.seconds + seconds, next(self.numbers), called))
            self._stop_one()
        assert called.wait(300), "the others never came to an end"

    def done(self) -> None:
        with self.lock:
            self._stop_one()

    def _stop_one(self) -> None:
        self.threads -= 1
        if not self.threads and self.asleep:
            self.seconds, _, called = heapq.heappop(self.asleep)
            self.threads = 1
            called.set()
