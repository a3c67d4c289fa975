"""Refuses a DAG's schedule whose runs name no day of the source."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.config import has_template
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.timetables import DAYS_PARAM, MIDNIGHT_CRON, DailyTimetable, EveryTimetable
from airflow_provider_connect.window import start_of, zone

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from airflow_provider_connect.source import Source

_TICKS_PER_SEASON = 3
_SEASON_MONTHS = (1, 4, 7, 10)


def require_day_schedule(dag: DAG, days: object, source: Source) -> None:
    """Refuse a schedule whose runs name no day of the source.

    A task with ``days=``, or of increments, needs none.

    :param days: the task's ``days=``, which may be a template.
    :raises ConfigError: with the remedy.
    """
    if days or _form_days(dag.params) or source.kind == "increment":
        return
    zone_name = source.timezone
    if problem := _schedule_problem(dag.timetable, None if has_template(zone_name) else zone_name):
        remedy = "daily()" if has_template(zone_name) else f"daily({zone_name!r})"
        zone_remedy = _zone_remedy(dag.timetable, zone_name) if "midnight" in problem else ""
        raise ConfigError(
            f"schedule of DAG {dag.dag_id!r}: {problem}. Set schedule={remedy} from "
            f"airflow_provider_connect.timetables, {zone_remedy}or set days= of the task"
        )


def describe_missing_interval(dag: DAG) -> str | None:
    """Describe why no run of the DAG has a data interval, None if one may have."""
    return None if _form_days(dag.params) else _schedule_problem(dag.timetable, None)


def _zone_remedy(timetable: Any, zone_name: str) -> str:
    zone = getattr(timetable, "timezone", None)
    name = getattr(zone, "name", zone)
    if getattr(timetable, "expression", None) != MIDNIGHT_CRON or not isinstance(name, str) or name == zone_name:
        return ""
    return f"or zone={name!r} of the source if its days begin there, "


def _form_days(params: Mapping[str, Any]) -> object:
    return params.get(DAYS_PARAM) if DAYS_PARAM in params else None


def _schedule_problem(timetable: Any, zone_name: str | None) -> str | None:
    from airflow.sdk.definitions.timetables import interval, simple, trigger  # noqa: PLC0415  # loaded by DAG() anyway

    # AssetOrTimeSchedule has a timetable for its scheduled runs.
    timetable = getattr(timetable, "timetable", timetable)
    without_interval = (
        trigger.CronTriggerTimetable,
        trigger.DeltaTriggerTimetable,
        trigger.MultipleCronTriggerTimetable,
        simple.OnceTimetable,
        simple.ContinuousTimetable,
    )
    if isinstance(timetable, without_interval) and not isinstance(timetable, trigger.CronPartitionTimetable):
        if getattr(timetable, "interval", None):
            return None
        return "its runs have no data interval, so they name no day. In Airflow 3 that includes a bare '@daily'"
    if zone_name is None:
        return None
    if isinstance(timetable, (DailyTimetable, EveryTimetable, interval.CronDataIntervalTimetable)):
        name = getattr(timetable.timezone, "name", timetable.timezone)
        return _ticks_problem(timetable.expression, name, zone_name) if isinstance(name, str) else None
    return None


def _ticks_problem(expression: str, schedule_zone: str, source_zone: str) -> str | None:
    if expression == MIDNIGHT_CRON and schedule_zone == source_zone:
        return None
    for tick in _ticks(expression, schedule_zone):
        local = tick.astimezone(zone(source_zone))
        if start_of(local.date(), source_zone) != tick:
            return (
                f"its runs begin at times such as {local.isoformat()}, and the source's days begin at midnight in "
                f"{source_zone}"
            )
    return None


def _ticks(expression: str, zone_name: str) -> Iterator[dt.datetime]:
    from croniter import croniter  # noqa: PLC0415  # only for schedules of another kind than daily()

    year = dt.datetime.now(dt.UTC).year
    for month in _SEASON_MONTHS:
        ticks = croniter(expression, dt.datetime(year, month, 1))  # noqa: DTZ001  # as on the zone's clock
        for _ in range(_TICKS_PER_SEASON):
            yield ticks.get_next(dt.datetime).replace(tzinfo=zone(zone_name)).astimezone(dt.UTC)
