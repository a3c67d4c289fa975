"""Detects a lost position: the table's new rows would come before rows already read.

A position is lost if the column's counter or the database's clock is set back: the table was emptied, restored or moved
to another server. Missing rows prove nothing, since an emptied table may continue its numbers.
"""

from __future__ import annotations

import datetime as dt

from airflow_provider_connect.clients.sql.database import ColumnCounter, Database, Query, Table
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._sql.cursors import SqlCursor

CLOCK_TOLERANCE = dt.timedelta(minutes=1)
"""Allowed difference between the clocks of a server and its replacement."""


def reset_reason(
    database: Database, cursor: SqlCursor, table_or_query: Table | Query, position: str, database_time: dt.datetime
) -> str:
    """Return the reason why new rows would be missed, or "".

    :param position: last position read, without later rows in the table.
    """
    values, column = cursor.parse_position(position), cursor.columns[0]
    if not values:
        return ""
    position_time = cursor.position_time(position)
    if position_time is not None:
        ahead = position_time - database_time
        return f"the database's clock, as shown by {column.name!r}, was set back" if ahead > CLOCK_TOLERANCE else ""
    if not isinstance(table_or_query, Table):
        return ""
    greatest, counter = greatest_and_counter(database, table_or_query, column.name)
    if counter is None or counter.last_number is None or counter.last_number >= int(str(values[0])):
        return ""
    # A row with a number that the counter did not give, as on a server that receives another server's rows, shows that
    # the counter does not give the next numbers either.
    if greatest > counter.last_number:
        return ""
    return f"{counter.name}, which gives {column.name!r} its numbers, was set back before the last number that was read"


def greatest_and_counter(database: Database, table: Table, column: str) -> tuple[int, ColumnCounter | None]:
    """Return a column's greatest number (0 if none) and its counter."""
    (greatest,) = database.one_row(database.select([f"max({database.quote(column)})"], database.relation(table)))
    text = str(greatest)
    return (int(text) if text.lstrip("-").isdecimal() else 0), readable_counter(database, table, column)


def readable_counter(database: Database, table: Table, column: str) -> ColumnCounter | None:
    """Return the counter of a column's numbers. None if unreadable."""
    try:
        return database.column_counter(table, column)
    except ConfigError:  # a server that only resembles the one whose catalog is queried
        return None
