"""Progress lines in the task log: for each day every few seconds, and for each retry of a partition."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.polling.estimate import ExpectedTotal, PollPace, ProgressPoint, rough_time, seconds_left
from airflow_provider_connect.sink import Ledger
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day, SourceKind

_GUESS_AFTER_SECONDS = 20.0
"""Duration of a poll before its row count is estimated from the ledger."""
_ANNOUNCED = ("announced_bytes", "announced_rows")
_COUNTED = ("rows", "raw_bytes", "wire_bytes", *_ANNOUNCED)
_LEDGER_SECONDS = 10.0
_MIN_ENDED_PARTITIONS = 3
_NEIGHBOR_DAYS = 7
"""Number of earlier days that estimate a day's rows. A week has busy and quiet days."""


_stream_name: ContextVar[str] = ContextVar("stream_name", default="")


@contextmanager
def naming_stream(name: str) -> Iterator[None]:
    """Put a stream's name in front of each line that the block logs. New threads get it by :func:`copy_context`."""
    token = _stream_name.set(name)
    try:
        yield
    finally:
        _stream_name.reset(token)


def log_line(text: str) -> None:
    """Print a line to the driver's output, which spark-submit passes to the task log."""
    name = _stream_name.get()
    line = f"connect: {name}: {text}\n" if name else f"connect: {text}\n"
    print(line, end="", file=sys.stderr, flush=True)  # noqa: T201  # the driver's log is its stderr


def days_label(days: Sequence[Day]) -> str:
    """Return consecutive days as text."""
    return f"day {days[0]}" if len(days) == 1 else f"days {days[0]}..{days[-1]}"


class ProgressFile(NamedTuple):
    """The file with a partition's signs of life.

    :param day: first day of the partition. Retries are counted for it.
    """

    day: Day
    path: str


