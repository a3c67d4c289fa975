"""SQLite through the standard library, opened read-only."""

from __future__ import annotations

import datetime as dt
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_connect.clients.sql.database import (
    ColumnCounter,
    Database,
    Index,
    ListedTable,
    Query,
    ReadColumn,
    SessionLimits,
    SqlColumn,
    StatementBuilder,
    Table,
    ValueChoices,
    suggest_table,
)
from airflow_provider_connect.clients.sql.sqlite_types import exact_decimal, python_classes, read_column
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, DeadlineError, RetriableError

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_ROWS, _MAX_ROWS = 1_000, 10_000
_STEPS_PER_CHECK = 20_000
"""Virtual machine steps, about a millisecond, between two checks of the time limit."""
_QUERY_VIEW = "connect_query"
_RETRIABLE_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}
_FILE_CODES = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


class SQLite(Database):
    """A session with a SQLite file."""

    def __init__(self, link: sqlite3.Connection, label: str, limits: SessionLimits) -> None:
        self._link = link
        self._label = label
        self._limits = limits
        self._deadline = 0.0
        link.set_progress_handler(lambda: time.monotonic() > self._deadline, _STEPS_PER_CHECK)

    @classmethod
    def open(cls, connection: Connection, application_name: str, limits: SessionLimits) -> Self:
        """Open the file whose path is the connection's host.

        :raises ConfigError: it is no database.
        """
        label = f"connection {connection.conn_id!r}"
        if not connection.host:
            raise ConfigError(f"{label}: host: give the path of the database's file")
        path = Path(connection.host)
        if not path.is_file():
            hint = "" if path.is_absolute() else f" in {Path.cwd()}. Give the absolute path"
            raise ConfigError(f"{label}: host: there is no file {connection.host}{hint}")
        try:
            link = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro",
                uri=True,
                timeout=limits.connect_seconds,
                isolation_level=None,
                check_same_thread=False,  # a poll's thread reads, and the task's main thread may close
            )
        except sqlite3.Error as error:
            raise _translate_error(error, label) from None
        database = cls(link, label, limits)
        database.rows("SELECT 1 FROM sqlite_master LIMIT 1")
        return database

    def close(self) -> None:
        """Close the file."""
        self._link.close()

    # Server

    @property
    def version(self) -> str:
        """SQLite library's version."""
        return f"SQLite {sqlite3.sqlite_version}"

    # Catalog

    def list_tables(self) -> list[ListedTable]:
        """Return the file's tables and views, without the tables in which virtual tables store their rows."""
        rows = self.rows("PRAGMA main.table_list")
        listed = [(name, kind) for schema, name, kind, *_ in rows if schema == "main" and kind != "shadow"]
        return [
            ListedTable(name, "main", is_default=True, stores_rows=kind != "view")
            for name, kind in sorted(listed)
            if not name.startswith("sqlite_")
        ]

    def describe(self, table_or_query: Table | Query) -> list[SqlColumn]:
        """Return the columns with declared types. A query's expressions have none."""
        if isinstance(table_or_query, Table):
            rows = self._columns(table_or_query.name)
            if not rows:
                tables = [Table(name) for (name,) in self.rows("SELECT name FROM sqlite_schema WHERE type <> 'index'")]
                hint = suggest_table(table_or_query, tables)
                raise ConfigError(f"{self._label}: there is no table {table_or_query.name!r}{hint}")
            has_single_key = sum(bool(row[5]) for row in rows) == 1
            return [_column(row, is_key=has_single_key and bool(row[5])) for row in rows]
        text = table_or_query.sql.strip().rstrip(";")
        self.rows(f"DROP VIEW IF EXISTS temp.{_QUERY_VIEW}")
        self.rows(f"CREATE TEMP VIEW {_QUERY_VIEW} AS\n{text}\n")
        try:
            return [_column(row, is_key=False)._replace(is_nullable=True) for row in self._columns(_QUERY_VIEW)]
        finally:
            self.rows(f"DROP VIEW temp.{_QUERY_VIEW}")

    def _columns(self, name: str) -> list[tuple[Any, ...]]:
        return self.rows(f"PRAGMA table_xinfo({self.quote(name)})")

    def primary_key(self, table: Table) -> list[str]:
        """Return the primary key's columns."""
        return [row[1] for row in sorted(self._columns(table.name), key=lambda row: int(row[5])) if row[5]]

    def indexes(self, table: Table) -> list[Index]:
        """Return the indexes over all rows with only plain columns."""
        indexes = []
        for _, name, is_unique, _, is_partial in self.rows(f"PRAGMA index_list({self.quote(table.name)})"):
            columns = [row[2] for row in self.rows(f"PRAGMA index_info({self.quote(name)})")]
            if not is_partial and None not in columns:
                indexes.append(Index(name, tuple(columns), bool(is_unique)))
        key = tuple(self.primary_key(table))
        if key and not any(index.is_unique and index.columns == key for index in indexes):
            indexes.append(Index("primary key", key, is_unique=True))  # the table itself is sorted by it
        return indexes

    def estimated_rows(self, table: Table) -> int | None:
        """Return the rows counted by the last ANALYZE, or None."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'"):
            return None
        (row_estimate,) = self.one_row(
            f"SELECT max(CAST(stat AS INTEGER)) FROM sqlite_stat1 WHERE tbl = {self.literal(table.name)}"
        )
        return None if row_estimate is None else int(row_estimate)

    def column_counter(self, table: Table, column: str) -> ColumnCounter | None:
        """Return the counter of row numbers, if the column is the row number.

        Without AUTOINCREMENT the last number is the table's greatest.
        """
        declared = {row[1]: row[2].upper() for row in self._columns(table.name)}
        table_rows = self.rows(f"PRAGMA table_list({self.quote(table.name)})")
        if self.primary_key(table) != [column] or declared[column] != "INTEGER" or any(row[4] for row in table_rows):
            return None  # only such a column is the row number. row[4]: WITHOUT ROWID
        (last_number,) = self.one_row(self.select([f"coalesce(max({self.quote(column)}), 0)"], self.relation(table)))
        if self.rows("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'"):
            rows = self.rows(f"SELECT seq FROM sqlite_sequence WHERE name = {self.literal(table.name)}")
            last_number = max(last_number, *(int(row[0]) for row in rows), 0)
        return ColumnCounter("the file's own counter", last_number)

    # SQL

    def quote(self, name: str) -> str:
        """Quote with backticks: SQLite reads an unknown name in double quotes as a text."""
        return f"`{name.replace('`', '``')}`"

    def relation(self, table_or_query: Table | Query) -> str:
        """Return the table or query as SQL. Raises ConfigError for a schema other than ``main``."""
        if isinstance(table_or_query, Table) and table_or_query.schema not in ("", "main"):
            raise ConfigError(
                f"{self._label}: a file of SQLite has only the schema main, not {table_or_query.schema!r}"
            )
        return super().relation(table_or_query)

    def literal(self, value: object) -> str:  # noqa: PLR0911  # a line for each type
        """Write a value."""
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return str(int(value))
        if isinstance(value, int | float):
            return repr(value)
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        if isinstance(value, dt.datetime):
            local = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
            return f"'{local.isoformat(' ')}'"
        if isinstance(value, dt.date | dt.time):
            return f"'{value.isoformat()}'"
        if isinstance(value, str | Decimal):
            return "'" + str(value).replace("'", "''") + "'"
        raise ConnectError(f"a value of type {type(value).__name__} cannot be written in SQL")

    # Reading

    def begin(self, snapshot: str | None = None) -> None:
        """Begin a transaction, which sees the current rows."""
        if snapshot is not None:
            self.export_snapshot()
        self.rows("BEGIN")
        self.rows("SELECT 1 FROM sqlite_master LIMIT 1")  # the snapshot begins with the first read

    def end(self) -> None:
        """End the transaction, if any."""
        if self._link.in_transaction:
            self.rows("ROLLBACK")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement."""
        with self._run_in_time():
            return self._link.execute(sql).fetchall()

    def read_columns(self, columns: Iterable[SqlColumn], choices: ValueChoices) -> list[ReadColumn]:
        """Decide how columns are read: in their declared types."""
        return [read_column(column, choices, self.quote(column.name)) for column in columns]

    def _read(
        self, columns: Sequence[ReadColumn], select: StatementBuilder, block_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = pa.schema([column.field for column in columns])
        sql = select([column.expression for column in columns])
        size = _FIRST_ROWS
        with self._run_in_time():
            cursor = self._link.execute(sql)
            while rows := cursor.fetchmany(size):
                arrays = [
                    _array(column, values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)
                ]
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                yield batch
                size = max(1, min(_MAX_ROWS, int(block_bytes * batch.num_rows / max(batch.nbytes, 1))))

    @contextmanager
    def _run_in_time(self) -> Iterator[None]:
        self._deadline = time.monotonic() + self._limits.statement_seconds
        try:
            yield
        except sqlite3.Error as error:
            raise _translate_error(error, self._label, is_late=time.monotonic() > self._deadline) from None

    def cancel(self) -> None:
        """Interrupt another thread's statement."""
        self._link.interrupt()


def _column(row: tuple[Any, ...], *, is_key: bool) -> SqlColumn:
    _, name, declared, is_not_null, *_ = row
    # A primary key of one column INTEGER is the row number and never NULL. Other keys may be NULL.
    is_row_number = is_key and declared.upper() == "INTEGER"
    return SqlColumn(
        name,
        declared.lower(),
        declared.lower(),
        is_nullable=not (is_not_null or is_row_number),
    )


def _array(column: ReadColumn, values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    allowed_classes = python_classes(column)
    unexpected_classes = set(map(type, values)) - allowed_classes - {type(None)}
    if unexpected_classes:
        stored_as = ", ".join(sorted(_STORAGE_CLASSES[kind] for kind in unexpected_classes))
        raise DataError(f"{column.title} is read as {column.type}, but holds {stored_as}{_advice(column)}")
    try:
        if pa.types.is_decimal(column.type):
            scale = column.type.scale
            decimals = [None if value is None else exact_decimal(value, scale) for value in values]
            return pa.array(decimals, column.type)
        if pa.types.is_boolean(column.type):
            return _booleans(values)
        if pa.types.is_temporal(column.type):
            return pa.array(values, pa.string()).cast(column.type)
        return pa.array(values, column.type)
    except (pa.ArrowException, InvalidOperation, ValueError, OverflowError):
        raise DataError(f"{column.title} holds a value that is not a valid {column.type}{_advice(column)}") from None


def _booleans(values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    if not {0, 1, None}.issuperset(values):
        raise ValueError
    return pa.array([None if value is None else value == 1 for value in values], pa.bool_())


def _advice(column: ReadColumn) -> str:
    return f": {column.advice}" if column.advice else ""


_UNDECODED = re.compile(r"Could not decode to UTF-8 column '(.*?)' with text '")
_STORAGE_CLASSES = {int: "integers", float: "floating numbers", str: "texts", bytes: "blobs"}


def _translate_error(error: sqlite3.Error, label: str, *, is_late: bool = False) -> ConnectError:  # noqa: PLR0911  # a line for each kind
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    main_code = None if code is None else code & 0xFF
    if main_code is None and (undecoded_match := _UNDECODED.match(str(error))):
        return DataError(
            f"{label}: column {undecoded_match[1]!r} holds a text that is not UTF-8: read it as bytes with a query "
            "that selects cast(column as blob)"
        )
    if main_code is None and isinstance(error, sqlite3.ProgrammingError):
        return RetriableError(f"{label}: the session is closed")
    if main_code == sqlite3.SQLITE_INTERRUPT:
        if is_late:
            return DeadlineError(f"{label}: the statement exceeded its time limit ({name})")
        return RetriableError(f"{label}: the statement was cancelled ({name})")
    if main_code in _RETRIABLE_CODES:
        return RetriableError(f"{label}: the file cannot be read at the moment ({name})")
    if main_code in _FILE_CODES:
        return ConfigError(f"{label}: the file cannot be opened as a database ({name})")
    if main_code == sqlite3.SQLITE_ERROR:
        return ConfigError(f"{label}: {error}")
    return DataError(f"{label}: the file cannot be read ({name})")
