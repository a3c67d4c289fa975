"""Schedules with a data interval of exactly one day for each run."""

from __future__ import annotations

from airflow.sdk import CronDataIntervalTimetable


def daily(timezone: str = "UTC") -> CronDataIntervalTimetable:
    """Return a schedule with one run for each calendar day in ``timezone``. The run starts when its day is over.

    In Airflow 3 a bare ``@daily`` has no data interval (``[scheduler] create_cron_data_intervals`` is off), so its runs
    name no day.

    :param timezone: the source's IANA zone. Days with a clock change have 23 or 25 hours.
    """
    return CronDataIntervalTimetable("0 0 * * *", timezone=timezone)
