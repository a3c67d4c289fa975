"""Checks the days that the next run of a task loads."""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow.sdk import CronDataIntervalTimetable
from airflow.timetables.base import TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable as CoreCronTimetable

from airflow_provider_connect.cli.tasks import DeclaredTask
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.run_days import format_days
from airflow_provider_connect.timetables import DailyTimetable, EveryTimetable
from airflow_provider_connect.window import Day, days_of_window, parse_days


def describe_next_days(task: DeclaredTask, current_time: dt.datetime) -> str | None:
    """Describe the days of the task's next run, None if only the run names them.

    :raises ConfigError: the days cannot be loaded, or the schedule fits no day of the source.
    """
    if text := task.render_days():
        return f"days= names {format_days(_require_begun(parse_days(text, task.zone), current_time))}"
    timetable = task.dag.timetable
    if not timetable.can_be_scheduled:
        return "no schedule. A run that is started by hand loads the day of its date, else yesterday"
    core = _core_timetable(timetable)
    if core is None:
        return None
    info = core.next_dagrun_info(
        last_automated_data_interval=None,
        restriction=TimeRestriction(earliest=task.dag.start_date, latest=task.dag.end_date, catchup=False),
    )
    if info is None or info.data_interval is None:
        return f"the schedule has ended{'. Catchup makes its missing runs' if task.dag.catchup else ''}"
    if task.require_operator().source.kind == "increment":
        after = info.run_after.isoformat()
        return f"a run reads the rows since the run before, the first one all rows, from {after} on"
    days = days_of_window(info.data_interval.start, info.data_interval.end, task.zone)
    return f"the newest run loads {format_days(days)} in {task.zone}, from {info.run_after.isoformat()} on"


def _require_begun(days: list[Day], current_time: dt.datetime) -> list[Day]:
    if days[-1].start > current_time:
        raise ConfigError(f"days={format_days(days)!r}: {days[-1]} is in the future. Correct days=")
    return days


def _core_timetable(timetable: Any) -> CoreCronTimetable | None:
    if isinstance(timetable, (DailyTimetable, EveryTimetable)):
        return timetable
    if isinstance(timetable, CronDataIntervalTimetable):
        return CoreCronTimetable(timetable.expression, timezone=timetable.timezone)
    return None
