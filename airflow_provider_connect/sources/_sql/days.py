"""The bounds of a day as a column is compared with them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal, NamedTuple

from airflow_provider_connect.clients.sql.database import Database
from airflow_provider_connect.window import ONE_DAY, Day, zone

if TYPE_CHECKING:
    import pyarrow as pa

Clock = Literal["date", "instant", "wall"]
"""What a column says of a row: a calendar date, an instant, or what a clock on the wall showed."""


class Bounds(NamedTuple):
    """From the first, included, to the second, excluded."""

    first: dt.date
    end: dt.date


def clock_of(kind: pa.DataType) -> Clock | None:
    """Return how a column of a type tells the day; None if it does not."""
    from pyarrow import types

    if types.is_date(kind):
        return "date"
    if types.is_timestamp(kind):
        return "wall" if kind.tz is None else "instant"
    return None


def bounds(day: Day, clock: Clock, db_timezone: str) -> Bounds:
    """Return the bounds of a day. Those of one day's end are those of the next day's start, whatever the clock.

    A date is one of the day's own zone. A clock on the wall may show a time twice: then all that it showed from the
    bound on belongs to the later day.

    :param db_timezone: whose clock a column without a zone shows.
    """
    if clock == "date" or (clock == "wall" and db_timezone == day.zone):
        # By the calendar: a midnight that was skipped is still where its date begins.
        first, end = day.date, day.date + ONE_DAY
        if clock == "date":
            return Bounds(first, end)
        return Bounds(dt.datetime.combine(first, dt.time()), dt.datetime.combine(end, dt.time()))
    if clock == "instant":
        return Bounds(day.start, day.end)
    there = zone(db_timezone)
    return Bounds(day.start.astimezone(there).replace(tzinfo=None), day.end.astimezone(there).replace(tzinfo=None))


def condition(database: Database, column: str, found: Bounds) -> str:
    """Return the condition in SQL.

    :param column: quoted already.
    """
    return f"{column} >= {database.literal(found.first)} AND {column} < {database.literal(found.end)}"
