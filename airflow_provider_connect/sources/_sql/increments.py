"""Increments: the rows between two positions of a cursor, read by one run with ``mode``."""

from __future__ import annotations

import datetime as dt
import threading
from typing import NamedTuple

from airflow_provider_connect.clients.sql.database import Database
from airflow_provider_connect.errors import RowsLostError
from airflow_provider_connect.sources._sql.cursors import NO_ROWS, SqlCursor, make_cursor
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
        :raises RowsLostError: the table's numbers or clock were set back.
        """
        cursor = self._make_cursor(database, shape)
        if end is None:
            end = self._find_new_end(database, cursor, begin, user_condition, database_time)
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
        condition = cursor.condition(database, begin, end)
        if condition == NO_ROWS or (begin is None and not self._options.start_mode.loads_existing):
            return RowSelection(NO_ROWS, has_all_rows=False)
        return RowSelection(condition, cursor.has_all_rows(begin, end))

    def _make_cursor(self, database: Database, shape: TableShape) -> SqlCursor:
        return make_cursor(
            database,
            timestamp=shape.timestamp_column,
            incrementing=shape.incrementing_column,
            db_timezone=self._options.clock_zone,
            compares_rows=self._compares_rows,
        )
