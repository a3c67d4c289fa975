"""Options for the rows that a ``mode`` reads: bounds, rows without a value, rows read again. DAG files import this."""

from __future__ import annotations

import datetime as dt
from typing import Literal, Protocol

from airflow_provider_connect.sources._sql.read_methods import Mode, SnapshotModeName, StartMode

Nulls = Literal["leave_out", "fail", "first"]
"""Effect of a row whose cursor column is NULL."""
Overlap = int | dt.timedelta
Bound = int | dt.datetime


class CursorRange(Protocol):
    """The options that decide which rows a ``mode`` reads."""

    @property
    def mode(self) -> Mode | None: ...
    @property
    def start(self) -> str | None: ...
    @property
    def end(self) -> str | None: ...
    @property
    def nulls(self) -> Nulls: ...
    @property
    def overlap(self) -> Overlap | None: ...
    @property
    def snapshot_mode(self) -> SnapshotModeName: ...
    @property
    def start_mode(self) -> StartMode: ...


def bound_text(value: object) -> object:
    """Convert a number, date or time of a DAG file to the text of a bound. Returns other values unchanged."""
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def parse_bound(text: str, *, is_time: bool) -> Bound:
    """Parse ``start`` or ``end``. A time without a zone is returned without one.

    :param is_time: the cursor's first column is a time.
    :raises ValueError: the text is neither a whole number nor an ISO date or time.
    """
    return dt.datetime.fromisoformat(text) if is_time else int(text)


def cursor_range_problems(options: CursorRange) -> list[str]:
    """Return the problems of ``start``, ``end``, ``nulls`` and ``overlap`` with a ``mode``."""
    if options.mode is None:  # reported as misplaced
        return []
    is_time = options.mode != "incrementing"
    problems, bounds = [], []
    for name in ("start", "end"):
        text = getattr(options, name)
        try:
            bounds += [] if text is None else [parse_bound(text, is_time=is_time)]
        except ValueError:
            expected = "a time such as '2026-01-01' or '2026-01-01T00:00:00+01:00'" if is_time else "a whole number"
            problems.append(f"{name}: {text!r} is not {expected}")
    if len(bounds) == 2 and _is_before(bounds[1], bounds[0]):
        problems.append("end: it lies before start")
    return problems + _overlap_problems(options, is_time=is_time) + _nulls_problems(options)


def _is_before(first: Bound, second: Bound) -> bool:
    if isinstance(first, dt.datetime) and isinstance(second, dt.datetime):
        return (first.tzinfo is None) == (second.tzinfo is None) and first <= second
    return isinstance(first, int) and isinstance(second, int) and first <= second


def _overlap_problems(options: CursorRange, *, is_time: bool) -> list[str]:
    overlap = options.overlap
    if overlap is None:
        return []
    if is_time != isinstance(overlap, dt.timedelta):
        expected = "a duration, datetime.timedelta(hours=3)" if is_time else "a whole number"
        return [f"overlap: mode={options.mode!r} needs {expected}"]
    if not options.start_mode.loads_new:
        return [f"overlap: snapshot_mode={options.snapshot_mode!r} has no later runs, so nothing is read again"]
    is_positive = overlap > dt.timedelta(0) if isinstance(overlap, dt.timedelta) else overlap > 0
    return [] if is_positive else ["overlap: it must be above 0"]


def _nulls_problems(options: CursorRange) -> list[str]:
    if options.nulls == "first" and not options.start_mode.loads_existing:
        return [f"nulls: snapshot_mode={options.snapshot_mode!r} loads no existing rows, so 'first' loads none"]
    return []
