"""Days of a run.

The first of these that the run has decides them:

1. the operator's ``days=``
2. the DAG parameter ``days``, which a person fills into Airflow's Trigger form
3. the run's partition key
4. the data interval that a person gave to a manual run
5. the logical date of a manual run, see :func:`.timetables.day_of_manual_run`. Without one, the day before the run was
   created
6. the data interval

A manual run of a schedule with intervals of several days, such as a weekly one, keeps its data interval.

An increment belongs to its run and needs no whole days. Without whole days, its rows get the day of its data interval's
start, of a manual run's logical date or, without both, as for a run by an asset event, of the run's creation.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.timetables import (
    DAYS_PARAM,
    DailyTimetable,
    date_of_logical_date,
    day_of_manual_run,
)
from airflow_provider_connect.window import (
    ONE_DAY,
    Day,
    SourceKind,
    days_between,
    days_of_window,
    first_and_last_date,
    parse_days,
    parse_first_and_last,
    start_of,
    zone,
)

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import DagRunProtocol

    from airflow_provider_connect.source import Source

_MANUAL_RUN_TYPES = ("manual", "operator_triggered", "asset_materialization")
_LONGEST_DAY = dt.timedelta(hours=26)


class RunDays(NamedTuple):
    """Days to move, oldest first.

    :param reason: which part of the run named them, for the task's log.
    :param end: the time whose rows an increment of a part of a day reads at least. None for whole days.
    """

    days: list[Day]
    reason: str
    end: dt.datetime | None = None


@dataclass(frozen=True)
class DayInputs:
    """Values of a task, besides its run, that decide its days.

    :param days: the rendered ``days=``.
    :param form_days: value of the DAG parameter ``days``. Ignored unless it is text.
    :param timetable: timetable of the DAG, which tells an inferred data interval from a person's.
    :param first_day: first day that a manual run may load without naming its days, None for no limit.
    :param kind: kind of the source's rows.
    """

    days: str | None = None
    form_days: object = None
    timetable: Any = None
    first_day: dt.date | None = None
    kind: SourceKind = "day"

    @classmethod
    def from_context(cls, days: str | None, origin: dt.date | None, source: Source, context: Context) -> DayInputs:
        """Collect the inputs in a run.

        :param origin: the task's ``origin=``.
        """
        dag, params = context["dag"], context.get("params") or {}
        first_day = first_day_of_dag(dag.start_date, origin, source.timezone)
        return cls(days, params.get(DAYS_PARAM), dag.timetable, first_day, source.kind)


def resolve_days(inputs: DayInputs, run: DagRunProtocol, zone_name: str, current_time: dt.datetime) -> RunDays:
    """Return the days to move and the reason for them.

    Future days are refused before the list is built: a mistyped year would make hundreds of thousands. A day that has
    begun but not ended is accepted: the source decides whether it can be read.

    :param zone_name: the source's zone, which defines the calendar days.
    :raises ConfigError: the run names no day, its interval is not a whole number of days, a day has not begun, or a
        manual run's date lies before the first day.
    """
    if inputs.days is not None and not isinstance(inputs.days, str):
        raise ConfigError(
            f"days must be text such as '2026-10-05' or '2026-10-05..2026-10-11', not {type(inputs.days)}"
        )
    if inputs.days and inputs.days.strip():
        return RunDays(_parse_begun(inputs.days, zone_name, current_time), "option days=")
    if isinstance(inputs.form_days, str) and inputs.form_days.strip():
        return RunDays(_parse_begun(inputs.form_days, zone_name, current_time), "parameter days of the run")
    if inputs.kind == "increment" and (part := _part_of_day(inputs, run, zone_name)) is not None:
        return _increment_days(part, zone_name, current_time)
    if run.partition_key:
        day = _day_of_key(run.partition_key, zone_name)
        _require_begun(day.date, day.date, zone_name, current_time)
        return RunDays([day], f"partition key {run.partition_key}")
    if _is_manual(run) and not (run.data_interval_start and _has_own_interval(run, inputs.timetable)):
        return _manual_run_days(inputs, run, zone_name, current_time)
    if run.data_interval_start is None or run.data_interval_end is None:
        raise ConfigError(
            f"run {run.run_id!r} has no data interval and no partition key, so its day is unknown. "
            f"Use schedule=daily({zone_name!r}) from airflow_provider_connect.timetables, or set days="
        )
    window = (run.data_interval_start, run.data_interval_end, zone_name)
    first, last = first_and_last_date(*window)
    _require_begun(first, last, zone_name, current_time)
    if _is_manual(run):
        _require_first_day(first, inputs.first_day)
    start, end = run.data_interval_start.isoformat(), run.data_interval_end.isoformat()
    return RunDays(days_of_window(*window), f"data interval {start} to {end}")


class _PartOfDay(NamedTuple):
    """Time that a run of an increment stands for, if it is no whole day."""

    moment: dt.datetime
    reason: str
    end: dt.datetime


def _part_of_day(inputs: DayInputs, run: DagRunProtocol, zone_name: str) -> _PartOfDay | None:
    """Return the part of a day that a run stands for. None if the run names whole days."""
    if run.partition_key:
        moment = _moment_of_key(run.partition_key, zone_name)
        if moment is None or _is_start_of_day(moment, zone_name):
            return None
        return _PartOfDay(moment, f"partition key {run.partition_key}", moment)
    if _is_manual(run) and not (run.data_interval_start and _has_own_interval(run, inputs.timetable)):
        return None if isinstance(inputs.timetable, DailyTimetable) else _part_of_manual_run(run, zone_name)
    return _part_of_interval(run, zone_name)


def _part_of_manual_run(run: DagRunProtocol, zone_name: str) -> _PartOfDay:
    if run.logical_date is None:
        return _PartOfDay(run.run_after, f"manual run, created {run.run_after.isoformat()}", run.run_after)
    start = start_of(date_of_logical_date(run.logical_date, zone_name), zone_name)
    return _PartOfDay(start, f"logical date {run.logical_date.isoformat()} of the manual run", run.run_after)


def _part_of_interval(run: DagRunProtocol, zone_name: str) -> _PartOfDay | None:
    start, end = run.data_interval_start, run.data_interval_end
    if start is None or end is None:
        reason = f"run without a data interval, created {run.run_after.isoformat()}"
        return _PartOfDay(run.run_after, reason, run.run_after)
    if start < end and _is_start_of_day(start, zone_name) and _is_start_of_day(end, zone_name):
        return None
    return _PartOfDay(start, f"data interval {start.isoformat()} to {end.isoformat()}", end)


def _increment_days(part: _PartOfDay, zone_name: str, current_time: dt.datetime) -> RunDays:
    date = part.moment.astimezone(zone(zone_name)).date()
    _require_begun(date, date, zone_name, current_time)
    return RunDays([Day(date=date, zone=zone_name)], part.reason, part.end)


def _is_start_of_day(instant: dt.datetime, zone_name: str) -> bool:
    return start_of(instant.astimezone(zone(zone_name)).date(), zone_name) == instant


def _moment_of_key(key: str, zone_name: str) -> dt.datetime | None:
    """Return the time that a partition key names, in the zone. None if it names none."""
    try:
        moment = dt.datetime.fromisoformat(key)
    except ValueError:
        return None
    return moment.replace(tzinfo=zone(zone_name)) if moment.tzinfo is None else moment.astimezone(zone(zone_name))


def _parse_begun(text: str, zone_name: str, current_time: dt.datetime) -> list[Day]:
    _require_begun(*parse_first_and_last(text), zone_name, current_time)
    return parse_days(text, zone_name)


def _manual_run_days(inputs: DayInputs, run: DagRunProtocol, zone_name: str, current_time: dt.datetime) -> RunDays:
    date = _date_of_manual_run(inputs.timetable, run, zone_name, current_time)
    _require_begun(date, date, zone_name, current_time)
    _require_first_day(date, inputs.first_day)
    days = [day for day in days_between(date, date, zone_name) if day.hours > 0]
    if not days:
        raise ConfigError(f"{zone_name} never had {date} (its calendar skipped that date). Set another logical date")
    if run.logical_date is None:
        return RunDays(days, f"manual run without a logical date, created {run.run_after.isoformat()}")
    return RunDays(days, f"logical date {run.logical_date.isoformat()} of the manual run")


def _date_of_manual_run(timetable: Any, run: DagRunProtocol, zone_name: str, current_time: dt.datetime) -> dt.date:
    """Return the day that a manual run loads.

    :raises ConfigError: the run replaces the scheduled run of a day that is not over.
    """
    if run.logical_date is None:
        return _day_before(run.run_after, zone_name)
    date = run.logical_date.astimezone(zone(zone_name)).date()
    if not isinstance(timetable, DailyTimetable) or not timetable.is_scheduled(run.logical_date):
        return day_of_manual_run(run.logical_date, run.run_after, zone_name)
    # Airflow creates one run for each logical date, so no other run will load this day.
    if start_of(date, zone_name) <= current_time < start_of(date + ONE_DAY, zone_name):
        raise ConfigError(
            f"day {date} is not over, and run {run.run_id!r} replaces its scheduled run. Clear this run when the day "
            f"is over. To load {date - ONE_DAY} now, trigger a run with that date, or without a date"
        )
    return date


def _day_before(moment: dt.datetime, zone_name: str) -> dt.date:
    return moment.astimezone(zone(zone_name)).date() - ONE_DAY


def _is_manual(run: DagRunProtocol) -> bool:
    return getattr(run.run_type, "value", run.run_type) in _MANUAL_RUN_TYPES


def _has_own_interval(run: DagRunProtocol, timetable: Any) -> bool:
    """Return whether a manual run's data interval names its days: a person gave it, or it has several days."""
    start, end = run.data_interval_start, run.data_interval_end
    if start is None or end is None or start == end:
        return False
    if end - start > _LONGEST_DAY:
        return True
    moments = [moment for moment in (run.logical_date, run.run_after) if moment is not None]
    return (start, end) not in [_inferred_interval(timetable, moment, run.run_after) for moment in moments]


