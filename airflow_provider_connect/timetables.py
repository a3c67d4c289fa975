"""Schedules whose every run has the data interval of exactly one day."""

from __future__ import annotations

from airflow.sdk import CronDataIntervalTimetable


def daily(timezone: str = "UTC") -> CronDataIntervalTimetable:
    """Return a schedule of one run for each calendar day in ``timezone``, started when that day is over.

    In Airflow 3 a bare ``@daily`` has no data interval (``[scheduler] create_cron_data_intervals`` is off), so its runs
    do not say which day they are for.

    :param timezone: the source's IANA zone; a day is 23 or 25 hours long where its clocks change.
    """
    return CronDataIntervalTimetable("0 0 * * *", timezone=timezone)
