"""Splits a large day into several exports by time.

Each part requests the events from one cut time to the next: a split by event name would lose unlisted names
(https://docs.mixpanel.com/reference/segmentation-expressions, 2026-11).
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
"""Hours of a day. Mixpanel counts by hour."""

CONCURRENT_PARTS = 4
"""Concurrent exports of one day, each in a Spark task."""


def find_cut_times(
    day: Day, regime: Regime, hours: Mapping[str, int], split_rows: int | None, previous_parts: int = 0
) -> list[str]:
    """Return the ascending times at which to split a day, empty for a small day.

    :param hours: events by hour of the project's clock (``2026-03-01 14:00:00``).
    :param previous_parts: parts of an earlier try. The day gets at least twice as many, if its hours allow.
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
            cut_time = _cut_time(hour, day, regime)
            if cut_time is not None and (not cut_times or cut_time > cut_times[-1]):
                cut_times.append(cut_time)
                next_part = (
                    max(next_part, events_before * parts // total) + 1
                )  # an hour may hold more than one part's worth
        events_before += count
    return cut_times


def part_conditions(cut_times: list[str]) -> list[str]:
    if not cut_times:
        return []
    is_reached = [f'(event["$time"] >= datetime("{cut_time}"))' for cut_time in cut_times]
    middle_parts = [f"{since} and (not {until})" for since, until in itertools.pairwise(is_reached)]
    return [f"not {is_reached[0]}", *middle_parts, is_reached[-1]]


def can_split(options: MixpanelOptions) -> bool:
    """Return True if a day may take several exports."""
    return options.days_per_request == 1 and not count_problems(options)


def join_expressions(first_expression: str | None, second_expression: str | None) -> str | None:
    """Join two expressions, or None, by ``and``."""
    if first_expression is None or second_expression is None:
        return first_expression if second_expression is None else second_expression
    return f"({first_expression}) and ({second_expression})"


def split_problems(options: MixpanelOptions) -> list[str]:
    if options.split_rows is None:
        return []
    problems = count_problems(options)
    if options.days_per_request != 1:
        problems.append("a split day needs requests of its own. Remove days_per_request")
    return [f"split_rows: {problem}" for problem in problems]


def count_problems(options: MixpanelOptions) -> list[str]:
    """Return the reasons why Mixpanel cannot count the exported events."""
    if options.where_expression is not None and options.event is None:
        return ["with where, Mixpanel counts one event at a time. List the events in option event"]
    return []


def _cut_time(hour: str, day: Day, regime: Regime) -> str | None:
    try:
        wall = dt.datetime.fromisoformat(hour).replace(tzinfo=None)
    except ValueError:
        return None
    if regime == "utc":
        wall = wall.replace(tzinfo=zone(day.zone)).astimezone(dt.UTC).replace(tzinfo=None)
    return wall.isoformat(timespec="seconds")