@dataclass(frozen=True, eq=False)
class PollProgress:
    """Progress of polling one plan.

    :param progress_files: by partition index.
    :ivar ended: indices of ended partitions. Empty if all partitions end together.
    """

    days: Sequence[Day]
    progress_files: Mapping[int, ProgressFile]
    reused_parts: int = 0
    ended: set[int] = field(default_factory=set)
    row_pace: PollPace = field(default_factory=PollPace)
    byte_pace: PollPace = field(default_factory=PollPace)

    def count_ended(self, note_partition: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """Return a callback that counts an ended partition and calls ``note_partition``."""

        def note_ended(part: Any, outcome: Any) -> None:
            self.ended.add(part.index)
            note_partition(part, outcome)

        return note_ended


class RowEstimate:
    """Estimates the rows of days from the vendor's counts, else from published rows of the same or earlier days.

    The ledger is read once for each long poll.

    :param counted: returns the vendor's count of a day, if known.
    """

    def __init__(self, ledger: Ledger, kind: SourceKind, counted: Callable[[Day], VendorCount | None]) -> None:
        self._ledger, self._kind, self._vendor_count = ledger, kind, counted
        self._published_rows: dict[Day, Mapping[Day, int]] = {}

    def estimate(self, days: Sequence[Day], seconds: float) -> ExpectedTotal | None:
        """Return the expected total of the days' rows, ``seconds`` after the poll began, or None if unknown."""
        counts = [count.rows for count in map(self._vendor_count, days) if count is not None]
        if len(counts) == len(days):
            return ExpectedTotal(sum(counts), f"the source counts {sum(counts):,} rows")
        if seconds < _GUESS_AFTER_SECONDS or self._kind == "increment":  # an increment is as long as its gap
            return None
        published_rows = self._published_rows.get(days[0])
        if published_rows is None:
            published_rows = self._published_rows[days[0]] = self._rows_in_ledger(days)
        if all(day in published_rows for day in days):
            total = sum(published_rows[day] for day in days)
            return ExpectedTotal(total, f"{total:,} rows of {days_label(days)} are published")
        if not published_rows:
            return None
        nearest_day = min(published_rows, key=lambda known_day: abs(known_day.date - days[0].date))
        return ExpectedTotal(
            published_rows[nearest_day] * len(days), f"day {nearest_day} had {published_rows[nearest_day]:,} rows"
        )

    def _rows_in_ledger(self, days: Sequence[Day]) -> Mapping[Day, int]:
        try:
            ledger_rows = self._ledger.between(days[0].date - _NEIGHBOR_DAYS * ONE_DAY, days[-1].date)
        except Exception:  # noqa: BLE001  # whoever publishes meets the same error, and reports it
            return {}
        return {Day(date=row.day, zone=days[0].zone): row.rows for row in ledger_rows if row.rows}


@dataclass
class ProgressLog:
    """Logs the progress of polls and publishes.

    :param interval_seconds: time between two rounds of lines.
    """

    stage: Folder
    interval_seconds: float
    total_days: int
    row_estimate: RowEstimate | None = None
    days_done: int = field(default=0, init=False)
    _poll_starts: dict[Day, float] = field(default_factory=dict, init=False)
    _ended_days: int = field(default=0, init=False)
    _polls: dict[PollProgress, float] = field(default_factory=dict, init=False)
    _publishing: dict[Day, tuple[int, float]] = field(default_factory=dict, init=False)
    _retries: dict[ProgressFile, int] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _end: threading.Event = field(default_factory=threading.Event, init=False)

    def __enter__(self) -> ProgressLog:
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(_LEDGER_SECONDS)  # it may be reading the ledger, which is closed next

    @contextmanager
    def polling(self, poll: PollProgress) -> Iterator[None]:
        """Log the progress of a poll while the block runs."""
        with self._lock:
            self._polls[poll] = time.monotonic()
            self._poll_starts |= {day: self._polls[poll] for day in poll.days if day not in self._poll_starts}
        try:
            yield
        finally:
            with self._lock:
                del self._polls[poll]

    def log_retries(self, poll: PollProgress, partition: int, reasons: Sequence[str]) -> None:
        """Log the reasons of a partition's retries, each once."""
        with self._lock:
            sign = poll.progress_files[partition]
            logged_retries = self._retries.get(sign, 0)
            self._retries[sign] = max(logged_retries, len(reasons))
        for number, reason in enumerate(reasons[logged_retries:], logged_retries + 1):
            log_line(f"{days_label(poll.days)}: retry {number} of partition {partition}: {reason}")

    def retries(self, day: Day) -> int:
        """Return the number of retries of all partitions whose first day is this day."""
        with self._lock:
            return sum(retries for sign, retries in self._retries.items() if sign.day == day)

    @contextmanager
    def publishing(self, day: Day, rows: int) -> Iterator[None]:
        """Log how long a day has been publishing, while the block runs."""
        with self._lock:
            self._publishing[day] = (rows, time.monotonic())
        try:
            yield
        finally:
            with self._lock:
                del self._publishing[day]

    def end_day(self, day: Day, text: str) -> None:
        """Log how a day ended."""
        with self._lock:
            self.days_done += 1
            self._ended_days += day in self._poll_starts
            time_left = self._remaining_time()
            done = self.days_done
        log_line(f"day {day}: {text} ({done} of {self.total_days} days{time_left})")

    def _remaining_time(self) -> str:
        days = self.total_days - self.days_done
        if not self._ended_days or not days:
            return ""
        seconds = (time.monotonic() - min(self._poll_starts.values())) / self._ended_days * days
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
        totals, notes = Counter[str](), []
        all_announce = dict.fromkeys(_ANNOUNCED, not poll.reused_parts)
        for part, progress_file in poll.progress_files.items():
            try:
                sign = json.loads(self.stage.read(progress_file.path))
            except (OSError, ConnectError, ValueError):
                all_announce = dict.fromkeys(_ANNOUNCED, False)
                continue  # not begun, or just being replaced
            totals.update({name: sign[name] for name in _COUNTED})
            all_announce = {name: is_announced and sign[name] > 0 for name, is_announced in all_announce.items()}
            self.log_retries(poll, part, sign["retries"])
            if sign["note"]:
                notes.append(sign["note"])
        rows, megabytes, pace = totals["rows"], totals["raw_bytes"] / 1e6, max(seconds, 0.1)
        text = f"{rows:,} rows, {megabytes:,.1f} MB, {megabytes / pace:,.1f} MB/s, {rows / pace:,.0f} rows/s"
        if not rows and not totals["raw_bytes"]:
            text = f"no rows yet after {seconds:.0f} s"  # Spark starts, or the source makes its answer
        announced = {name: totals[name] for name, all_do in all_announce.items() if all_do}
        return "; ".join(filter(None, [text, self._time_left(poll, seconds, totals, announced), *notes]))

    def _time_left(
        self, poll: PollProgress, seconds: float, totals: Mapping[str, int], announced: Mapping[str, int]
    ) -> str:
        row_point = ProgressPoint(seconds, totals["rows"])
        if (size := announced.get("announced_bytes")) is not None:
            expected_bytes = ExpectedTotal(size, f"{size / 1e6:,.1f} MB were announced")
            return poll.byte_pace.time_left_text(ProgressPoint(seconds, totals["wire_bytes"]), expected_bytes)
        if (rows := announced.get("announced_rows")) is not None:
            return poll.row_pace.time_left_text(row_point, ExpectedTotal(rows, f"{rows:,} rows were announced"))
        if len(poll.ended) >= _MIN_ENDED_PARTITIONS:
            ended_parts, parts = len(poll.ended), len(poll.progress_files)
            remaining_seconds = seconds_left(ProgressPoint(0, 0), ProgressPoint(seconds, ended_parts), parts)
            return (
                ""
                if remaining_seconds is None
                else f"{rough_time(remaining_seconds)} left, as {ended_parts:,} of {parts:,} partitions have ended"
            )
        if self.row_estimate is None or poll.reused_parts:
            return ""
        return poll.row_pace.time_left_text(row_point, self.row_estimate.estimate(poll.days, seconds))
