"""Lines for the task log while days are polled and published.

One every few seconds for each day, one for each time that a partition was polled again, none for a record.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.stage.manifest import attempt_folder
from airflow_provider_connect.stage.storage import Folder


def say(text: str) -> None:
    """Print a line to the driver's output, which spark-submit hands to the task log."""
    print(f"connect: {text}", file=sys.stderr, flush=True)  # noqa: T201  # the driver's log is its stderr


@dataclass
class Progress:
    """Prints what the executors tell about the days that are being polled, and how long others are being published.

    :param interval_seconds: between two rounds of lines.
    """

    root: Folder
    interval_seconds: float
    total: int
    done: int = 0
    _active: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    _publishing: dict[str, tuple[int, float]] = field(default_factory=dict)
    _retries: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Progress:
        threading.Thread(target=self._run, name="progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()

    def begin(self, day: str, attempt: str, parts: int) -> None:
        """Start to tell about a day."""
        with self._lock:
            self._active[day] = (attempt, parts, time.monotonic())

    def retried(self, day: str, attempt: str, part: int, reasons: Sequence[str]) -> None:
        """Tell why a partition was polled again, each time once: an executor repeats all that it told before."""
        with self._lock:
            told = self._retries.setdefault(day, {})
            already = told.get((attempt, part), 0)
            told[attempt, part] = max(already, len(reasons))
        for number, reason in enumerate(reasons[already:], already + 1):
            say(f"day {day}: retry {number} of partition {part}: {reason}")

    def retries(self, day: str) -> int:
        """Return how often partitions of a day were polled again in this job."""
        with self._lock:
            return sum(self._retries.get(day, {}).values())

    def publish(self, day: str, rows: int) -> None:
        """Tell from now on that a day is being published."""
        with self._lock:
            self._active.pop(day, None)
            self._publishing[day] = (rows, time.monotonic())

    def end(self, day: str, text: str) -> None:
        """Tell how a day ended, and no more about it."""
        with self._lock:
            self._active.pop(day, None)
            self._publishing.pop(day, None)
            self.done += 1
            done = self.done
        say(f"day {day}: {text} ({done} of {self.total} days)")

    def _run(self) -> None:
        while not self._end.wait(self.interval_seconds):
            with self._lock:
                active, publishing = dict(self._active), dict(self._publishing)
            for day, (attempt, parts, since) in active.items():
                say(f"day {day}: {self._line(day, attempt, parts, time.monotonic() - since)}")
            for day, (rows, since) in publishing.items():
                say(f"day {day}: publishing {rows:,} rows for {time.monotonic() - since:.0f} s")

    def _line(self, day: str, attempt: str, parts: int, seconds: float) -> str:
        rows = raw = 0
        notes = []
        for part in range(parts):
            try:
                seen = json.loads(self.root.read(f"{attempt_folder(attempt)}/progress-{part:05d}.json"))
            except (OSError, ConnectError, ValueError):
                continue  # not begun yet, or being replaced at this moment
            rows += seen["rows"]
            raw += seen["raw_bytes"]
            self.retried(day, attempt, part, seen["retries"])
            if seen["note"]:
                notes.append(seen["note"])
        text = f"{rows:,} rows, {raw / 1e6:,.1f} MB, {raw / 1e6 / max(seconds, 0.1):,.1f} MB/s"
        return f"{text}; {'; '.join(notes)}" if notes else text
