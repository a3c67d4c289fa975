"""Sessions with PostgreSQL."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_connect.clients.sql.csv_rows import CsvConverter, join_blocks
from airflow_provider_connect.clients.sql.database import (
    ColumnCounter,
    Database,
    Index,
    ListedTable,
    Query,
    ReadColumn,
    RowSecurity,
    SessionLimits,
    SqlColumn,
    StatementBuilder,
    Table,
    ValueChoices,
    suggest_table,
)
from airflow_provider_connect.clients.sql.postgresql import catalog
from airflow_provider_connect.clients.sql.postgresql.columns import read_column, with_bytes_advice
from airflow_provider_connect.clients.sql.postgresql.connection import (
    connect_parameters,
    connection_problems,
    connection_secrets,
)
from airflow_provider_connect.clients.sql.postgresql.errors import connecting_error, sql_error
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError, refuse_any

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

    from airflow_provider_connect.connection import Connection

_CANCEL_SECONDS = 5.0
_DUPLICATE_NAME = "names two columns {!r}: give each its own name"
# A role's or a database's defaults could change values and conditions, end an idle session, or let a killed task's
# query run on. Settings that an older server does not know are skipped.
_SETTINGS = {
    "client_encoding": "UTF8",
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmlbinary": "base64",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "default_transaction_read_only": "on",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
_ROW_SECURITY: dict[RowSecurity, str] = {"refuse": "off", "accept": "on"}
"""``off`` lets the server refuse a statement whose rows a policy would cut."""
_CLIENT_CHECK_INTERVAL = "10s"
"""How often a computing server checks that its client is connected."""


class PostgreSQL(Database):
    """A session of psycopg 3."""

    shares_snapshots = True

    def __init__(self, session: psycopg.Connection[tuple[Any, ...]], label: str) -> None:
        self._session = session
        self._label = label
        self._is_cancelled = False

    @classmethod
    def open(
        cls, connection: Connection, application_name: str, limits: SessionLimits, row_security: RowSecurity = "refuse"
    ) -> Self:
        """Open a session."""
        try:
            import psycopg
        except ImportError:
            raise ConfigError("PostgreSQL is read with psycopg: pip install 'airflow-provider-connect[sql]'") from None
        refuse_any(connection_problems(connection))
        label = f"connection {connection.conn_id!r}"
        try:
            session = psycopg.connect(
                **connect_parameters(connection, application_name, limits.connect_seconds), autocommit=True
            )
        except psycopg.Error as error:
            raise connecting_error(error, label, connection_secrets(connection)) from None
        database = cls(session, label)
        try:
            database._prepare(limits, row_security)
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, limits: SessionLimits, row_security: RowSecurity) -> None:
        settings = _SETTINGS | {
            "statement_timeout": f"{max(1, round(limits.statement_seconds * 1000))}",
            "row_security": _ROW_SECURITY[row_security],
        }
        self.rows(
            "SELECT set_config(s.name, w.value, false) FROM unnest(%s::text[], %s::text[]) AS w (name, value)"
            " JOIN pg_settings s ON lower(s.name) = w.name",
            "setting up the session",
            (list(settings), list(settings.values())),
        )
        with contextlib.suppress(ConfigError, RetriableError):  # unknown before version 14 and on some systems
            self.rows(f"SET client_connection_check_interval = '{_CLIENT_CHECK_INTERVAL}'", "setting up the session")

    @property
    def version(self) -> str:
        """Server and version."""
        return f"PostgreSQL {(self._session.info.parameter_status('server_version') or '?').split()[0]}"

    @property
    def _takes_any_bytes(self) -> bool:
        """True if the database's encoding is SQL_ASCII."""
        return self._session.info.parameter_status("server_encoding") == "SQL_ASCII"

    def lag_seconds(self) -> float | None:
        """Return the age of a standby's last replayed transaction. 0 if it has replayed all received data.

        :raises RetriableError: the standby has replayed nothing and receives nothing.
        """
        is_standby, lag = self.rows(catalog.LAG_QUERY, "reading the standby's lag")[0]
        if is_standby and lag is None:
            raise RetriableError(
                f"{self._label}: the standby receives nothing from its primary, so the age of its rows is unknown. "
                "Start its replication, or name another server in the connection"
            )
        return None if lag is None else float(lag)

    def list_tables(self) -> list[ListedTable]:
        """Return the tables and views, also those that the user may not read."""
        return [ListedTable(*row) for row in self.rows(catalog.LIST_QUERY, "listing the tables")]

    def describe(self, table_or_query: Table | Query) -> list[SqlColumn]:
        """Return columns from the catalog, or a query's from the planner."""
        if isinstance(table_or_query, Table):
            described_columns = self.rows(
                catalog.COLUMNS_QUERY, f"describing {table_or_query.name!r}", (self.relation(table_or_query),)
            )
            if not described_columns:
                raise ConfigError(
                    f"{self._label}: there is no table {self.relation(table_or_query)}, or the user may not see it. "
                    f"Names are case-sensitive, as in the catalog{self._suggest_table(table_or_query)}"
                )
        else:
            described_columns = [(*column, True) for column in self._describe_by_planner(table_or_query)]
        types = self._resolve_types([(oid, modifier) for _, oid, modifier, _ in described_columns])
        return [
            SqlColumn(name, kind, base, nullable)
            for (name, _, _, nullable), (kind, base) in zip(described_columns, types, strict=True)
        ]

    def _suggest_table(self, table: Table) -> str:
        tables = self.rows(catalog.TABLES_QUERY, "listing the tables")
        return suggest_table(table, [Table(name, schema) for schema, name in tables])

    def _describe_by_planner(
        self, table_or_query: Table | Query, names: Sequence[str] = ()
    ) -> list[tuple[str, int, int]]:
        action = "describing the query" if isinstance(table_or_query, Query) else f"describing {table_or_query.name!r}"
        with self._translate_errors(action), self._session.cursor() as cursor:
            selected_columns = [self.quote(name) for name in names] or "*"
            cursor.execute(self.select(selected_columns, self.relation(table_or_query), limit=0).encode())
            result = cursor.pgresult
            descriptors = cursor.description or []
            columns = [
                (column.name, column.type_code, result.fmod(position) if result else -1)
                for position, column in enumerate(descriptors)
            ]
        names = [name for name, *_ in columns]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"{self._label}: the query {_DUPLICATE_NAME.format(name)}")
        return columns

    def _resolve_types(self, type_modifiers: list[tuple[int, int]]) -> list[tuple[str, str]]:
        oids, modifiers = [oid for oid, _ in type_modifiers], [modifier for _, modifier in type_modifiers]
        rows = self.rows(catalog.TYPES_QUERY, "reading the columns' types", (oids, modifiers))
        return [(kind, base) for kind, base in rows]

    def primary_key(self, table: Table) -> list[str]:
        """Return the primary key's columns."""
        return next((list(index.columns) for index, is_key in self._indexes(table) if is_key), [])

    def indexes(self, table: Table) -> list[Index]:
        """Return the indexes over all rows that begin with a plain column."""
        indexes = [index for index, _ in self._indexes(table)]
        return [index for index in indexes if index.is_unique or index.is_ordered]

    def _indexes(self, table: Table) -> list[tuple[Index, bool]]:
        rows = self.rows(catalog.INDEXES_QUERY, f"reading the indexes of {table.name!r}", (self.relation(table),))
        return [(Index(name, tuple(columns), *properties), is_key) for name, columns, *properties, is_key in rows]

    def estimated_rows(self, table: Table) -> int | None:
        """Return the planner's estimate. None before the first ANALYZE."""
        rows = self.rows(catalog.ROW_ESTIMATE_QUERY, f"reading the size of {table.name!r}", (self.relation(table),))
        return int(rows[0][0]) if rows and rows[0][0] >= 0 else None

    def column_counter(self, table: Table, column: str) -> ColumnCounter | None:
        """Return the sequence of an identity column or a default. None if it counts down.

        The last number is None without the right, or on a standby.
        """
        relation_and_column = (self.relation(table), column)
        rows = self.rows(catalog.SEQUENCE_QUERY, f"reading the sequence of {column!r}", relation_and_column)
        if not rows or rows[0][1] < 0:
            return None
        name, _, cache, cycles, can_read = rows[0]
        gaps = [f"each session takes {cache} numbers in advance"] if cache > 1 else []
        gaps += ["it begins again after its last number"] if cycles else []
        last_number = None
        if can_read:
            (last_number,) = self.rows(
                f"SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM {name}", f"reading sequence {name}"
            )[0]
        return ColumnCounter(f"sequence {name}", last_number, tuple(gaps))

    def quote(self, name: str) -> str:
        """Quote with double quotes."""
        if not name or "\0" in name:
            raise ConfigError(f"{name!r} is not a valid name in PostgreSQL")
        return '"' + name.replace('"', '""') + '"'

    def literal(self, value: object) -> str:
        """Write a value with psycopg."""
        from psycopg import sql

        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            value = value.astimezone(dt.UTC)
        with self._translate_errors("writing a value"):
            return sql.Literal(value).as_string(self._session)

    def begin(self, snapshot: str | None = None) -> None:
        """Begin a repeatable-read, read-only transaction."""
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "beginning the read")
        if snapshot is None:
            return
        try:
            self.rows(f"SET TRANSACTION SNAPSHOT {self.literal(snapshot)}", "sharing a snapshot")
        except (ConfigError, DataError) as error:
            raise RetriableError(f"{error}: the session that exported it has ended") from None

    def lock_tables(self, table_or_query: Table | Query, names: Sequence[str]) -> list[SqlColumn]:
        """Lock the tables as a read does.

        :raises RetriableError: they were rewritten since the snapshot.
        """
        described_columns = self.describe(table_or_query)  # as of the snapshot
        by_name = {column.name: column for column in described_columns}
        existing_names = [name for name in names if name in by_name]
        if isinstance(table_or_query, Table) and existing_names:
            locked_columns = self._describe_by_planner(table_or_query, existing_names)
            types = self._resolve_types([(oid, modifier) for _, oid, modifier in locked_columns])
            described_columns = [
                by_name[name]._replace(type=kind, base=base)
                for (name, *_), (kind, base) in zip(locked_columns, types, strict=True)
            ]
        if changed_tables := self.rows(catalog.REWRITTEN_TABLES_QUERY, "checking whether the table was rewritten"):
            tables = ", ".join(name for (name,) in changed_tables)
            raise RetriableError(
                f"{self._label}: {tables} was rewritten, emptied, replaced or attached after the snapshot was taken, "
                "so the snapshot does not show its rows. Read it again"
            )
        return described_columns

    def end(self) -> None:
        """Commit, which changes nothing."""
        if self._session.info.transaction_status:
            self.rows("COMMIT", "ending the read")

    def export_snapshot(self) -> str:
        """Export the snapshot and return its name. Standbys can too."""
        return str(self.rows("SELECT pg_export_snapshot()", "exporting the snapshot")[0][0])

    def rows(
        self, sql: str, action: str = "querying the database", values: tuple[Any, ...] | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a statement."""
        with self._translate_errors(action), self._session.cursor() as cursor:
            cursor.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def read_columns(self, columns: Iterable[SqlColumn], choices: ValueChoices) -> list[ReadColumn]:
        """Decide how columns are read with COPY."""
        read_columns = [read_column(column, self.quote(column.name), choices) for column in columns]
        return [with_bytes_advice(column) for column in read_columns] if self._takes_any_bytes else read_columns

    def _read(
        self, columns: Sequence[ReadColumn], select: StatementBuilder, block_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        converter = CsvConverter(columns)
        statement = select([column.expression for column in columns])
        # The server would refuse bytes that are not UTF-8 without naming the column. The converter names it.
        encoding = ", ENCODING 'SQL_ASCII'" if self._takes_any_bytes else ""
        with self._translate_errors("reading rows"), self._session.cursor() as cursor:
            with cursor.copy(f"COPY ({statement}\n) TO STDOUT (FORMAT csv{encoding})".encode()) as copy:
                for block, _ in join_blocks(copy, block_bytes):
                    yield converter.convert_block(block)
            if cursor.rowcount != converter.converted_rows:
                raise RetriableError(
                    f"reading rows: PostgreSQL sent {cursor.rowcount:,} rows, but {converter.converted_rows:,} arrived"
                )

    def cancel(self) -> None:
        """End the running statement."""
        self._is_cancelled = True
        with self._translate_errors("cancelling"):
            self._session.cancel_safe(timeout=_CANCEL_SECONDS)

    def close(self) -> None:
        """End the session. Cancels a running statement."""
        import psycopg
        from psycopg.pq import TransactionStatus

        if self._session.closed:
            return
        try:
            if self._session.info.transaction_status == TransactionStatus.ACTIVE:
                self._session.cancel_safe(timeout=_CANCEL_SECONDS)
        except psycopg.Error:
            pass  # the server will notice that the client is gone
        finally:
            self._session.close()

    @contextlib.contextmanager
    def _translate_errors(self, action: str) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise sql_error(error, f"{self._label}: {action}", is_cancelled=self._is_cancelled) from None
