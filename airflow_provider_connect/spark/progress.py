"""Lines for the task log while days are polled and published.

One every few seconds for each day, one for each retry of a partition, none for a record.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day


def say(text: str) -> None:
    """Print a line to the driver's output, which spark-submit hands to the task log."""
    print(f"connect: {text}", file=sys.stderr, flush=True)  # noqa: T201  # the driver's log is its stderr


def named(days: Sequence[Day]) -> str:
    """Return consecutive days as lines and messages name them."""
    return f"day {days[0]}" if len(days) == 1 else f"days {days[0]}..{days[-1]}"


class Sign(NamedTuple):
    """Where a partition gives signs of life.

    :param day: the first of its days, for which its retries count.
    :param file: its path, relative to the stage root.
    """

    day: Day
    file: str


@dataclass(frozen=True, eq=False)
class Poll:
    """One poll of the days of a plan.

    :param signs: those of each partition, by its index.
    """

    days: Sequence[Day]
    signs: Mapping[int, Sign]


@dataclass
class Progress:
    """Prints how polls on the executors go on, and how long days have been publishing.

    :param interval_seconds: between two rounds of lines.
    """

    root: Folder
    interval_seconds: float
    total: int
    done: int = 0
    _polls: dict[Poll, float] = field(default_factory=dict)
    _publishing: dict[Day, tuple[int, float]] = field(default_factory=dict)
    _retries: dict[Sign, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Progress:
        threading.Thread(target=self._run, name="progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()

    @contextmanager
    def polling(self, poll: Poll) -> Iterator[None]:
        """Report a poll while the block runs."""
        with self._lock:
            self._polls[poll] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                del self._polls[poll]

    def retried(self, poll: Poll, part: int, reasons: Sequence[str]) -> None:
        """Print the reason for each retry of a partition, each once: executors repeat earlier ones."""
        with self._lock:
            sign = poll.signs[part]
            already = self._retries.get(sign, 0)
            self._retries[sign] = max(already, len(reasons))
        for number, reason in enumerate(reasons[already:], already + 1):
            say(f"{named(poll.days)}: retry {number} of partition {part}: {reason}")

    def retries(self, day: Day) -> int:
        """Return how often a day's partitions were polled again; one of several days counts for its first."""
        with self._lock:
            return sum(retries for sign, retries in self._retries.items() if sign.day == day)

    @contextmanager
    def publishing(self, day: Day, rows: int) -> Iterator[None]:
        """Report how long a day has been publishing while the block runs."""
        with self._lock:
            self._publishing[day] = (rows, time.monotonic())
        try:
            yield
        finally:
            with self._lock:
                del self._publishing[day]

    def end(self, day: Day, text: str) -> None:
        """Print how a day ended."""
        with self._lock:
            self.done += 1
            done = self.done
        say(f"day {day}: {text} ({done} of {self.total} days)")

    def _run(self) -> None:
        while not self._end.wait(self.interval_seconds):
            with self._lock:
                polls, publishing = dict(self._polls), dict(self._publishing)
            for poll, since in polls.items():
                say(f"{named(poll.days)}: {self._line(poll, time.monotonic() - since)}")
            for day, (rows, since) in publishing.items():
                say(f"day {day}: publishing {rows:,} rows for {time.monotonic() - since:.0f} s")

    def _line(self, poll: Poll, seconds: float) -> str:
        rows = raw = 0
        notes = []
        for part, sign in poll.signs.items():
            try:
                seen = json.loads(self.root.read(sign.file))
            except (OSError, ConnectError, ValueError):
                continue  # not begun, or just being replaced
            rows += seen["rows"]
            raw += seen["raw_bytes"]
            self.retried(poll, part, seen["retries"])
            if seen["note"]:
                notes.append(seen["note"])
        text = f"{rows:,} rows, {raw / 1e6:,.1f} MB, {raw / 1e6 / max(seconds, 0.1):,.1f} MB/s"
        return f"{text}; {'; '.join(notes)}" if notes else text
