"""Days of a run: the operator's ``days=``, else the run's partition key, else its data interval.

The logical date is not used: a manual run with the logical date D has the data interval of the day before D.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.window import (
    ONE_DAY,
    Day,
    days_of_window,
    first_and_last_date,
    parse_days,
    parse_first_and_last,
    start_of,
    zone,
)

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol


def resolve_days(days: str | None, run: DagRunProtocol, zone_name: str, current_time: dt.datetime) -> list[Day]:
    """Return the days to move, oldest first.

    Future days are refused before the list is built: a mistyped year would make hundreds of thousands. Whether a day
    that has begun but not ended can be read is the source's decision.

    :param zone_name: the source's zone, which defines the calendar days.
    :raises ConfigError: the run names no day, its interval is not a whole number of days, or a day has not begun.
    """
    if days is not None and not isinstance(days, str):
        raise ConfigError(f"days must be text such as '2026-10-05' or '2026-10-05..2026-10-11', not {type(days)}")
    if days and days.strip():
        _require_begun(*parse_first_and_last(days), zone_name, current_time)
        return parse_days(days, zone_name)
    if run.partition_key:
        day = _day_of_key(run.partition_key, zone_name)
        _require_begun(day.date, day.date, zone_name, current_time)
        return [day]
    if run.data_interval_start is None or run.data_interval_end is None:
        raise ConfigError(
            f"run {run.run_id!r} has no data interval and no partition key, so its day is unknown. "
            f"Use schedule=daily({zone_name!r}) from airflow_provider_connect.timetables, trigger with "
            "data_interval_start and data_interval_end, or set days="
        )
    window = (run.data_interval_start, run.data_interval_end, zone_name)
    _require_begun(*first_and_last_date(*window), zone_name, current_time)
    return days_of_window(*window)


def _require_begun(first: dt.date, last: dt.date, zone_name: str, current_time: dt.datetime) -> None:
    if start_of(last, zone_name) <= current_time:
        return
    first_future_day = max(first, current_time.astimezone(zone(zone_name)).date())
    while (start := start_of(first_future_day, zone_name)) <= current_time:
        first_future_day += ONE_DAY
    days = str(last) if first_future_day == last else f"{first_future_day}..{last}"
    raise ConfigError(f"days {days} are in the future. In {zone_name} they begin at {start.isoformat()}")


def ready_at(days: Sequence[Day], ready_after: dt.timedelta | None, current_time: dt.datetime) -> dt.datetime | None:
    """Return the time from which the days may be polled. None if they may be polled now.

    :param ready_after: wait after the last day's end. None never waits.
    """
    if ready_after is None:
        return None
    moment = days[-1].end + ready_after
    return moment if moment > current_time else None


def format_days(days: Sequence[Day]) -> str:
    """Format consecutive days as ``2026-10-05`` or ``2026-10-05..2026-10-11``."""
    return str(days[0]) if len(days) == 1 else f"{days[0]}..{days[-1]}"


def first_whole_day(start: dt.datetime | None, zone_name: str) -> dt.date | None:
    """Return the first day in the zone that begins at or after the DAG's start date. None without a start date."""
    if start is None:
        return None
    date = start.astimezone(zone(zone_name)).date()
    return date if start_of(date, zone_name) >= start else date + ONE_DAY


def _day_of_key(key: str, zone_name: str) -> Day:
    try:
        moment = dt.datetime.fromisoformat(key)
    except ValueError:
        raise ConfigError(f"partition key {key!r} is not a day. Use a key such as 2026-10-05, or set days=") from None
    # A key without a zone names a day, regardless of the timetable's zone.
    date = moment.date() if moment.tzinfo is None else moment.astimezone(zone(zone_name)).date()
    starts = moment.time() == dt.time() if moment.tzinfo is None else start_of(date, zone_name) == moment
    if not starts:
        raise ConfigError(f"partition key {key!r} is not the start of a day in {zone_name}. Set days=")
    return Day(date=date, zone=zone_name)
