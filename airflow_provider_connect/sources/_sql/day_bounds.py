"""The bounds of a day as a column is compared with them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal, NamedTuple

from airflow_provider_connect.clients.sql.database import Database
from airflow_provider_connect.window import ONE_DAY, Day, zone

if TYPE_CHECKING:
    import pyarrow as pa

ColumnClock = Literal["date", "instant", "wall"]
"""What a column says of a row: a calendar date, an instant, or what a clock on the wall showed."""


class DayBounds(NamedTuple):
    """From the first, included, to the second, excluded."""

    first: dt.date
    end: dt.date


def clock_of_type(arrow_type: pa.DataType) -> ColumnClock | None:
    """Return how a column of a type tells the day; None if it does not."""
    from pyarrow import types

    if types.is_date(arrow_type):
        return "date"
    if types.is_timestamp(arrow_type):
        return "wall" if arrow_type.tz is None else "instant"
    return None


def day_bounds(day: Day, clock: ColumnClock, db_timezone: str) -> DayBounds:
    """Return the bounds of a day. Those of one day's end are those of the next day's start, whatever the clock.

    A date is one of the day's own zone. A clock on the wall may show a time twice: then all that it showed from the
    bound on belongs to the later day.

    :param db_timezone: whose clock a column without a zone shows.
    """
    if clock == "date" or (clock == "wall" and db_timezone == day.zone):
        # By the calendar: a midnight that was skipped is still where its date begins.
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

    :param column: quoted already.
    """
    return f"{column} >= {database.literal(bounds.first)} AND {column} < {database.literal(bounds.end)}"
