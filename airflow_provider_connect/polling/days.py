"""Which days can be polled: those of the source's own zone that are over, and for snapshots those that have begun."""

from __future__ import annotations

import datetime as dt

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.window import Day

_SOON = dt.timedelta(hours=1)
_LATE = dt.timedelta(days=1)


def require_over(day: Day, zone: str, current_time: dt.datetime | None = None) -> None:
    """Make sure that a day is one of ``zone`` and has ended.

    :param now: the present instant; the system's clock by default.
    :raises ConfigError: it is another zone's, or ends later than in an hour.
    :raises RetriableError: it ends within the hour: a clock may be off.
    """
    if day.zone != zone:
        raise ConfigError(f"day {day} is one of zone {day.zone}; this source counts in {zone}")
    time_left = day.end - (current_time or dt.datetime.now(dt.UTC))
    message = f"day {day} is not over yet in {day.zone}: it ends at {day.end.isoformat()}"
    if time_left > _SOON:
        raise ConfigError(message)
    if time_left > dt.timedelta(0):
        raise RetriableError(message, retry_after_seconds=time_left.total_seconds())


def require_begun(day: Day, zone: str, current_time: dt.datetime) -> None:
    """Make sure that a day is one of ``zone`` and does not lie ahead: a snapshot may be taken while its day lasts.

    :raises ConfigError: it is another zone's, or begins later.
    """
    if day.zone != zone:
        raise ConfigError(f"day {day} is one of zone {day.zone}; this source counts in {zone}")
    if day.start > current_time:
        raise ConfigError(f"day {day} lies ahead in {zone}: it begins at {day.start.isoformat()}")


def require_recent(day: Day, current_time: dt.datetime, subject: str) -> None:
    """Make sure that what there is now may be taken for what a day left: it ended a day ago at most.

    :param what_there_is: such as "the API has".
    :raises ConfigError: it ended earlier.
    """
    if current_time - day.end > _LATE:
        raise ConfigError(
            f"day {day}: snapshot='daily' takes what {subject} now, and the day ended more than a day ago: what "
            "was there then cannot be had any more"
        )
