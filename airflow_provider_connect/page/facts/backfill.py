"""Runs, requests and time of a backfill, and the missing days of a stream."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.page.facts.reports import parse_instant
from airflow_provider_connect.page.facts.runs import DayRange, days_of_run, nearest_day, next_run_days
from airflow_provider_connect.page.facts.stream import Stream
from airflow_provider_connect.polling.estimate import rough_time
from airflow_provider_connect.window import ONE_DAY, Day, DaySet, days_between, start_of, zone


@dataclass(frozen=True)
class PlannedRun:
    """Run that a backfill would make."""

    starts_at: dt.datetime
    days: DayRange

    @classmethod
    def from_dry_run(cls, row: Mapping[str, Any], zone_name: str | None, days_per_run: int) -> PlannedRun | None:
        """Convert a row of Airflow's dry run. None if the row has no date."""
        starts_at = parse_instant(row.get("logical_date") or row.get("partition_date"))
        if starts_at is None:
            return None
        partition = days_of_run({"partition_key": row.get("partition_key")}, zone_name)
        if partition is not None:
            return cls(starts_at, partition)
        first = nearest_day(starts_at) if zone_name is None else starts_at.astimezone(zone(zone_name)).date()
        return cls(starts_at, (first, first + ONE_DAY * (days_per_run - 1)))

    def days_in(self, zone_name: str) -> list[Day]:
        """Return the run's days."""
        return days_between(*self.days, zone_name)


@dataclass(frozen=True)
class RequestCost:
    """Requests of a backfill's runs to all vendors that limit them.

    :param requests: None if no source of the DAG has a quota, or a source is unknown.
    :param hours: from the first request to the last.
    :param slowest_quota: description of that quota.
    :param unknown: sentences that name the unknown figures.
    """

    requests: int | None = None
    hours: float = 0.0
    slowest_quota: str = ""
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class BackfillCost:
    """Cost of a backfill. ``str()`` describes it."""

    runs: Sequence[PlannedRun]
    requests: RequestCost
    seconds_per_run: float | None
    max_active_runs: int

    @property
    def seconds(self) -> float | None:
        """Estimated duration: at the pace of the last runs, or of the quota if slower. None if unknown."""
        quota_seconds = self.requests.hours * 3600
        if self.seconds_per_run is None:
            return quota_seconds or None
        return max(quota_seconds, math.ceil(len(self.runs) / self.max_active_runs) * self.seconds_per_run)

    def __str__(self) -> str:
        parts = [count_text(len(self.runs), "run")]
        if self.requests.requests is not None:
            parts.append(f"about {count_text(self.requests.requests, 'request')}")
        if self.seconds is not None:
            at_once = f"at most {count_text(self.max_active_runs, 'active run')}"
            is_bound = self.requests.hours and self.seconds <= self.requests.hours * 3600
            pace = f"at {self.requests.slowest_quota}" if is_bound else f"at the pace of the last runs, {at_once}"
            parts.append(f"{rough_time(self.seconds)} ({pace})")
        return ", ".join(parts)


def days_per_run(dag: Mapping[str, Any], zone_name: str | None) -> int:
    """Return the number of days that a DAG's next run loads. 1 if no run is planned."""
    next_run = next_run_days(dag, zone_name)
    if next_run is None:
        return 1
    first, last = next_run[0]
    return (last - first).days + 1


def seconds_per_run(task_instances: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the median time of the runs of ended task instances, or None."""
    spans: defaultdict[str, list[tuple[dt.datetime, dt.datetime]]] = defaultdict(list)
    for row in task_instances:
        start, end = parse_instant(row.get("start_date")), parse_instant(row.get("end_date"))
        if start is not None and end is not None:
            spans[row["dag_run_id"]].append((start, end))
    durations = [
        (max(end for _, end in times) - min(start for start, _ in times)).total_seconds() for times in spans.values()
    ]
    return statistics.median(durations) if durations else None


def missing_days(stream: Stream, starts_at: dt.datetime | None) -> DaySet:
    """Return the missing days that a stream's DAG should have loaded and no run loads now.

    :param starts_at: start of the DAG.
    """
    return DaySet.from_dates(
        day
        for day in stream.missing_days
        if (starts_at is None or start_of(day, stream.zone) >= starts_at)
        and not any(run.covers(day) for run in stream.active_runs)
    )


def first_day(starts_at: dt.datetime, zone_name: str | None) -> dt.date:
    """Return the first day that begins at the start of a DAG or later.

    :param zone_name: zone of the source's days. None uses :func:`nearest_day`.
    """
    if zone_name is None:
        return nearest_day(starts_at)
    day = starts_at.astimezone(zone(zone_name)).date()
    return day if start_of(day, zone_name) >= starts_at else day + ONE_DAY


def zone_name_of(streams: Sequence[Stream]) -> str | None:
    """Return the zone of a DAG's streams, None before the first run."""
    return next((stream.connectors.timezone for stream in streams if stream.connectors.timezone is not None), None)


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun, such as "2 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
