"""Lines for the task log while days are polled and published.

One every few seconds for each day, one for each retry of a partition, none for a record.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.polling.estimate import ExpectedTotal, PollPace, ProgressPoint, rough_time, seconds_left
from airflow_provider_connect.sink import Ledger
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day, SourceKind

_GUESS_AFTER_SECONDS = 20.0
"""How long a poll runs before the ledger is asked how many rows other days had: for a short one nobody waits."""
_ANNOUNCED = ("announced_bytes", "announced_rows")
_COUNTED = ("rows", "raw_bytes", "wire_bytes", *_ANNOUNCED)
_LEDGER_SECONDS = 10.0
_LEAST_ENDED = 3
_NEAREST = 7
"""How many days before tell how many rows one may have: a week has its busy and its quiet days."""


def log_line(text: str) -> None:
    """Print a line to the driver's output, which spark-submit hands to the task log."""
    print(f"connect: {text}", file=sys.stderr, flush=True)  # noqa: T201  # the driver's log is its stderr


def days_label(days: Sequence[Day]) -> str:
    """Return consecutive days as lines and messages name them."""
    return f"day {days[0]}" if len(days) == 1 else f"days {days[0]}..{days[-1]}"


class ProgressFile(NamedTuple):
    """Where a partition gives signs of life.

    :param day: the first of its days, for which its retries count.
    :param file: its path, relative to the stage root.
    """

    day: Day
    path: str


