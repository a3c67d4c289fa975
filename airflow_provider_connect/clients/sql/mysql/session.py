"""Sessions with MySQL or MariaDB."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_connect.clients.sql.csv_rows import CsvConverter, join_blocks
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
from airflow_provider_connect.clients.sql.mysql import catalog
from airflow_provider_connect.clients.sql.mysql.columns import UNKNOWN_CHARSET, base_type, read_column
from airflow_provider_connect.clients.sql.mysql.connection import (
    connect_arguments,
    connection_problems,
    connection_secrets,
)
from airflow_provider_connect.clients.sql.mysql.errors import connecting_error, sql_error
from airflow_provider_connect.clients.sql.mysql.results import (
    QUERIED_TEXTS,
    require_unchanged_values,
    stream_cursor,
    type_name,
)
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError, refuse_any

if TYPE_CHECKING:
    import pyarrow as pa
    import pymysql

    from airflow_provider_connect.connection import Connection

    Connect = Callable[[], "pymysql.Connection[Any]"]

_CANCEL_SECONDS = 5.0
_SILENCE_SECONDS = 60.0
"""Seconds to wait for a silent server after the statement's time limit."""
# The server's defaults could change values (sql_mode to default_week_format), limit the rows (sql_select_limit) or
# close the connection of a reader that pauses.
_SETTINGS = {
    "sql_mode": "''",
    "time_zone": "'+00:00'",
    "div_precision_increment": "4",
    "lc_time_names": "'en_US'",
    "default_week_format": "0",
    "sql_select_limit": "18446744073709551615",
    "sql_notes": "0",
    "net_write_timeout": "3600",
    "wait_timeout": "86400",
}
_MAX_CONCAT_BYTES = (1 << 64) - 1