def _inferred_interval(timetable: Any, moment: dt.datetime, created: dt.datetime) -> tuple[Any, Any] | None:
    """Return the data interval that Airflow gives a manual run, or None if unknown."""
    if isinstance(timetable, DailyTimetable):
        return timetable.manual_interval(moment, created)
    # A DAG file's timetable has the definition alone. Airflow's scheduler infers with the class of the same name.
    from airflow.timetables.interval import CronDataIntervalTimetable  # noqa: PLC0415  # only for manual runs

    if not hasattr(timetable, "expression"):
        delta = getattr(timetable, "delta", None)
        return None if delta is None else (moment - delta, moment)
    from airflow.sdk.timezone import coerce_datetime  # noqa: PLC0415

    core = CronDataIntervalTimetable(timetable.expression, timezone=timetable.timezone)
    interval = core.infer_manual_data_interval(run_after=coerce_datetime(moment))
    return interval.start, interval.end


def _require_first_day(date: dt.date, first_day: dt.date | None) -> None:
    if first_day is not None and date < first_day:
        raise ConfigError(
            f"day {date} of this manual run lies before {first_day}, the first day by the DAG's start_date and "
            f"origin=. Run 'airflow backfill create' for earlier days, or name them with days={str(date)!r}"
        )


def _require_begun(first: dt.date, last: dt.date, zone_name: str, current_time: dt.datetime) -> None:
    if start_of(last, zone_name) <= current_time:
        return
    first_future_day = max(first, current_time.astimezone(zone(zone_name)).date())
    while (start := start_of(first_future_day, zone_name)) <= current_time:
        first_future_day += ONE_DAY
    days = str(last) if first_future_day == last else f"{first_future_day}..{last}"
    raise ConfigError(f"days {days} are in the future. In {zone_name} they begin at {start.isoformat()}")


