"""Increments: the rows between two positions of a cursor, read by one run with ``mode``."""

from __future__ import annotations

import datetime as dt
import threading
from typing import NamedTuple

from airflow_provider_connect.clients.sql.database import Database
from airflow_provider_connect.errors import DataError, RowsLostError
from airflow_provider_connect.sources._sql.cursors import NO_ROWS, START_POSITION, SqlCursor, make_cursor
from airflow_provider_connect.sources._sql.guards import replica_lag
from airflow_provider_connect.sources._sql.options import SqlOptions
from airflow_provider_connect.sources._sql.reset_detection import reset_reason
from airflow_provider_connect.sources._sql.table_shape import TableShape
from airflow_provider_connect.window import Day


class RowSelection(NamedTuple):
    """The rows that a day reads.

    :param condition: SQL condition. "" for all rows.
    :param has_all_rows: True if they begin with the table's first row.
    """

    condition: str
    has_all_rows: bool


class IncrementTracker:
    """Begin and end positions of a poller's days. Thread-safe.

    :param compares_rows: see :func:`.chunks.chunk_conditions`.
    """

    def __init__(self, options: SqlOptions, *, compares_rows: bool) -> None:
        self._options = options
        self._compares_rows = compares_rows
        self._lock = threading.Lock()
        self._spans: dict[Day, tuple[str | None, str]] = {}

    def has_span(self, day: Day) -> bool:
        """Return True if a day's positions are set."""
        with self._lock:
            return day in self._spans

    def is_finished(self, begin: str | None, end: str | None) -> bool:
        """Return True if ``snapshot_mode`` ended the stream before this day.

        :param end: None for a new day.
        """
        return end is None and begin is not None and not self._options.start_mode.loads_new

    def set_span(self, day: Day, begin: str | None, end: str) -> str:
        """Store a day's positions. Returns the end."""
        with self._lock:
            self._spans[day] = begin, end
        return end

    def find_end(
        self,
        database: Database,
        shape: TableShape,
        begin: str | None,
        end: str | None,
        *,
        user_condition: str,
        database_time: dt.datetime,
    ) -> str:
        """Return the end position of an increment. It lies before ``begin`` if all rows are read again.

        :param end: known end, to be validated. None to find the newest row.
        :param user_condition: SQL of the option ``where``. "" for all rows.
        :raises ConfigError: the cursor's columns cannot be followed or have changed.
        :raises DataError: with ``nulls="fail"``, rows have no cursor value.
        :raises RowsLostError: the table's numbers or clock were set back.
        """
        cursor = self._make_cursor(database, shape)
        if end is None:
            if self._options.nulls == "fail":
                self._require_no_nulls(database, cursor, user_condition)
            row_condition = _join(user_condition, self._bounds(database, cursor))
            end = self._find_new_end(database, cursor, begin, row_condition, database_time)
        cursor.condition(database, begin, end)  # raises ConfigError if a position does not fit
        return end

    def _find_new_end(
        self, database: Database, cursor: SqlCursor, begin: str | None, user_condition: str, database_time: dt.datetime
    ) -> str:
        options = self._options
        relation = database.relation(options.table_or_query)
        until = database_time - dt.timedelta(seconds=options.timestamp_delay_seconds)
        if options.timestamp_column is not None:
            until -= replica_lag(database)  # rows that a replica lacks are like uncommitted rows
        end = cursor.find_end(database, relation, begin, row_condition=user_condition, until=until)
        if (
            begin is None
            or end != begin
            or not (reason := reset_reason(database, cursor, options.table_or_query, begin, database_time))
        ):
            return end
        if not options.start_mode.reloads_when_lost:
            raise RowsLostError(
                f"{options.stream_key} cannot be followed any more: {reason}, so new rows would be missed. Set it "
                "forward again, set snapshot_mode='when_needed' to load all rows again, or load into a new target"
            )
        return cursor.find_end(database, relation, None, row_condition=user_condition, until=until)

    def select_rows(self, database: Database, shape: TableShape, day: Day) -> RowSelection:
        """Return the rows that a day reads, after :meth:`set_span`."""
        with self._lock:
            begin, end = self._spans[day]
        cursor = self._make_cursor(database, shape)
        options = self._options
        if begin is None and not options.start_mode.loads_existing:
            return RowSelection(NO_ROWS, has_all_rows=False)
        condition = cursor.condition(database, begin, end, options.overlap)
        has_rows, has_all_rows = condition != NO_ROWS, cursor.has_all_rows(begin, end)
        if has_rows:
            condition = _join(condition, self._bounds(database, cursor))
        if options.nulls == "first" and (begin is None or (has_rows and has_all_rows and begin != START_POSITION)):
            condition = f"({condition}) OR {cursor.is_null(database)}"
        return RowSelection(condition, has_rows and has_all_rows)

    def _bounds(self, database: Database, cursor: SqlCursor) -> str:
        options = self._options
        return cursor.bounds(database, start=options.start, end=options.end, zone_name=options.zone)

    def _require_no_nulls(self, database: Database, cursor: SqlCursor, user_condition: str) -> None:
        relation = database.relation(self._options.table_or_query)
        condition = _join(user_condition, cursor.is_null(database))
        if database.rows(database.select(["1"], relation, where=condition, limit=1)):
            names = ", ".join(column.name for column in cursor.columns)
            raise DataError(
                f"{self._options.stream_key} has rows without a value in {names}, which no run would read. Correct "
                "them, or set nulls='leave_out'"
            )

    def _make_cursor(self, database: Database, shape: TableShape) -> SqlCursor:
        return make_cursor(
            database,
            timestamp=shape.timestamp_column,
            incrementing=shape.incrementing_column,
            db_timezone=self._options.clock_zone,
            compares_rows=self._compares_rows,
        )


def _join(first: str, second: str) -> str:
    """Join two SQL conditions, or "", by AND."""
    return " AND ".join(f"({condition})" for condition in (first, second) if condition)