@dataclass(frozen=True, eq=False)
class PollProgress:
    """One poll of the days of a plan.

    :param signs: those of each partition, by its index.
    :param taken: how many more partitions there are, which an earlier try has polled.
    :ivar ended: those that have ended, where they end one by one.
    """

    days: Sequence[Day]
    progress_files: Mapping[int, ProgressFile]
    reused_parts: int = 0
    ended: set[int] = field(default_factory=set)
    row_pace: PollPace = field(default_factory=PollPace)
    byte_pace: PollPace = field(default_factory=PollPace)

    def count_ended(self, note_partition: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """Return what is called with each partition that has ended: it is counted, then noted."""

        def ended_parts(part: Any, outcome: Any) -> None:
            self.ended.add(part.index)
            note_partition(part, outcome)

        return ended_parts


class RowEstimate:
    """How many rows days will have: what the vendor counts, else what the ledger has of them or of the day before.

    The ledger is read once for each poll, when it has gone on for a while.

    :param counted: the vendor's counts, as far as they are known.
    """

    def __init__(self, ledger: Ledger, kind: SourceKind, counted: Callable[[Day], VendorCount | None]) -> None:
        self._ledger, self._kind, self._counted = ledger, kind, counted
        self._published: dict[Day, Mapping[Day, int]] = {}

    def estimate(self, days: Sequence[Day], seconds: float) -> ExpectedTotal | None:
        """Return how many rows days will have together; None if nobody knows.

        :param seconds: how long they have been polled.
        """
        counts = [count.rows for count in map(self._counted, days) if count is not None]
        if len(counts) == len(days):
            return ExpectedTotal(sum(counts), f"the source counts {sum(counts):,} rows")
        if seconds < _GUESS_AFTER_SECONDS or self._kind == "increment":  # an increment is as long as its gap
            return None
        known = self._published.get(days[0])
        if known is None:
            known = self._published[days[0]] = self._in_ledger(days)
        if all(day in known for day in days):
            total = sum(known[day] for day in days)
            return ExpectedTotal(total, f"{total:,} rows of {days_label(days)} are published")
        if not known:
            return None
        like = min(known, key=lambda each: abs(each.date - days[0].date))
        return ExpectedTotal(known[like] * len(days), f"day {like} had {known[like]:,} rows")

    def _in_ledger(self, days: Sequence[Day]) -> Mapping[Day, int]:
        try:
            found = self._ledger.between(days[0].date - _NEAREST * ONE_DAY, days[-1].date)
        except Exception:  # noqa: BLE001  # whoever publishes meets the same error, and reports it
            return {}
        return {Day(date=row.day, zone=days[0].zone): row.rows for row in found if row.rows}


@dataclass
class ProgressLog:
    """Prints how polls on the executors go on, and how long days have been publishing.

    :param interval_seconds: between two rounds of lines.
    :param rows: how many there will be; None if nobody knows.
    """

    stage: Folder
    interval_seconds: float
    total_days: int
    row_estimate: RowEstimate | None = None
    days_done: int = field(default=0, init=False)
    _polled: dict[Day, float] = field(default_factory=dict, init=False)
    _ended: int = field(default=0, init=False)
    _polls: dict[PollProgress, float] = field(default_factory=dict, init=False)
    _publishing: dict[Day, tuple[int, float]] = field(default_factory=dict, init=False)
    _retries: dict[ProgressFile, int] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _end: threading.Event = field(default_factory=threading.Event, init=False)

    def __enter__(self) -> ProgressLog:
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(_LEDGER_SECONDS)  # it may be reading the ledger, which is closed next

    @contextmanager
    def polling(self, poll: PollProgress) -> Iterator[None]:
        """Report a poll while the block runs."""
        with self._lock:
            self._polls[poll] = time.monotonic()
            self._polled |= {day: self._polls[poll] for day in poll.days if day not in self._polled}
        try:
            yield
        finally:
            with self._lock:
                del self._polls[poll]

    def log_retries(self, poll: PollProgress, partition: int, reasons: Sequence[str]) -> None:
        """Print the reason for each retry of a partition, each once: executors repeat earlier ones."""
        with self._lock:
            sign = poll.progress_files[partition]
            already = self._retries.get(sign, 0)
            self._retries[sign] = max(already, len(reasons))
        for number, reason in enumerate(reasons[already:], already + 1):
            log_line(f"{days_label(poll.days)}: retry {number} of partition {partition}: {reason}")

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

    def end_day(self, day: Day, text: str) -> None:
        """Print how a day ended."""
        with self._lock:
            self.days_done += 1
            self._ended += day in self._polled
            left = self._left()
            done = self.days_done
        log_line(f"day {day}: {text} ({done} of {self.total_days} days{left})")

    def _left(self) -> str:
        """Return how long the other days take, if they are like those that were polled; "" if that cannot be told."""
        days = self.total_days - self.days_done
        if not self._ended or not days:
            return ""
        seconds = (time.monotonic() - min(self._polled.values())) / self._ended * days
        return f", {rough_time(seconds)} left" if seconds >= _GUESS_AFTER_SECONDS else ""

    def _run(self) -> None:
        while not self._end.wait(self.interval_seconds):
            with self._lock:
                polls, publishing = dict(self._polls), dict(self._publishing)
            for poll, since in polls.items():
                log_line(f"{days_label(poll.days)}: {self._line(poll, time.monotonic() - since)}")
            for day, (rows, since) in publishing.items():
                log_line(f"day {day}: publishing {rows:,} rows for {time.monotonic() - since:.0f} s")

    def _line(self, poll: PollProgress, seconds: float) -> str:
        seen, notes = Counter[str](), []
        announces = dict.fromkeys(_ANNOUNCED, not poll.reused_parts)
        for part, sign in poll.progress_files.items():
            try:
                told = json.loads(self.stage.read(sign.path))
            except (OSError, ConnectError, ValueError):
                announces = dict.fromkeys(_ANNOUNCED, False)
                continue  # not begun, or just being replaced
            seen.update({name: told[name] for name in _COUNTED})
            announces = {name: each and told[name] > 0 for name, each in announces.items()}
            self.log_retries(poll, part, told["retries"])
            if told["note"]:
                notes.append(told["note"])
        rows, megabytes, pace = seen["rows"], seen["raw_bytes"] / 1e6, max(seconds, 0.1)
        text = f"{rows:,} rows, {megabytes:,.1f} MB, {megabytes / pace:,.1f} MB/s, {rows / pace:,.0f} rows/s"
        if not rows and not seen["raw_bytes"]:
            text = f"nothing has come yet, for {seconds:.0f} s"  # Spark starts, or the source makes its answer
        announced = {name: seen[name] for name, all_do in announces.items() if all_do}
        return "; ".join(filter(None, [text, self._time_left(poll, seconds, seen, announced), *notes]))

    def _time_left(
        self, poll: PollProgress, seconds: float, seen: Mapping[str, int], announced: Mapping[str, int]
    ) -> str:
        """Return how long a poll still takes, by what is known best: what is announced, else counted, else guessed."""
        now = ProgressPoint(seconds, seen["rows"])
        if (size := announced.get("announced_bytes")) is not None:
            of_wire = ExpectedTotal(size, f"{size / 1e6:,.1f} MB were announced")
            return poll.byte_pace.time_left_text(ProgressPoint(seconds, seen["wire_bytes"]), of_wire)
        if (rows := announced.get("announced_rows")) is not None:
            return poll.row_pace.time_left_text(now, ExpectedTotal(rows, f"{rows:,} rows were announced"))
        if len(poll.ended) >= _LEAST_ENDED:
            ended, parts = len(poll.ended), len(poll.progress_files)
            left = seconds_left(ProgressPoint(0, 0), ProgressPoint(seconds, ended), parts)
            return "" if left is None else f"{rough_time(left)} left, as {ended:,} of {parts:,} partitions have ended"
        if self.row_estimate is None or poll.reused_parts:
            return ""
        return poll.row_pace.time_left_text(now, self.row_estimate.estimate(poll.days, seconds))
