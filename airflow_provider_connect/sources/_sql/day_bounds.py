"""Begin and end of a day, to compare a date or time column with."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal, NamedTuple

from airflow_provider_connect.clients.sql.database import Database
from airflow_provider_connect.window import ONE_DAY, Day, zone

if TYPE_CHECKING:
    import pyarrow as pa

TimeClock = Literal["date", "instant", "wall"]
"""Kind of time: a calendar date, an instant, or (``wall``) a local time without a zone."""
ColumnClock = TimeClock | Literal["seconds", "milliseconds"]
"""Kind of time, or the unit of whole numbers since 1970-01-01 UTC."""
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
_UNITS = {"seconds": dt.timedelta(seconds=1), "milliseconds": dt.timedelta(milliseconds=1)}


class DayBounds(NamedTuple):
    """Bounds of a day: ``first`` is included, ``end`` excluded."""

    first: dt.date | int
    end: dt.date | int


def clock_of_type(arrow_type: pa.DataType) -> TimeClock | None:
    """Return an Arrow type's kind of time. None for other types."""
    from pyarrow import types

    if types.is_date(arrow_type):
        return "date"
    if types.is_timestamp(arrow_type):
        return "wall" if arrow_type.tz is None else "instant"
    return None


def day_bounds(day: Day, clock: ColumnClock, db_timezone: str) -> DayBounds:
    """Return a day's bounds as dates, instants, local times or numbers. Each day ends where the next begins.

    If the clock shows a bound twice, all rows with that local time belong to the later day.

    :param db_timezone: zone of local times. Dates are in the day's own zone.
    """
    if clock == "date" or (clock == "wall" and db_timezone == day.zone):
        # By the calendar: a date begins at its midnight, even if the clock skipped it.
        first, end = day.date, day.date + ONE_DAY
        if clock == "date":
            return DayBounds(first, end)
        return DayBounds(dt.datetime.combine(first, dt.time()), dt.datetime.combine(end, dt.time()))
    if clock == "instant":
        return DayBounds(day.start, day.end)
    if clock in _UNITS:
        return DayBounds((day.start - _EPOCH) // _UNITS[clock], (day.end - _EPOCH) // _UNITS[clock])
    database_zone = zone(db_timezone)
    return DayBounds(
        day.start.astimezone(database_zone).replace(tzinfo=None), day.end.astimezone(database_zone).replace(tzinfo=None)
    )


def day_condition(database: Database, column: str, bounds: DayBounds) -> str:
    """Return the SQL condition for a day's rows.

    :param column: quoted.
    """
    return f"{column} >= {database.literal(bounds.first)} AND {column} < {database.literal(bounds.end)}"
