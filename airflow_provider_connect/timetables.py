"""Schedules with a data interval for each run: a day, or for increments a part of it.

Airflow stores import paths of :class:`DailyTimetable` and :class:`EveryTimetable`, which never change.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

from airflow.sdk import timezone as airflow_timezone
from airflow.timetables.base import DagRunInfo, DataInterval
from airflow.timetables.interval import CronDataIntervalTimetable

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.param import Param
    from pendulum import DateTime

MIDNIGHT_CRON = "0 0 * * *"
DAYS_PARAM = "days"
"""DAG parameter for the days of a run started by hand."""


class _IntervalTimetable(CronDataIntervalTimetable):
    """Base of the schedules."""

    def is_scheduled(self, logical_date: dt.datetime) -> bool:
        """Return whether a scheduled run has this logical date: the first instant of an interval."""
        moment = airflow_timezone.coerce_datetime(logical_date)
        # Where clocks change, one of the two directions misses the instant before the change.
        return moment in (self._align_to_next(moment), self._align_to_prev(moment))

    def run_info_from_dag_run(self, *, dag_run: DagRun) -> DagRunInfo:
        """Return a run's place in the schedule.

        A manual run with the logical date of a scheduled run replaces it.
        """
        info, date = super().run_info_from_dag_run(dag_run=dag_run), dag_run.logical_date
        if info.data_interval is None or date is None or not self.is_scheduled(date):
            return info
        start = airflow_timezone.coerce_datetime(date)
        return info._replace(data_interval=DataInterval(start, self._get_next(start)))


class DailyTimetable(_IntervalTimetable):
    """One run for each calendar day of a zone. Use :func:`daily`."""

    def __init__(self, timezone: str) -> None:
        from airflow_provider_connect.window import zone  # noqa: PLC0415

        zone(timezone)
        super().__init__(MIDNIGHT_CRON, timezone=timezone)
        self.timezone = timezone
        self.expression = MIDNIGHT_CRON

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DailyTimetable:
        """Build the timetable from :meth:`serialize`."""
        return cls(data["timezone"])

    def serialize(self) -> dict[str, Any]:
        """Return the fields that Airflow stores with the DAG."""
        return {"timezone": self.timezone}

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        """Return the day that a run started by hand loads.

        :param run_after: the logical date, or now.
        """
        start, end = self.manual_interval(run_after, dt.datetime.now(dt.UTC))
        return DataInterval(start=airflow_timezone.coerce_datetime(start), end=airflow_timezone.coerce_datetime(end))

    def manual_interval(self, logical_date: dt.datetime, created: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
        """Return the first instant of a manual run's day, and the first instant after it, in UTC."""
        from airflow_provider_connect.window import Day  # noqa: PLC0415

        if self.is_scheduled(logical_date):
            return self._day_of(logical_date)
        day = Day(date=day_of_manual_run(logical_date, created, self.timezone), zone=self.timezone)
        return day.start, day.end

    def _day_of(self, moment: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
        from airflow_provider_connect.window import Day, zone  # noqa: PLC0415

        day = Day(date=moment.astimezone(zone(self.timezone)).date(), zone=self.timezone)
        return day.start, day.end


class EveryTimetable(_IntervalTimetable):
    """One run for each part of a day, for sources that read increments.

    The parts begin at midnight in the zone. Where clocks change, an hour of the day is missing or comes twice.

    :param period: such as ``15 minutes`` or ``6 hours``. Divides an hour or a day into equal parts.
    :param timezone: IANA zone of the days.
    :raises ConfigError: the period divides no hour or day, the zone is unknown, or its clock changes split the parts.
    """

    def __init__(self, period: str, timezone: str) -> None:
        self.expression = _cron_of_period(period)
        _check_clock_changes(period, timezone)
        super().__init__(self.expression, timezone=timezone)
        self.timezone = timezone
        self.period = period

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> EveryTimetable:
        """Build the timetable from :meth:`serialize`."""
        return cls(data["period"], data["timezone"])

    def serialize(self) -> dict[str, Any]:
        """Return the fields that Airflow stores with the DAG."""
        return {"period": self.period, "timezone": self.timezone}


def _cron_of_period(period: object) -> str:
    match = re.fullmatch(r"(\d{1,4}) (minute|hour)s?", period) if isinstance(period, str) else None
    count, whole = (int(match[1]), {"minute": 60, "hour": 24}[match[2]]) if match else (0, 60)
    if match is None or not count or whole % count or count == whole:
        from airflow_provider_connect.errors import ConfigError  # noqa: PLC0415

        raise ConfigError(
            f"every({period!r}): must be a number of minutes that divides an hour, or of hours that divides a day, "
            "such as '15 minutes' or '1 hour'. For whole days, set schedule=daily()"
        )
    step = "*" if count == 1 else f"*/{count}"
    return f"{step} * * * *" if match[2] == "minute" else f"0 {step} * * *"


def _check_clock_changes(period: str, timezone: str) -> None:
    """Refuse a zone whose clocks change by a part of the period. Only Australia/Lord_Howe changes by half an hour.

    Airflow 3.3's cron schedule finds no next run there: "timetable did not advance past".

    :raises ConfigError: the zone is unknown, or its clock changes split the parts.
    """
    from airflow_provider_connect.window import zone  # noqa: PLC0415

    clock = zone(timezone)
    year = dt.datetime.now(dt.UTC).year
    offsets = [dt.datetime(year, month, 1, tzinfo=clock).utcoffset() or dt.timedelta() for month in range(1, 13)]
    change = max(offsets) - min(offsets)
    count, unit = period.split()
    length = dt.timedelta(minutes=int(count)) if unit.startswith("minute") else dt.timedelta(hours=int(count))
    if change % dt.timedelta(hours=1) and change % length:
        from airflow_provider_connect.errors import ConfigError  # noqa: PLC0415

        minutes = change // dt.timedelta(minutes=1)
        raise ConfigError(
            f"every({period!r}, {timezone!r}): clocks there change by {minutes} minutes. "
            f"Set a period that divides {minutes} minutes, or the zone UTC"
        )


def every(period: str, timezone: str = "UTC") -> EveryTimetable:
    """Return a schedule with a run for each part of a day.

    The run starts when its part is over. Its rows get the day in which the part begins.

    :param period: such as ``15 minutes`` or ``1 hour``. Divides an hour or a day into equal parts.
    :param timezone: the source's IANA zone.
    :raises ConfigError: the period divides no hour or day, the zone is unknown, or its clock changes split the parts.
    """
    from airflow_provider_connect.errors import ConfigError  # noqa: PLC0415

    try:
        return EveryTimetable(period, timezone)
    except ConfigError as error:
        # See errors.raise_from_one_frame.
        raise error.with_traceback(None) from None


def daily(timezone: str = "UTC") -> DailyTimetable:
    """Return a schedule with one run for each calendar day in ``timezone``. The run starts when its day is over.

    In Airflow 3 a bare ``@daily`` has no data interval (``[scheduler] create_cron_data_intervals`` is off).

    :param timezone: the source's IANA zone.
    :raises ConfigError: the zone is unknown.
    """
    from airflow_provider_connect.errors import ConfigError  # noqa: PLC0415

    try:
        return DailyTimetable(timezone)
    except ConfigError as error:
        # See errors.raise_from_one_frame.
        raise error.with_traceback(None) from None


def days_form() -> dict[str, Param]:
    """Return DAG parameters with a field for the days of a run started by hand.

    ``DAG(…, params=days_form())`` adds the field to Airflow's Trigger form: a day, or a range such as
    ``2026-11-01..2026-11-07``. If empty, the run's date decides.
    """
    from airflow.sdk import Param  # noqa: PLC0415  # only DAGs with a form need it

    return {
        DAYS_PARAM: Param(
            "",
            type="string",
            pattern=r"^(\d{4}-\d\d-\d\d(\.\.\d{4}-\d\d-\d\d)?)?$",
            title="Days",
            description="2026-11-01, or 2026-11-01..2026-11-07. Empty: the day of the run's logical date.",
        )
    }


def day_of_manual_run(logical_date: dt.datetime, created: dt.datetime, zone_name: str) -> dt.date:
    """Return the day that a run started by hand loads.

    Midnight in Airflow's default zone means the day of that date in the source's zone, any other instant its day in
    that zone. The day on which the run was created means the day before.

    :param created: creation time of the run.
    """
    from airflow_provider_connect.window import ONE_DAY, zone  # noqa: PLC0415

    date = date_of_logical_date(logical_date, zone_name)
    today = created.astimezone(zone(zone_name)).date()
    return today - ONE_DAY if date == today else date


def date_of_logical_date(logical_date: dt.datetime, zone_name: str) -> dt.date:
    """Return the calendar day that a run's logical date means, by the first two rules of :func:`day_of_manual_run`."""
    from airflow_provider_connect.window import zone  # noqa: PLC0415

    default_zone_time: dt.datetime = airflow_timezone.make_naive(logical_date)  # type: ignore[no-untyped-call]
    is_bare_date = default_zone_time.time() == dt.time()
    return default_zone_time.date() if is_bare_date else logical_date.astimezone(zone(zone_name)).date()
