"""Checks before a read: the table is as planned, and a replica has the whole day."""

from __future__ import annotations

import datetime as dt

from airflow_provider_connect.clients.sql.database import Database, SqlColumn, ValueChoices
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.source import PlanGoneError
from airflow_provider_connect.sources._sql.options import SqlOptions
from airflow_provider_connect.sources._sql.table_shape import TableShape
from airflow_provider_connect.window import Day

_NEXT_TRY = "The next try reads the new table"


def require_unaltered(database: Database, options: SqlOptions, planned_shape: TableShape) -> None:
    """Lock the tables, and require that their columns are read as planned.

    New columns are ignored. A longer type of the same kind passes, such as ``varchar(20)`` after ``varchar(10)``.

    :raises PlanGoneError: a column is gone, or its values would be read differently.
    :raises RetriableError: the table was rewritten after the transaction began.
    """
    try:
        current_columns = {
            column.name: column
            for column in database.lock_tables(
                options.table_or_query, [shape_column.name for shape_column in planned_shape.columns]
            )
        }
    except ConfigError as error:  # the table existed and was readable when the run was planned
        raise PlanGoneError(f"{error}. It existed when the run was planned. {_NEXT_TRY}") from None
    changes = []
    for planned_column in planned_shape.columns:
        current_column = current_columns.get(planned_column.name)
        if current_column is None:
            changes.append(f"column {planned_column.name!r} of type {planned_column.type} is gone")
        elif not _reads_the_same(database, planned_column, current_column, options.value_choices):
            old_type, new_type = (
                (planned_column.type, current_column.type)
                if planned_column.type != current_column.type
                else (_describe_column(planned_column), _describe_column(current_column))
            )
            changes.append(f"column {planned_column.name!r} was {old_type} and is {new_type} now")
    if changes:
        raise PlanGoneError(f"the table was altered since this was planned: {', '.join(changes)}. {_NEXT_TRY}")


def _reads_the_same(
    database: Database, planned_column: SqlColumn, current_column: SqlColumn, choices: ValueChoices
) -> bool:
    try:
        planned_read, current_read = database.read_columns([planned_column, current_column], choices)
    except ConfigError:  # an unsupported type
        return False
    if current_read.is_nullable and not planned_read.is_nullable:
        return False
    # The other fields are only for messages.
    return current_read._replace(database_type="", advice="", is_nullable=True) == planned_read._replace(
        database_type="", advice="", is_nullable=True
    )


def _describe_column(column: SqlColumn) -> str:
    return f"{column.type} {'NULL' if column.is_nullable else 'NOT NULL'}"


def require_replayed(database: Database, day: Day, database_time: dt.datetime) -> None:
    """Raise RetriableError if a replica may lack rows of a day, or replication is stopped."""
    lag = replica_lag(database)
    has_until = database_time - lag
    if has_until < day.end:
        raise RetriableError(
            f"day {day}: the server is a replica that is {lag.total_seconds():.1f} s behind, and the day ended at "
            f"{day.end.isoformat()}: some of its rows may be missing. It is read when the replica has caught "
            "up. To save tries, raise ready_after on the operator"
        )


def replica_lag(database: Database) -> dt.timedelta:
    """Return a replica's lag, or zero if unknown.

    :raises RetriableError: replication is stopped.
    """
    try:
        lag = database.lag_seconds()
    except ConfigError:  # the preflight check reports it
        lag = None
    return dt.timedelta(seconds=lag or 0.0)
