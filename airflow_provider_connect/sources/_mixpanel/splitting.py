"""Cuts a large day into several exports, by the time of its events. Pure functions; DAG files import this.

Mixpanel's export takes the names of the events that it is to send, but has no way to ask for all others, and its
expressions do not know an event's name (https://docs.mixpanel.com/reference/segmentation-expressions, 2026-11). So a
cut by name would lose what nobody has listed. It is made by time instead: part *n* asks for the events that have
reached its own mark, and not the next one. Marks ascend, and ``not`` is true of what cannot be compared, so every event
is in exactly one part, whatever it holds for a time, and in whatever zone the server reads a mark. A zone read
otherwise only makes parts unequal.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Mapping

from airflow_provider_connect.sources._mixpanel.columns import Regime
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.window import Day, zone

MAX_PARTS = 24
"""The vendor's counts are by hour, and a hundred exports may run at once."""

CONCURRENT_PARTS = 4
"""More would not help: each is read by a task of its own, and days are polled side by side, too."""


def find_cut_times(
    day: Day, regime: Regime, hours: Mapping[str, int], split_rows: int | None, previous_parts: int = 0
) -> list[str]:
    """Return where a day is cut, ascending; [] if it is not so large.

    :param hours: how many events there are in each hour, as the project's clock shows it (``2026-03-01 14:00:00``).
    :param more_than: make twice as many parts as these at least; if the hours do not allow so many, as they do allow.
    """
    parts = min(MAX_PARTS, 1 if split_rows is None else math.ceil(sum(hours.values()) / split_rows))
    found = _cuts(day, regime, hours, parts)
    wanted = max(parts, min(MAX_PARTS, 2 * previous_parts))
    # An hour that holds much of the day leaves fewer cuts than parts that are wanted.
    while previous_parts and len(found) < previous_parts and wanted <= MAX_PARTS:
        found = _cuts(day, regime, hours, wanted)
        wanted += 1
    return found


def _cuts(day: Day, regime: Regime, hours: Mapping[str, int], parts: int) -> list[str]:
    """Return the marks between so many parts, or fewer."""
    total = sum(hours.values())
    found: list[str] = []
    before, due = 0, 1
    for hour, count in sorted(hours.items()):
        # A cut is due after so many parts' worth of events. The nearest one may lie before or behind this hour.
        if before and due < parts and (2 * before + count) * parts > 2 * due * total:
            mark = _mark(hour, day, regime)
            if mark is not None and (not found or mark > found[-1]):
                found.append(mark)
                due = max(due, before * parts // total) + 1  # an hour may hold more than one part's worth
        before += count
    return found


def part_conditions(cut_times: list[str]) -> list[str]:
    """Return the expression of each part."""
    if not cut_times:
        return []
    reached = [f'(event["$time"] >= datetime("{mark}"))' for mark in cut_times]
    between = [f"{since} and (not {until})" for since, until in itertools.pairwise(reached)]
    return [f"not {reached[0]}", *between, reached[-1]]


def can_split(options: MixpanelOptions) -> bool:
    """Whether a day may be asked for in several exports."""
    return options.days_per_request == 1 and not count_problems(options)


def join_expressions(first_expression: str | None, second_expression: str | None) -> str | None:
    """Return one expression for two."""
    if first_expression is None or second_expression is None:
        return first_expression if second_expression is None else second_expression
    return f"({first_expression}) and ({second_expression})"


def split_problems(options: MixpanelOptions) -> list[str]:
    """Say why days cannot be split; [] if they can, or need not."""
    if options.split_rows is None:
        return []
    problems = count_problems(options)
    if options.days_per_request != 1:
        problems.append("a day that may be split is asked for alone: leave days_per_request out")
    return [f"split_rows: {problem}" for problem in problems]


def count_problems(options: MixpanelOptions) -> list[str]:
    """Say why Mixpanel's own count cannot be had for the export; [] if it can."""
    if options.where_expression is not None and options.event is None:
        return ["Mixpanel counts with where one event at a time: name the events in option event"]
    return []


def _mark(hour: str, day: Day, regime: Regime) -> str | None:
    """Return an hour of the project's clock as events are timed; None if it cannot be read."""
    try:
        wall = dt.datetime.fromisoformat(hour).replace(tzinfo=None)
    except ValueError:
        return None
    if regime == "utc":
        wall = wall.replace(tzinfo=zone(day.zone)).astimezone(dt.UTC).replace(tzinfo=None)
    return wall.isoformat(timespec="seconds")
