"""Cuts a large day into several exports by time. DAG files import this.

Mixpanel's export accepts names of events to send, but cannot send all except some, and its expressions do not know an
event's name (https://docs.mixpanel.com/reference/segmentation-expressions, 2026-11). So a cut by name would lose events
with unlisted names. Instead part *n* requests the events that have reached its own cut time and not the next. Cut times
ascend, and ``not`` is true for values that cannot be compared. So every event is in exactly one part, with any value as
its time, and in any zone in which the server reads a cut time. A different zone only makes parts unequal.
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
"""The vendor's counts are by hour, and a hundred exports may run concurrently."""

CONCURRENT_PARTS = 4
"""More would not help: each is read by its own task, and days are polled concurrently too."""


def find_cut_times(
    day: Day, regime: Regime, hours: Mapping[str, int], split_rows: int | None, previous_parts: int = 0
) -> list[str]:
    """Return the times that divide a day, ascending. Empty for a small day.

    :param hours: number of events in each hour of the project's clock (``2026-03-01 14:00:00``).
    :param previous_parts: make at least twice as many parts, or as many as the hours allow.
    """
    parts = min(MAX_PARTS, 1 if split_rows is None else math.ceil(sum(hours.values()) / split_rows))
    cut_times = _cut_times_between(day, regime, hours, parts)
    part_count = max(parts, min(MAX_PARTS, 2 * previous_parts))
    # An hour that holds much of the day leaves fewer cuts than parts that are wanted.
    while previous_parts and len(cut_times) < previous_parts and part_count <= MAX_PARTS:
        cut_times = _cut_times_between(day, regime, hours, part_count)
        part_count += 1
    return cut_times


def _cut_times_between(day: Day, regime: Regime, hours: Mapping[str, int], parts: int) -> list[str]:
    total = sum(hours.values())
    cut_times: list[str] = []
    events_before, next_part = 0, 1
    for hour, count in sorted(hours.items()):
        # A cut is due after so many parts' worth of events. The nearest one may lie before or behind this hour.
        if events_before and next_part < parts and (2 * events_before + count) * parts > 2 * next_part * total:
            mark = _cut_time(hour, day, regime)
            if mark is not None and (not cut_times or mark > cut_times[-1]):
                cut_times.append(mark)
                next_part = (
                    max(next_part, events_before * parts // total) + 1
                )  # an hour may hold more than one part's worth
        events_before += count
    return cut_times


def part_conditions(cut_times: list[str]) -> list[str]:
    """Return the expression of each part."""
    if not cut_times:
        return []
    reached = [f'(event["$time"] >= datetime("{mark}"))' for mark in cut_times]
    between = [f"{since} and (not {until})" for since, until in itertools.pairwise(reached)]
    return [f"not {reached[0]}", *between, reached[-1]]


def can_split(options: MixpanelOptions) -> bool:
    """Return whether a day may be requested in several exports."""
    return options.days_per_request == 1 and not count_problems(options)


def join_expressions(first_expression: str | None, second_expression: str | None) -> str | None:
    """Return one expression for two."""
    if first_expression is None or second_expression is None:
        return first_expression if second_expression is None else second_expression
    return f"({first_expression}) and ({second_expression})"


def split_problems(options: MixpanelOptions) -> list[str]:
    """Return the reasons why days cannot be split, or an empty list if they can or need not."""
    if options.split_rows is None:
        return []
    problems = count_problems(options)
    if options.days_per_request != 1:
        problems.append("a split day needs requests of its own. Remove days_per_request")
    return [f"split_rows: {problem}" for problem in problems]


def count_problems(options: MixpanelOptions) -> list[str]:
    """Return the reasons why Mixpanel cannot count the export, or an empty list."""
    if options.where_expression is not None and options.event is None:
        return ["with where, Mixpanel counts one event at a time. List the events in option event"]
    return []


def _cut_time(hour: str, day: Day, regime: Regime) -> str | None:
    """Return an hour of the project's clock in the events' time. None if it is unreadable."""
    try:
        wall = dt.datetime.fromisoformat(hour).replace(tzinfo=None)
    except ValueError:
        return None
    if regime == "utc":
        wall = wall.replace(tzinfo=zone(day.zone)).astimezone(dt.UTC).replace(tzinfo=None)
    return wall.isoformat(timespec="seconds")
