"""States of a stream's days, and the band of rows expected for a day.

The band: median of the last eight settled days of the same weekday, plus and minus three scaled median absolute
deviations, and at least a tenth of the median.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

from airflow_provider_connect.page.facts.reports import RunDayReport
from airflow_provider_connect.page.facts.runs import TaskRun
from airflow_provider_connect.page.facts.stream import Stream
from airflow_provider_connect.window import ONE_DAY, DaySet

DayState = Literal["done", "running", "waiting", "failed", "gap", "none"]
_WEIGHT = {"failed": 0, "waiting": 1, "running": 2}


@dataclass(frozen=True, slots=True)
class CalendarDay:
    """One day of a stream.

    :param run: unfinished run that determines the state.
    """

    day: dt.date
    state: DayState
    report: RunDayReport | None
    run: TaskRun | None


def calendar_days(stream: Stream, first: dt.date, last: dt.date) -> list[CalendarDay]:
    """Return all days from ``first`` to ``last``, both included.

    An unfinished run decides a day's state.
    """
    window = DaySet(ranges=((first, last),)) if first <= last else DaySet()
    unfinished_runs = _by_day([*stream.failed_runs, *stream.active_runs], first, last)
    settled, gaps = set(_days_within(stream.settled_days, first, last)), set(_days_within(stream.gaps, first, last))
    return [
        CalendarDay(
            day,
            _state(day, unfinished_runs.get(day), settled, gaps),
            stream.newest_reports.get(day),
            unfinished_runs.get(day),
        )
        for day in window
    ]


def _state(day: dt.date, run: TaskRun | None, settled: set[dt.date], gaps: set[dt.date]) -> DayState:
    if run is not None and run.phase != "ended":
        return run.phase
    if day in settled:
        return "done"
    return "gap" if day in gaps else "none"


def _by_day(runs: Sequence[TaskRun], first: dt.date, last: dt.date) -> dict[dt.date, TaskRun]:
    runs_by_day: dict[dt.date, TaskRun] = {}
    for run in runs:
        if run.days is None:
            continue
        for day in _days_within(DaySet(ranges=(run.days,)), first, last):
            if day not in runs_by_day or _WEIGHT[run.phase] > _WEIGHT[runs_by_day[day].phase]:
                runs_by_day[day] = run
    return runs_by_day


def _days_within(days: DaySet, first: dt.date, last: dt.date) -> Iterator[dt.date]:
    for begin, end in days.ranges:
        day = max(begin, first)
        while day <= min(end, last):
            yield day
            day += ONE_DAY


BAND_WEEKS = 8
BAND_MIN_DAYS = 4
BAND_LOOKBACK_DAYS = 7 * 2 * BAND_WEEKS
"""A band uses no days older than this."""
_SCALE = 1.4826  # of the median absolute deviation to a standard deviation
_WIDTH = 3.0
_LEAST_SHARE = 0.1


class Band(NamedTuple):
    """Range of rows expected for a day."""

    day: dt.date
    low: int
    high: int


def row_bands(rows: Mapping[dt.date, int], days: Iterable[dt.date]) -> list[Band]:
    """Return the bands of the days that have one."""
    bands = (_band(rows, day) for day in days)
    return [band for band in bands if band is not None]


def _band(rows: Mapping[dt.date, int], day: dt.date) -> Band | None:
    weeks = (day - ONE_DAY * 7 * back for back in range(1, BAND_LOOKBACK_DAYS // 7 + 1))
    comparable_rows = [rows[value] for value in weeks if value in rows][:BAND_WEEKS]
    if len(comparable_rows) < BAND_MIN_DAYS:
        return None
    middle = median(comparable_rows)
    spread = _WIDTH * _SCALE * median(abs(value - middle) for value in comparable_rows)
    half_width = max(spread, _LEAST_SHARE * middle)
    return Band(day, max(0, math.floor(middle - half_width)), math.ceil(middle + half_width))
