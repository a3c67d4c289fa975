"""Checks a source against its database before the first run, with a few short statements."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, field

from airflow_provider_connect.clients.sql.database import Database, Query, RowSecurity, SqlColumn
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.clients.sql.sqlite_types import is_decimal, is_decimal_of
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.polling.findings import Finding, Level, PreflightReport, level_of
from airflow_provider_connect.sources._sql.connections import validate_connection
from airflow_provider_connect.sources._sql.day_bounds import ColumnClock
from airflow_provider_connect.sources._sql.options import CLOCK_QUERIES, JDBC, SQLITE, SqlOptions
from airflow_provider_connect.sources._sql.reset_detection import greatest_and_counter, readable_counter
from airflow_provider_connect.sources._sql.table_shape import (
    RowLayout,
    TableShape,
    day_column_clock,
    inspect_table,
    require_readable,
    row_layout,
    unsplit_reason,
)
from airflow_provider_connect.sources._sql.zones import database_zone
from airflow_provider_connect.window import zone as known_zone

_MAX_CLOCK_DIFFERENCE_SECONDS = 5.0

_ROWS_LOOKED_AT = 10_000
_CLOCK_VALUES = {
    "date": "dates",
    "instant": "instants",
    "seconds": "seconds since 1970",
    "milliseconds": "milliseconds since 1970",
}
_UTC_NAMES = ("UTC", "GMT", "Etc/UTC")


def check(options: SqlOptions, connection: Connection) -> PreflightReport:
    """Return the findings about options, connection, table and server."""
    run = _SqlPreflight(options, connection)
    try:
        run.run()
    except ConnectError as error:
        run.add("the database", level_of(error), str(error))
    return PreflightReport(f"Stream {options.stream_key}", tuple(run.findings))


def _has_summer_time(zone: dt.tzinfo) -> bool:
    this_year = dt.datetime.now(dt.UTC).year
    months = [dt.datetime(this_year + number // 12, 1 + number % 12, 1, tzinfo=zone) for number in range(24)]
    return len({month.utcoffset() for month in months}) > 1


@dataclass
class _SqlPreflight:
    options: SqlOptions
    connection: Connection
    findings: list[Finding] = field(default_factory=list)

    def add(self, subject: str, level: Level, text: str, remedy: str = "") -> None:
        self.findings.append(Finding(subject, level, text.rstrip("."), remedy))

    def run(self) -> None:
        if problems := validate_connection(self.options, self.connection):
            for problem in problems:
                self.add("the connection", "problem", problem)
            return
        if self.connection.conn_type == JDBC:
            text = "only Spark can connect to it, so it was not checked"
            self.add("the database", "unknown", text, "run one day, and check its rows")
            return
        with self._session(self.options.row_security) as database:
            self.add("the server", "ok", database.version)
            self._check_server(database)
            shape = inspect_table(database, self.options)
            layout = row_layout(database, shape, self.options)
            self.add("columns", "ok", f"{len(shape.columns)} of them")
            require_readable(database, self.options, layout)
            self.add("rights", "ok", "the user may read all columns")
            if self.options.row_security == "accept":
                self._check_policies(layout)
            if self.connection.conn_type == SQLITE:
                self._check_stored_decimals(database, shape, layout)
            self._check_key(shape)
            if self.options.mode is not None:
                self._check_cursor(database, shape)
            if shape.day_column is not None:
                clock = day_column_clock(database, shape.day_column, self.options.day_column_unit)
                self._check_day_column(database, shape, clock)
            else:
                self._check_chunks(database, shape, layout)

    def _session(self, row_security: RowSecurity) -> Database:
        name = f"connect check {self.options.stream_key}"
        return open_database(
            self.connection, application_name=name, limits=self.options.session_limits, row_security=row_security
        )

    def _check_policies(self, layout: RowLayout) -> None:
        """Report whether policies hide rows: then a session with ``row_security="refuse"`` fails."""
        try:
            with self._session("refuse") as database:
                require_readable(database, self.options, layout)
        except ConfigError:
            text = (
                "policies hide rows from this user, and row_security='accept' loads only the rows that the user may see"
            )
            self.add("row level security", "note", text, "leave the option out if the stream needs every row")
        else:
            text = "no policy hides rows from this user, so row_security='accept' changes nothing"
            self.add("row level security", "ok", text)

    def _check_stored_decimals(self, database: Database, shape: TableShape, layout: RowLayout) -> None:
        """Find unreadable floating numbers in the first rows of decimal columns, where SQLite stores any type."""
        relation = database.relation(self.options.table_or_query)
        decimals = self.options.decimals
        for declared, column in zip(shape.columns, layout.columns, strict=True):
            if decimals != "double" and is_decimal(declared):
                values = database.rows(database.select([column.expression], relation, limit=_ROWS_LOOKED_AT))
                if not all(is_decimal_of(column, value) for (value,) in values):
                    text = f"it holds floating numbers with more digits, which decimals={decimals!r} does not read"
                    self.add(column.title, "problem", text, "set decimals='double'")

    def _check_server(self, database: Database) -> None:
        try:
            lag = database.lag_seconds()
        except ConfigError as error:  # MariaDB requires a separate right
            remedy = "GRANT REPLICATION CLIENT, in MariaDB SLAVE MONITOR, so that days wait for a replica"
            self.add("the replica", "unknown", f"whether the server is a replica is unknown: {error}", remedy)
            lag = None
        if lag is not None:
            text = f"it is a replica, {lag:.0f} s behind its primary"
            remedy = "set ready_after above this lag, so that a day needs one try"
            self.add("the replica", "note", text, remedy)
        if (clock_query := CLOCK_QUERIES.get(self.connection.conn_type)) is None:
            return
        sent_at = time.time()
        (database_time,) = database.one_row(clock_query)
        # The database answered at some moment in between.
        difference = max(sent_at - float(database_time), float(database_time) - time.time(), 0.0)
        if difference > _MAX_CLOCK_DIFFERENCE_SECONDS:
            text = f"the database's clock and this machine's are {difference:.0f} s apart"
            self.add("the clock", "note", text, "correct the clock, or set ready_after above the difference")
        else:
            self.add("the clock", "ok", "the database's and this machine's agree")

    def _check_key(self, shape: TableShape) -> None:
        if not shape.key:
            text = "the table has no primary key and key= is not set, so rows have no record_key"
            self.add("the key", "note", text, "name columns with key= if a sink merges rows or you need a digest")
        elif not shape.is_unique:
            text = f"no unique index guarantees that {', '.join(shape.key)} identifies a row, so each poll checks it"
            self.add("the key", "note", text)
        else:
            self.add("the key", "ok", ", ".join(shape.key))

    def _check_day_column(self, database: Database, shape: TableShape, clock: ColumnClock) -> None:
        column = shape.day_column
        assert column is not None, "the caller has looked"
        subject = f"day_column {column.name!r}"
        self._note_nullable(subject, column, "day")
        if self.connection.conn_type != SQLITE or self.options.day_column_unit:  # it converts texts, without an index
            self._note_missing_index(subject, shape, column, "a day", "day")
        if clock == "wall":
            self._check_zone(database, "day_column", column)
        else:
            self.add(subject, "ok", f"it has {_CLOCK_VALUES[clock]}")

    def _note_nullable(self, subject: str, column: SqlColumn, unit: str) -> None:
        if column.is_nullable:
            text = f"it may be NULL, and rows with NULL are in no {unit}"
            self.add(subject, "note", text, "declare it NOT NULL, or load snapshots")

    def _note_missing_index(
        self, subject: str, shape: TableShape, column: SqlColumn, searched_rows: str, unit: str
    ) -> None:
        if self.options.table is None:
            self.add(
                subject,
                "unknown",
                f"whether the query finds {searched_rows} by an index is unknown",
                "check its plan",
            )
        elif not shape.is_range_indexed(column):
            self.add(
                subject, "note", f"no index begins with it, so each {unit} reads the whole table", "create an index"
            )

    def _check_cursor(self, database: Database, shape: TableShape) -> None:
        for column in (shape.timestamp_column, shape.incrementing_column):
            if column is not None:
                self._note_nullable(f"column {column.name!r}", column, "increment")
        first_column = shape.timestamp_column or shape.incrementing_column
        assert first_column is not None, "a mode has a column"
        self._note_missing_index(f"column {first_column.name!r}", shape, first_column, "new rows", "run")
        if shape.timestamp_column is None:
            self._check_number(database, shape, first_column)
        elif day_column_clock(database, shape.timestamp_column) == "wall":
            self._check_zone(database, "timestamp_column", first_column)
            if _has_summer_time(known_zone(self.options.clock_zone)):
                text = "its clock shows an hour twice when summer ends: rows written in the second hour are missed"
                self.add(
                    f"column {first_column.name!r}",
                    "note",
                    text,
                    "store instants or UTC, or write no rows in that hour",
                )
        text = "a row that is committed after a later row was read is missed, and so are deletes"
        self.add(
            f"mode {self.options.mode!r}",
            "note",
            text,
            "'airflow connect docs sql --page' shows how often that happens",
        )

    def _check_number(self, database: Database, shape: TableShape, column: SqlColumn) -> None:
        subject, table_or_query = f"column {column.name!r}", self.options.table_or_query
        if isinstance(table_or_query, Query):
            return
        if not any(index.is_unique and set(index.columns) <= {column.name} for index in shape.indexes):
            text = "no unique index has only this column: a row with the same number as the last row is missed"
            self.add(subject, "note", text, "follow a unique number")
        if shape.is_range_indexed(column):
            greatest, counter = greatest_and_counter(database, table_or_query, column.name)
        else:  # reading every row is too much for a check
            greatest, counter = 0, readable_counter(database, table_or_query, column.name)
        if counter is None:
            text = "no sequence gives its numbers, so it is unknown whether they only grow, and a reset is not detected"
            self.add(subject, "note", text, "make sure that the writers of the rows use growing numbers")
            return
        for gap in counter.gaps:
            text = f"{counter.name}: {gap}, so a lower number may come later and is missed"
            self.add(subject, "note", text, "give numbers one by one, or load snapshots")
        if counter.last_number is None:
            text = f"{counter.name} cannot be read, so a reset is not detected"
            self.add(subject, "note", text, "grant the user SELECT on it. A replica does not show it")
        elif greatest > counter.last_number:
            text = f"it has numbers that {counter.name} did not give: its next numbers may be missed"
            self.add(subject, "note", text, "set it beyond the greatest number, unless all numbers come from elsewhere")
        else:
            self.add(subject, "ok", f"{counter.name} gives its numbers")

    def _check_zone(self, database: Database, option: str, column: SqlColumn) -> None:
        subject = f"{option} {column.name!r}"
        clock_zone = self.options.clock_zone
        zone = database_zone(database, self.connection.conn_type)
        text = f"it has timestamps without a zone, which are read as times in {clock_zone}"
        if zone is None and self.options.db_timezone is None and self.options.zone not in _UTC_NAMES:
            remedy = f"set db_timezone={self.options.zone!r} if the database has local times"
            self.add(subject, "note", f"{text}, and the days are in {self.options.zone}", remedy)
        elif zone is None or zone.name == clock_zone or (zone.is_utc and clock_zone in _UTC_NAMES):
            self.add(subject, "ok", text)
        elif self.options.db_timezone is not None:
            remedy = "make sure that it is the zone of the clock that writes them. The data cannot show a wrong zone"
            self.add(subject, "note", f"{text}. The database's own zone is {zone.name}", remedy)
        else:
            level: Level = "note" if self.options.mode is None else "problem"
            self.add(subject, level, f"it has {zone.doubt(self.options.mode)}", zone.remedy)

    def _check_chunks(self, database: Database, shape: TableShape, layout: RowLayout) -> None:
        by_chunk = self.options.consistency == "chunk"
        subject = "consistency" if by_chunk else "parallel_chunks"
        reason = unsplit_reason(shape, layout)
        if (by_chunk or (self.options.parallel_chunks or 1) > 1) and reason:
            self.add(subject, "note", f"one task reads all rows: {reason}")
        elif by_chunk:
            text = (
                "each chunk is read at another moment: a row that changes its key meanwhile may be read twice or never"
            )
            self.add(subject, "note", text, "leave the option out if that matters")
