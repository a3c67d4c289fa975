"""Rows that each way to read must load of a workload, computed without code of the package."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.equipment.sql.workload import DAYS, Row, State, Transaction, poll_of, states

TABLE = "orders"
Loaded = dict[tuple[dt.date, int], Row]
"""What a reader of the loaded table finds, by day and id."""


@dataclass(frozen=True)
class Way:
    """One way to read the table.

    :param options: options of the source.
    :param lookback: days that each run loads again.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    lookback: int = 0


NUMBER = {"mode": "incrementing", "incrementing_column": "id"}
TIME = {"mode": "timestamp", "timestamp_column": "changed"}
BOTH = {"mode": "timestamp+incrementing", "timestamp_column": "changed", "incrementing_column": "id"}
DELAY = {"timestamp_delay_seconds": 4 * 3600.0}
WAYS = (
    Way("incrementing", NUMBER),
    Way("timestamp", TIME),
    Way("timestamp, four hours later", TIME | DELAY),
    Way("timestamp+incrementing", BOTH),
    Way("timestamp+incrementing, four hours later", BOTH | DELAY),
    *(Way(f"days, {back} more of them", {"day_column": "changed"}, back) for back in range(4)),
    Way("snapshot, replaced", {"snapshot": "replace"}),
    Way("snapshot of each day", {"snapshot": "daily"}),
)


def loaded(workload: Sequence[Transaction], way: Way) -> Loaded:
    """Return the rows that must be loaded after the last day's poll."""
    daily_states = list(states(workload))
    if "mode" in way.options:
        return _followed(daily_states, way)
    if way.options.get("snapshot") == "replace":
        return {(DAYS[-1], number): row for number, row in daily_states[-1].items()}
    if way.options.get("snapshot") == "daily":
        return {
            (date, number): row for date, state in zip(DAYS, daily_states, strict=True) for number, row in state.items()
        }
    return {
        (date, number): row
        for at, date in enumerate(DAYS)
        for number, row in daily_states[min(at + way.lookback, len(DAYS) - 1)].items()
        if row.changed is not None and row.changed.date() == date
    }


def _followed(daily_states: list[State], way: Way) -> Loaded:
    """Return the rows of a mode.

    Each run reads from the last row of the earlier runs to the current time or the delay.
    """
    follows_time, follows_number = way.options.get("timestamp_column"), way.options.get("incrementing_column")
    delay = dt.timedelta(seconds=way.options.get("timestamp_delay_seconds", 0))
    result: Loaded = {}
    last: tuple[Any, ...] = ()
    for date, state in zip(DAYS, daily_states, strict=True):
        came = {}
        for row in state.values():
            if follows_time and (row.changed is None or row.changed >= poll_of(date) - delay):
                continue
            position = ((row.changed,) if follows_time else ()) + ((row.id,) if follows_number else ())
            if not last or position > last:
                came[row.id] = position
                result[date, row.id] = row
        last = max([*came.values(), last])
    return result


@dataclass(frozen=True)
class Losses:
    """Differences between the newest loaded state of each row and the database.

    :param missed: rows whose newest time, or all of whose states, are never loaded. Rows that are due later do not
        count.
    :param stale: rows with an older state, since no time shows their change.
    :param without_time: rows without a time, which are never loaded.
    :param ghosts: rows that were deleted in the database.
    :param rows: rows in the database.
    """

    missed: int
    stale: int
    without_time: int
    ghosts: int
    rows: int


def losses(workload: Sequence[Transaction], way: Way) -> Losses:
    """Compare the loaded rows of a way with the database at the last poll."""
    *_, truth = states(workload)
    newest: State = {}
    for (_, number), row in sorted(loaded(workload, way).items(), key=lambda each: each[0]):
        if number not in newest or _time(row) >= _time(newest[number]):
            newest[number] = row
    follows_time = "timestamp_column" in way.options or "day_column" in way.options
    counts = Counter(
        _why(row, newest.get(number), _due(way)) if follows_time else ("stale" if number in newest else "missed")
        for number, row in truth.items()
        if newest.get(number) != row
    )
    ghosts = len(newest.keys() - truth.keys())
    return Losses(counts["missed"], counts["stale"], counts["without_time"], ghosts, len(truth))


def _why(row: Row, found: Row | None, due: dt.datetime) -> str:
    if row.changed is None and found is None:
        return "without_time"
    if found is not None and found.changed == row.changed:
        return "stale"
    return "later" if row.changed is not None and row.changed >= due else "missed"


def _due(way: Way) -> dt.datetime:
    """Return the time up to which the last poll reads rows."""
    if "day_column" in way.options:
        return dt.datetime.combine(DAYS[-1] + dt.timedelta(days=1), dt.time(), dt.UTC)
    return poll_of(DAYS[-1]) - dt.timedelta(seconds=way.options.get("timestamp_delay_seconds", 0))


def _time(row: Row) -> dt.datetime:
    return row.changed or dt.datetime.min.replace(tzinfo=dt.UTC)
