"""Task instances and DAG runs in Airflow's API, and the days that they load."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.page.facts.reports import parse_instant
from airflow_provider_connect.window import ONE_DAY, Schedule, first_and_last_date, parse_first_and_last, start_of, zone

RunPhase = Literal["running", "waiting", "failed", "ended"]

RUNNING_STATES = ("none", "running", "queued", "scheduled", "restarting", "up_for_retry", "up_for_reschedule")
FAILED_STATES = ("failed", "upstream_failed")
OPEN_STATES = (*RUNNING_STATES[1:], "deferred", *FAILED_STATES)
"""States of unfinished task instances, which may also have no state."""

_UNSCHEDULED = (None, "PartitionedAtRuntime")

_SHORTEST_DAY = dt.timedelta(hours=20)
_EASTMOST = dt.timedelta(hours=13)  # New Zealand in summer. The westernmost is then Hawaii

_READY_TRIGGER = "DateTimeTrigger"
_DURATION = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d)(?:\.\d+)?")

DayRange = tuple[dt.date, dt.date]


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A task instance.

    :param days: first and last day that it loads. None if unknown.
    :param trigger: class path of a deferred instance's trigger.
    :param state_since: time of the last state change.
    """

    dag_id: str
    task_id: str
    map_index: int
    run_id: str
    state: str
    days: DayRange | None
    trigger: str
    state_since: dt.datetime | None
    run_after: dt.datetime | None
    fields: Mapping[str, Any]

    @classmethod
    def from_api(cls, task_instance: Mapping[str, Any]) -> TaskRun:
        """Convert a task instance from an answer of Airflow's API."""
        fields = task_instance.get("rendered_fields") or {}
        times = (task_instance.get(name) for name in ("end_date", "start_date", "queued_when", "scheduled_when"))
        return cls(
            dag_id=task_instance["dag_id"],
            task_id=task_instance["task_id"],
            map_index=task_instance["map_index"],
            run_id=task_instance["dag_run_id"],
            state=task_instance["state"] or "none",
            days=_span(fields.get("days")),
            trigger=str((task_instance.get("trigger") or {}).get("classpath", "")),
            state_since=next((moment for text in times if (moment := parse_instant(text)) is not None), None),
            run_after=parse_instant(task_instance.get("run_after")),
            fields=fields,
        )

    @property
    def phase(self) -> RunPhase:
        """The state in four groups: running, waiting, failed or ended."""
        if self.state == "deferred":
            return "waiting"
        if self.state in RUNNING_STATES:
            return "running"
        return "failed" if self.state in FAILED_STATES else "ended"

    def with_dag_run(self, dag_run: Mapping[str, Any], zone_name: str | None) -> TaskRun | None:
        """Return a copy with the DAG run's days, or itself if it has days.

        None for an instance that will never start.
        """
        if self.state == "none" and dag_run.get("state") not in ("queued", "running"):
            return None
        return self if self.days is not None else replace(self, days=days_of_run(dag_run, zone_name))

    def resumes_at(self, zone_name: str) -> dt.datetime | None:
        """Return when an instance that waits for ``ready_after`` resumes, or None."""
        if self.state != "deferred" or self.days is None or not self.trigger.endswith(_READY_TRIGGER):
            return None
        wait = _parse_duration(self.fields.get("ready_after"))
        return None if wait is None else start_of(self.days[1] + ONE_DAY, zone_name) + wait

    def covers(self, day: dt.date) -> bool:
        """Return True if the instance loads this day."""
        return self.days is not None and self.days[0] <= day <= self.days[1]


def days_of_run(run: Mapping[str, Any], zone_name: str | None) -> DayRange | None:
    """Return the days of a DAG run, from its partition key or data interval, or None.

    :param zone_name: zone of the source's days. None uses :func:`nearest_day`.
    """
    if run.get("partition_key"):
        day = _day_of_key(run["partition_key"], zone_name)
        return None if day is None else (day, day)
    start, end = parse_instant(run.get("data_interval_start")), parse_instant(run.get("data_interval_end"))
    if start is None or end is None or start >= end:
        return None
    if end - start < _SHORTEST_DAY:  # of an increment
        day = start.astimezone(dt.UTC if zone_name is None else zone(zone_name)).date()
        return day, day
    if zone_name is None:
        return nearest_day(start), nearest_day(end) - ONE_DAY
    try:
        return first_and_last_date(start, end, zone_name)
    except ConfigError:
        return None


def nearest_day(moment: dt.datetime) -> dt.date:
    """Return the day that begins at an instant in an unknown zone, from Hawaii to New Zealand."""
    return (moment.astimezone(dt.UTC) + _EASTMOST).date()


def first_and_last_start(first: dt.date, last: dt.date, zone_name: str | None) -> tuple[dt.datetime, dt.datetime]:
    """Return two instants between which exactly the days from ``first`` to ``last`` begin.

    :param zone_name: zone of the days. None uses :func:`nearest_day`.
    """
    if zone_name is not None:
        return start_of(first, zone_name), start_of(last, zone_name)
    end = start_of(last + ONE_DAY, "UTC") - _EASTMOST
    return start_of(first, "UTC") - _EASTMOST, end - dt.timedelta(seconds=1)


def next_run_days(dag: Mapping[str, Any], zone_name: str | None) -> tuple[DayRange, dt.datetime] | None:
    """Return the days of a DAG's next run and the time when it is due, or None."""
    interval = {
        "data_interval_start": dag.get("next_dagrun_data_interval_start"),
        "data_interval_end": dag.get("next_dagrun_data_interval_end"),
    }
    due, days = parse_instant(dag.get("next_dagrun_run_after")), days_of_run(interval, zone_name)
    return None if due is None or days is None else (days, due)


def expected_days(
    dag: Mapping[str, Any], zone_name: str | None, current_time: dt.datetime, grace: dt.timedelta
) -> DayRange | None:
    """Return the days of the last run that should have ended by now, None without a schedule."""
    next_run = next_run_days(dag, zone_name)
    if next_run is None:
        return None
    (first, last), due = next_run
    if due + grace < current_time:
        return first, last
    length = (last - first).days + 1
    return first - ONE_DAY * (length + length // 9), first - ONE_DAY


def schedule_of(dag: Mapping[str, Any], end: dt.datetime | None, zone_name: str) -> Schedule:
    """Return the schedule of a task's DAG, up to the task's end date ``end``."""
    is_set = dag.get("timetable_summary", "") not in _UNSCHEDULED
    return Schedule.from_task(is_set=is_set, end=end, zone_name=zone_name)


def _day_of_key(key: str, zone_name: str | None) -> dt.date | None:
    try:
        moment = dt.datetime.fromisoformat(key)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return moment.date()
    return nearest_day(moment) if zone_name is None else moment.astimezone(zone(zone_name)).date()


def _parse_duration(text: Any) -> dt.timedelta | None:
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return dt.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _span(text: Any) -> DayRange | None:
    try:
        return parse_first_and_last(text) if isinstance(text, str) and text.strip() else None
    except ConfigError:
        return None
