"""Checks that a day can be polled."""

from __future__ import annotations

import datetime as dt

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.window import Day

_SOON = dt.timedelta(hours=1)
_LATE = dt.timedelta(days=1)


def require_over(day: Day, zone: str, current_time: dt.datetime | None = None) -> None:
    """Check that a day is in ``zone`` and over.

    :raises ConfigError: another zone, or it ends in more than an hour.
    :raises RetriableError: it ends within the hour.
    """
    if day.zone != zone:
        raise ConfigError(f"day {day} is in zone {day.zone}, but this source uses {zone}")
    time_left = day.end - (current_time or dt.datetime.now(dt.UTC))
    message = f"day {day} is not over yet in {day.zone}: it ends at {day.end.isoformat()}"
    if time_left > _SOON:
        raise ConfigError(message)
    if time_left > dt.timedelta(0):
        raise RetriableError(message, retry_after_seconds=time_left.total_seconds())


def require_begun(day: Day, zone: str, current_time: dt.datetime) -> None:
    """Check that a day is in ``zone`` and has begun.

    :raises ConfigError: another zone, or a later begin.
    """
    if day.zone != zone:
        raise ConfigError(f"day {day} is in zone {day.zone}, but this source uses {zone}")
    if day.start > current_time:
        raise ConfigError(f"day {day} is in the future in {zone}: it begins at {day.start.isoformat()}")


def require_recent(day: Day, current_time: dt.datetime, subject: str) -> None:
    """Check that a day ended at most 24 hours ago.

    :param subject: for the message.
    :raises ConfigError: it ended earlier.
    """
    if current_time - day.end > _LATE:
        raise ConfigError(
            f"day {day}: snapshot='daily' stores the rows that {subject} now, but the day ended more than a day ago. "
            "Its old state is gone"
        )