def ready_at(
    days: Sequence[Day],
    ready_after: dt.timedelta | None,
    current_time: dt.datetime,
    end: dt.datetime | None = None,
) -> dt.datetime | None:
    """Return the time from which the days may be polled. None if they may be polled now.

    :param ready_after: wait after the last day's end. None never waits.
    :param end: as :attr:`RunDays.end`.
    """
    if ready_after is None:
        return None
    moment = (end or days[-1].end) + ready_after
    return moment if moment > current_time else None


def format_days(days: Sequence[Day]) -> str:
    """Format consecutive days as ``2026-10-05`` or ``2026-10-05..2026-10-11``."""
    return str(days[0]) if len(days) == 1 else f"{days[0]}..{days[-1]}"


def first_whole_day(start: dt.datetime | None, zone_name: str) -> dt.date | None:
    """Return the first day in the zone that begins at or after the DAG's start date, or None."""
    if start is None:
        return None
    date = start.astimezone(zone(zone_name)).date()
    return date if start_of(date, zone_name) >= start else date + ONE_DAY


def first_requested_day(start: dt.datetime | None, source: Source) -> dt.date | None:
    """Return the first day that a DAG requests of a source: a whole one, for increments the day of its start date."""
    if start is None or source.kind != "increment":
        return first_whole_day(start, source.timezone)
    return start.astimezone(zone(source.timezone)).date()


def first_day_of_dag(start: dt.datetime | None, origin: dt.date | None, zone_name: str) -> dt.date | None:
    """Return the earlier of the DAG's first whole day and the operator's origin, or None."""
    return min((day for day in (first_whole_day(start, zone_name), origin) if day is not None), default=None)


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
