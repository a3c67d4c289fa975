"""Which days can be polled: those of the source's own zone that are over."""

from __future__ import annotations

import datetime as dt

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.window import Day

_SOON = dt.timedelta(hours=1)


def require_over(day: Day, zone: str, now: dt.datetime | None = None) -> None:
    """Make sure that a day is one of ``zone`` and has ended.

    :param now: the present instant; the system's clock by default.
    :raises ConfigError: it is another zone's, or ends later than in an hour.
    :raises RetriableError: it ends within the hour: a clock may be off.
    """
    if day.zone != zone:
        raise ConfigError(f"day {day} is one of zone {day.zone}; this source counts in {zone}")
    rest = day.end - (now or dt.datetime.now(dt.UTC))
    message = f"day {day} is not over yet in {day.zone}: it ends at {day.end.isoformat()}"
    if rest > _SOON:
        raise ConfigError(message)
    if rest > dt.timedelta(0):
        raise RetriableError(message, retry_after_seconds=rest.total_seconds())