class MySQL(Database):
    """A session of PyMySQL.

    :param comment: SQL comment before every read, visible in the process list.
    """

    queried_uuids_were_texts = True

    def __init__(self, connect: Connect, label: str, comment: str) -> None:
        self._connect = connect
        self._label = label
        self._comment = comment
        self._session = connect()
        self._version = ""
        self._is_mariadb = False
        self._id = 0
        self._is_reading = False
        self._is_cancelled = False
        self._is_in_transaction = False

    @classmethod
    def open(cls, connection: Connection, application_name: str, limits: SessionLimits) -> Self:
        """Open a session."""
        try:
            import pymysql
        except ImportError:
            raise ConfigError("MySQL is read with PyMySQL: pip install 'airflow-provider-connect[sql]'") from None
        refuse_any(connection_problems(connection))
        label = f"connection {connection.conn_id!r}"
        arguments = connect_arguments(connection, limits.connect_seconds) | {
            "autocommit": True,
            "charset": "utf8mb4",
            "program_name": application_name,
            "read_timeout": limits.connect_seconds,
            "write_timeout": limits.connect_seconds,
        }
        try:
            database = cls(lambda: pymysql.connect(**arguments), label, f"/* {_comment_text(application_name)} */ ")
        except (pymysql.MySQLError, OSError) as error:
            raise connecting_error(error, label, connection_secrets(connection)) from None
        try:
            database._prepare(limits)
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, limits: SessionLimits) -> None:
        # PyMySQL has one timeout for both login and rows.
        self._session._read_timeout = limits.statement_seconds + _SILENCE_SECONDS  # type: ignore[attr-defined]
        server_version, self._id = self.rows("SELECT version(), connection_id()", "setting up the session")[0]
        self._is_mariadb = "mariadb" in server_version.lower()
        self._version = f"{'MariaDB' if self._is_mariadb else 'MySQL'} {server_version.split('-')[0]}"
        timeout = (
            f"max_statement_time = {limits.statement_seconds:.3f}"
            if self._is_mariadb
            else f"max_execution_time = {max(1, round(limits.statement_seconds * 1000))}"
        )
        settings = ", ".join(f"{name} = {value}" for name, value in _SETTINGS.items())
        self.rows(f"SET SESSION {settings}, {timeout}", "setting up the session")
        # After the change of sql_mode, the server reduces a number that is too large to the maximum.
        self.rows(f"SET SESSION group_concat_max_len = {_MAX_CONCAT_BYTES}", "setting up the session")
        self.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", "setting up the session")
        if not self._is_mariadb:
            with contextlib.suppress(ConfigError):  # before version 8 statistics were never cached
                self.rows(catalog.DISABLE_CACHED_STATISTICS, "setting up the session")

    @property
    def version(self) -> str:
        """Server and version."""
        return self._version

    def lag_seconds(self) -> float | None:
        """Return the replica's lag. Raises ConfigError without the right to read it."""
        from pymysql.cursors import DictCursor

        statement = catalog.MARIADB_REPLICA_STATUS if self._is_mariadb else catalog.REPLICA_STATUS
        return catalog.lag_seconds(self.rows(statement, "reading the replica's lag", DictCursor))

    def list_tables(self) -> list[ListedTable]:
        """Return the tables and views that the user may see."""
        rows = self.rows(catalog.LIST_QUERY, "listing the tables")
        return [ListedTable(name, schema, bool(default), bool(stores)) for name, schema, default, stores in rows]

    def describe(self, table_or_query: Table | Query) -> list[SqlColumn]:
        """Return columns from the information schema, or a query's from the optimizer."""
        if isinstance(table_or_query, Query):
            fields = [(field.name, type_name(field)) for field in self._fields(table_or_query, quotes_sql=True)]
            charsets = (
                self._charsets(table_or_query)
                if any(kind in QUERIED_TEXTS for _, kind in fields)
                else [None] * len(fields)
            )
            return [
                SqlColumn(name, kind, base_type(kind, charset if kind in QUERIED_TEXTS else None))
                for (name, kind), charset in zip(fields, charsets, strict=True)
            ]
        columns = self.rows(
            catalog.columns_query(*self._table_literals(table_or_query)), f"describing {table_or_query.name!r}"
        )
        if not columns:
            raise ConfigError(
                f"{self._label}: there is no table {self.relation(table_or_query)}, or the user may not see it"
                + ("" if table_or_query.schema else ". Check the database in the connection's schema field")
                + self._suggest_table(table_or_query)
            )
        documents = self._json_columns(table_or_query) if self._is_mariadb else set()
        return [
            SqlColumn(name, kind, "json" if name in documents else base_type(kind, charset), nullable == "YES")
            for name, kind, nullable, charset in columns
        ]

    def _suggest_table(self, table: Table) -> str:
        tables = self.rows(catalog.TABLES_QUERY, "listing the tables")
        return suggest_table(table, [Table(name, schema) for schema, name in tables])

    def require_all_columns(self, table: Table) -> None:
        """Check that the user may read all columns."""
        action = f"selecting every column of {table.name!r}"
        try:
            self.rows(self.select("*", self.relation(table), limit=0), action)
        except ConfigError as error:
            raise ConfigError(
                f"{error}: the server hides the columns that the user may not read, so they would be missing "
                "silently. Grant SELECT on the whole table, or name the columns to read with columns="
            ) from None

    def _charsets(self, query: Query) -> list[str | None]:
        self.rows("SET SESSION character_set_results = NULL", "describing the query")
        try:
            numbers = [field.charsetnr for field in self._fields(query)]
        finally:
            self.rows("SET SESSION character_set_results = utf8mb4", "describing the query")
        names: dict[int, str] = dict(self.rows(catalog.CHARSETS_QUERY, "reading the character sets"))
        return [names.get(number, UNKNOWN_CHARSET) for number in numbers]

    def _fields(self, query: Query, *, quotes_sql: bool = False) -> list[Any]:
        with (
            self._translate_errors("describing the query", quotes_sql=quotes_sql),
            contextlib.closing(stream_cursor(self._session)) as rows,
        ):
            rows.execute(self.select("*", self.relation(query), limit=0))
            return list(rows.fields)

    def _json_columns(self, table: Table) -> set[str]:
        """Return the columns with the constraint ``json_valid``: MariaDB's JSON type."""
        clauses = self.rows(catalog.checks_query(*self._table_literals(table)), "reading the table's constraints")
        return {
            match[1].replace("``", "`")
            for (clause,) in clauses
            if (match := re.fullmatch(r"json_valid\(`((?:[^`]|``)+)`\)", clause))
        }

    def _table_literals(self, table: Table) -> tuple[str, str]:
        return self.literal(table.schema) if table.schema else "database()", self.literal(table.name)

    def primary_key(self, table: Table) -> list[str]:
        """Return the primary key's columns."""
        return catalog.primary_key_columns(self._index_parts(table))

    def indexes(self, table: Table) -> list[Index]:
        """Return the indexes that begin with a whole column."""
        return catalog.group_indexes(self._index_parts(table))

    def _index_parts(self, table: Table) -> list[tuple[Any, ...]]:
        return self.rows(catalog.indexes_query(*self._table_literals(table)), f"reading the indexes of {table.name!r}")

    def estimated_rows(self, table: Table) -> int | None:
        """Return the engine's estimate."""
        rows = self.rows(
            catalog.row_estimate_query(*self._table_literals(table)), f"reading the size of {table.name!r}"
        )
        return int(rows[0][0]) if rows and rows[0][0] is not None else None

    def column_counter(self, table: Table, column: str) -> ColumnCounter | None:
        """Return a column's AUTO_INCREMENT."""
        action = f"reading the AUTO_INCREMENT of {table.name!r}"
        rows = self.rows(catalog.counter_query(*self._table_literals(table), self.literal(column)), action)
        if not rows:
            return None
        next_number, lock_mode, step, engine = rows[0]
        last_number = None if next_number is None else int(next_number) - 1
        return ColumnCounter(
            "its AUTO_INCREMENT", last_number, catalog.counter_gaps(int(lock_mode), int(step), engine or "")
        )

    def quote(self, name: str) -> str:
        """Quote with backticks."""
        if not name or "\0" in name:
            raise ConfigError(f"{name!r} is not a valid name in MySQL")
        return "`" + name.replace("`", "``") + "`"

    def literal(self, value: object) -> str:
        """Write a value with PyMySQL, bytes in hexadecimal digits."""
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        with self._translate_errors("writing a value"), contextlib.closing(self._session.cursor()) as cursor:
            return str(cursor.mogrify("%s", (value,)))

    def key_value(self, column: SqlColumn) -> str:
        """Return a column's name. Bits are read as a number."""
        quoted = self.quote(column.name)
        return f"{quoted} + 0" if column.base.startswith("bit") else quoted

    def begin(self, snapshot: str | None = None) -> None:
        """Begin a transaction. The first row takes its snapshot."""
        if snapshot is not None:
            self.export_snapshot()
        # Not WITH CONSISTENT SNAPSHOT: if another table takes the name while we wait for its lock, that snapshot would
        # be older and miss rows. So the snapshot is taken with the first row, after the tables are open.
        self.rows("START TRANSACTION READ ONLY", "beginning the read")
        self._is_in_transaction = True

    def lock_tables(self, table_or_query: Table | Query, names: Sequence[str]) -> list[SqlColumn]:
        """Open the tables, which prevents changes to them, without reading a row."""
        self.rows(self.select(["1"], self.relation(table_or_query), limit=0), "opening the table")
        return self.describe(table_or_query)

    def end(self) -> None:
        """Commit, which changes nothing."""
        if self._is_in_transaction:
            self.rows("COMMIT", "ending the read")
            self._is_in_transaction = False

    def rows(self, sql: str, action: str = "querying the database", cursor: type[Any] | None = None) -> list[Any]:
        """Run a statement. Rows are tuples, unless ``cursor`` is another cursor class of PyMySQL."""
        with self._translate_errors(action), contextlib.closing(self._session.cursor(cursor)) as open_cursor:
            open_cursor.execute(sql)
            return list(open_cursor.fetchall())

    def read_columns(self, columns: Iterable[SqlColumn], choices: ValueChoices) -> list[ReadColumn]:
        """Decide how columns are read: as items of a CSV line."""
        return [read_column(column, self.quote(column.name), choices) for column in columns]

    def _read(
        self, columns: Sequence[ReadColumn], select: StatementBuilder, block_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        import pymysql

        converter = CsvConverter(columns)
        line = f"cast(concat_ws(',', {', '.join(column.expression for column in columns)}) as binary)"
        statement = self._comment + select([line])
        with self._translate_errors("reading rows"):
            rows = stream_cursor(self._session)
            self._is_reading = True
            try:
                rows.execute(statement)
                received_lines = 0
                for block, lines in join_blocks(map(self._require_line, rows.texts()), block_bytes, end=b"\n"):
                    received_lines += lines
                    yield converter.convert_block(block)
                    if not self._session.open:  # rows that have arrived would still be read
                        raise RetriableError(f"{self._label}: reading rows: the session is closed")
                if received_lines != converter.converted_rows:
                    raise DataError(
                        f"{self._label}: reading rows: {received_lines:,} lines arrived, but they hold "
                        f"{converter.converted_rows:,} rows"
                    )
                self._is_reading = False
                if count := rows.warning_count:
                    warnings = self.rows("SHOW WARNINGS", "reading the server's warnings")
                    require_unchanged_values([number for _, number, _ in warnings], count, self._label)
            except pymysql.MySQLError:
                self._is_reading = False  # the server has ended the read
                raise
            finally:
                rows.abandon()
                if self._is_reading:  # remaining rows would be read as the next statement's result
                    self.close()

    def _require_line(self, row: bytes | None) -> bytes:
        if row is None:
            raise DataError(
                f"{self._label}: a row is longer than the server's max_allowed_packet, so the server sends NULL "
                "instead. Raise max_allowed_packet, or leave out the long column"
            )
        return row

    def cancel(self) -> None:
        """End the running statement from another session."""
        self._is_cancelled = True
        with (
            self._translate_errors("cancelling"),
            contextlib.closing(self._connect()) as session,
            session.cursor() as cursor,
        ):
            cursor.execute(f"KILL QUERY {self._id:d}")

    def close(self) -> None:
        """End the session. Kills a running statement."""
        import pymysql

        if not self._session.open:
            return
        if self._is_reading:
            with contextlib.suppress(pymysql.MySQLError), contextlib.closing(self._connect()) as session:
                session.cursor().execute(f"KILL {self._id:d}")
        self._session.close()

    @contextlib.contextmanager
    def _translate_errors(self, action: str, *, quotes_sql: bool = False) -> Iterator[None]:
        import pymysql

        try:
            yield
        except pymysql.MySQLError as error:
            subject = f"{self._label}: {action}"
            raise sql_error(error, subject, is_cancelled=self._is_cancelled, quotes_sql=quotes_sql) from None
        except (AttributeError, OSError, ValueError):
            if self._session.open:
                raise
            # PyMySQL's errors for a connection that was closed, here or in another thread.
            raise RetriableError(f"{self._label}: {action}: the session is closed") from None


def _comment_text(name: str) -> str:
    return re.sub(r"[^\w .:+=@-]", "_", name)
