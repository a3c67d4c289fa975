"""Bounds of a day for comparison with a column."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal, NamedTuple

from airflow_provider_connect.clients.sql.database import Database
from airflow_provider_connect.window import ONE_DAY, Day, zone

if TYPE_CHECKING:
    import pyarrow as pa

ColumnClock = Literal["date", "instant", "wall"]
"""Kind of time in a column: a calendar date, an instant, or a local time without a zone."""


class DayBounds(NamedTuple):
    """Bounds of a day: ``first`` included, ``end`` excluded."""

    first: dt.date
    end: dt.date


def clock_of_type(arrow_type: pa.DataType) -> ColumnClock | None:
    """Return the kind of time in a type. None if it has none."""
    from pyarrow import types

    if types.is_date(arrow_type):
        return "date"
    if types.is_timestamp(arrow_type):
        return "wall" if arrow_type.tz is None else "instant"
    return None


def day_bounds(day: Day, clock: ColumnClock, db_timezone: str) -> DayBounds:
    """Return the bounds of a day. One day's end is the next day's start, for every kind of time.

    Dates belong to the day's own zone. If a local time occurs twice, rows from the bound on belong to the later day.

    :param db_timezone: zone of times without a zone.
    """
    if clock == "date" or (clock == "wall" and db_timezone == day.zone):
        # By the calendar: a date begins at its midnight, even if the clock skipped it.
        first, end = day.date, day.date + ONE_DAY
        if clock == "date":
            return DayBounds(first, end)
        return DayBounds(dt.datetime.combine(first, dt.time()), dt.datetime.combine(end, dt.time()))
    if clock == "instant":
        return DayBounds(day.start, day.end)
    database_zone = zone(db_timezone)
    return DayBounds(
        day.start.astimezone(database_zone).replace(tzinfo=None), day.end.astimezone(database_zone).replace(tzinfo=None)
    )


def day_condition(database: Database, column: str, bounds: DayBounds) -> str:
    """Return the condition in SQL.

    :param column: quoted name.
    """
    return f"{column} >= {database.literal(bounds.first)} AND {column} < {database.literal(bounds.end)}"
