"""Which days a task is for: given, or the run's partition key, or its data interval. Never its logical date.

A run triggered by hand for the logical date D has the data interval of the day before D, so a logical date
does not say which day is meant; the data interval does, for scheduled, backfilled and manual runs alike.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.window import ONE_DAY, Day, days_of_window, parse_days, start_of, zone

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol


def resolve_days(days: str | None, run: DagRunProtocol, zone_name: str) -> list[Day]:
    """Return the days to move, oldest first.

    :param days: the operator's rendered option; None or empty takes the run's own day.
    :param run: ``context["dag_run"]``.
    :param zone_name: the source's zone, whose calendar days are meant.
    :raises ConfigError: if the run names no day, or its interval is not a whole number of them.
    """
    if days is not None and not isinstance(days, str):
        raise ConfigError(f"days must be text such as '2026-10-05' or '2026-10-05..2026-10-11', not {type(days)}")
    if days and days.strip():
        return parse_days(days, zone_name)
    if run.partition_key:
        return [_day_of_key(run.partition_key, zone_name)]
    if run.data_interval_start is None or run.data_interval_end is None:
        raise ConfigError(
            f"run {run.run_id!r} has no data interval and no partition key, so it does not say which day to move: "
            f"use schedule=daily({zone_name!r}) from airflow_provider_connect.timetables, trigger with "
            "data_interval_start and data_interval_end, or give days="
        )
    return days_of_window(run.data_interval_start, run.data_interval_end, zone_name)


def require_begun(days: Sequence[Day], now: dt.datetime) -> None:
    """Refuse days that lie ahead; of one that has begun, the source knows whether it can be read already.

    :raises ConfigError: with the days.
    """
    ahead = [day for day in days if day.start > now]
    if ahead:
        names = str(ahead[0]) if len(ahead) == 1 else f"{ahead[0]}..{ahead[-1]}"
        raise ConfigError(f"days {names} lie ahead: in {ahead[0].zone} they begin at {ahead[0].start.isoformat()}")


def start_day(start: dt.datetime | None, zone_name: str) -> dt.date | None:
    """Return the first whole day in the zone at or after a DAG's start date: the first that it wants."""
    if start is None:
        return None
    date = start.astimezone(zone(zone_name)).date()
    return date if start_of(date, zone_name) >= start else date + ONE_DAY


def _day_of_key(key: str, zone_name: str) -> Day:
    try:
        moment = dt.datetime.fromisoformat(key)
    except ValueError:
        raise ConfigError(f"partition key {key!r} is not a day: it must look like 2026-10-05, or give days=") from None
    # A key without an offset is a label: the day it names, whatever zone the timetable counts in.
    date = moment.date() if moment.tzinfo is None else moment.astimezone(zone(zone_name)).date()
    starts = moment.time() == dt.time() if moment.tzinfo is None else start_of(date, zone_name) == moment
    if not starts:
        raise ConfigError(f"partition key {key!r} is not the start of a day in {zone_name}: give days=")
    return Day(date=date, zone=zone_name)
