"""What a poll makes sure of before it reads: that the table still is what was planned, and a replica has the day."""

from __future__ import annotations

import datetime as dt

from airflow_provider_connect.clients.sql.database import Database, SqlColumn, ValueChoices
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.source import PlanGoneError
from airflow_provider_connect.sources._sql.options import SqlOptions
from airflow_provider_connect.sources._sql.table_shape import TableShape
from airflow_provider_connect.window import Day

_AGAIN = "the next try reads it as it is then"


def require_unaltered(database: Database, options: SqlOptions, planned_shape: TableShape) -> None:
    """Hold the tables as they are, and make sure that their columns are read as they were when this was planned.

    A column that has come since is not read, and one that holds more than before, as ``varchar(20)`` after
    ``varchar(10)``, is read as before.

    :raises PlanGoneError: a column is gone, or its values would be read in another way.
    :raises RetriableError: the transaction has begun too early to see the rows.
    """
    try:
        held = {
            column.name: column
            for column in database.lock_tables(options.table_or_query, [each.name for each in planned_shape.columns])
        }
    except ConfigError as error:  # it was there, and could be read, when this was planned
        raise PlanGoneError(f"{error}; it was there when this was planned: {_AGAIN}") from None
    changes = []
    for before in planned_shape.columns:
        now = held.get(before.name)
        if now is None:
            changes.append(f"column {before.name!r} of type {before.type} is gone")
        elif not _is_read_alike(database, before, now, options.value_choices):
            was, is_ = (before.type, now.type) if before.type != now.type else (_told(before), _told(now))
            changes.append(f"column {before.name!r} was {was} and is {is_} now")
    if changes:
        raise PlanGoneError(f"the table was altered since this was planned: {'; '.join(changes)}; {_AGAIN}")


def _is_read_alike(database: Database, before: SqlColumn, now: SqlColumn, choices: ValueChoices) -> bool:
    try:
        first, second = database.read_columns([before, now], choices)
    except ConfigError:  # a type that is not read at all
        return False
    if second.is_nullable and not first.is_nullable:
        return False
    # The others only tell people of it.
    return second._replace(database_type="", advice="", is_nullable=True) == first._replace(
        database_type="", advice="", is_nullable=True
    )


def _told(column: SqlColumn) -> str:
    return f"{column.type} {'NULL' if column.is_nullable else 'NOT NULL'}"


def require_replayed(database: Database, day: Day, now: dt.datetime) -> None:
    """Make sure that a replica has all that its primary had when a day ended. A server that is none always has.

    :param now: by the database's clock.
    :raises RetriableError: it has not, or nobody knows because it does not replicate at the moment.
    """
    lag = replica_lag(database)
    has_until = now - lag
    if has_until < day.end:
        raise RetriableError(
            f"day {day}: the server is a replica that is {lag.total_seconds():.1f} s behind, and the day ended at "
            f"{day.end.isoformat()}: rows that its primary has may be missing. It is read when the replica has caught "
            "up; ready_after on the operator waits without trying"
        )


def replica_lag(database: Database) -> dt.timedelta:
    """Return by how much a replica is behind; zero if it is none, or the user may not see it.

    :raises RetriableError: nobody knows, because it does not replicate at the moment.
    """
    try:
        lag = database.lag_seconds()
    except ConfigError:  # the check before the first run says so
        lag = None
    return dt.timedelta(seconds=lag or 0.0)
