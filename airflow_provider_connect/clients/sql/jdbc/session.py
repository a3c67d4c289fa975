"""A session through a JDBC driver, in the JVM of Spark's driver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_connect.clients.sql.database import (
    Database,
    Query,
    ReadColumn,
    SessionLimits,
    SqlColumn,
    StatementBuilder,
    Table,
    ValueChoices,
)
from airflow_provider_connect.clients.sql.jdbc.connection import connection_secrets, reader_options
from airflow_provider_connect.clients.sql.jdbc.errors import error_for_exceptions, jvm_exceptions
from airflow_provider_connect.clients.sql.jdbc.types import base_type, read_column
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

_NOT_NULL = 0
_NO_ROWS = "1 = 0"


class JdbcDatabase(Database):
    """A session over JDBC."""

    def __init__(self, link: Any, connection: Connection, quote: str, seconds: int) -> None:
        self._java_connection = link
        self._label = f"connection {connection.conn_id!r}"
        self._secrets = connection_secrets(connection)
        self.quote_mark = quote
        self._seconds = seconds

    @classmethod
    def open(cls, connection: Connection, spark: Any, limits: SessionLimits) -> Self:
        """Open a session in the JVM of a ``SparkSession``.

        :raises ConfigError: a wrong connection, no driver, or a wrong dialect.
        :raises RetriableError: no connection.
        """
        jvm = spark.sparkContext._jvm
        options = reader_options(connection, "(SELECT 1) connect_rows", limits)
        label, secrets = f"connection {connection.conn_id!r}", connection_secrets(connection)
        try:
            dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
            jdbc_options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(
                jvm.PythonUtils.toScalaMap(options)
            )
            link = dialect.createConnectionFactory(jdbc_options).apply(-1)
            quote = str(link.getMetaData().getIdentifierQuoteString() or "").strip()
            spark_quoted = str(dialect.quoteIdentifier("c"))
        except Exception as error:  # noqa: BLE001  # its text may hold the URL
            raise error_for_exceptions(label, jvm_exceptions(error), secrets=secrets) from None
        database = cls(link, connection, quote, int(options["queryTimeout"]))
        if spark_quoted != f"{quote}c{quote}":
            database.close()
            raise ConfigError(
                f"{label}: Spark would quote a column's name as {spark_quoted}, which is not a name in this database. "
                "Spark has no dialect for this database, so it cannot be read over JDBC"
            )
        database._call_driver(lambda: link.setReadOnly(True))
        return database

    def close(self) -> None:
        """End the session, even a lost one."""
        try:
            self._java_connection.close()
        except Exception as error:
            if not jvm_exceptions(error):
                raise

    def _call_driver(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ConnectError:
            raise
        except Exception as error:  # noqa: BLE001  # shown by its class and codes
            raise error_for_exceptions(self._label, jvm_exceptions(error), secrets=self._secrets) from None

    @property
    def version(self) -> str:
        """Product name and version."""
        metadata = self._call_driver(self._java_connection.getMetaData)
        return f"{metadata.getDatabaseProductName()} {str(metadata.getDatabaseProductVersion()).splitlines()[0]}"

    def describe(self, table_or_query: Table | Query) -> list[SqlColumn]:
        """Return the columns without reading a row."""
        sql = self.select(["*"], self.relation(table_or_query), where=_NO_ROWS)
        return list(self._call_driver(lambda: self._run(sql, _columns)))

    def reads_old_dates(self, table_or_query: Table | Query) -> bool:
        """Return whether the driver returns a date before 1582 as the database has it.

        Java's dates have the Julian calendar before 1582-10-15, which Spark expects. A driver that counts days by the
        Gregorian one shifts them by days. False also if the database does not answer. True for a table without rows.
        """
        sql = self.select([self.literal(_OLD_DATE)], self.relation(table_or_query))
        try:
            values = self._call_driver(lambda: self._run(sql, _rows, max_rows=1))
        except ConnectError:
            return False
        return all(str(value)[:10] == str(_OLD_DATE) for (value,) in values)

    def _run(self, sql: str, read_result: Callable[[Any], Iterable[Any]], max_rows: int = 0) -> list[Any]:
        """Run a statement.

        :param max_rows: largest number of rows to read. 0 for all.
        """
        statement = self._java_connection.createStatement()
        try:
            statement.setQueryTimeout(self._seconds)
            statement.setMaxRows(max_rows)
            return list(read_result(statement.executeQuery(sql)))
        finally:
            statement.close()

    def primary_key(self, table: Table) -> list[str]:
        """Return the primary key's columns, or []."""

        def read() -> list[tuple[int, str]]:
            schema = table.schema or self._java_connection.getSchema()
            rows = self._java_connection.getMetaData().getPrimaryKeys(
                self._java_connection.getCatalog(), schema, table.name
            )
            numbered_columns = []
            while rows.next():
                numbered_columns.append((rows.getInt("KEY_SEQ"), str(rows.getString("COLUMN_NAME"))))
            rows.close()
            return numbered_columns

        return [name for _, name in sorted(self._call_driver(read))]

    def quote(self, name: str) -> str:
        """Quote a name."""
        return f"{self.quote_mark}{name.replace(self.quote_mark, self.quote_mark * 2)}{self.quote_mark}"

    def literal(self, value: object) -> str:
        """Write a value. Dates and times have JDBC's escape form."""
        if isinstance(value, dt.datetime):
            if value.tzinfo is not None:
                raise ConfigError(
                    "a time with a zone has no literal that every database reads: cast the column to a time without a "
                    "zone in a query"
                )
            return f"{{ts '{value.isoformat(sep=' ', timespec='microseconds')}'}}"
        if isinstance(value, dt.date):
            return f"{{d '{value.isoformat()}'}}"
        if isinstance(value, Decimal):
            return format(value, "f")
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise ConfigError(f"a value of {type(value).__name__} cannot be compared in every database")

    def relation(self, table_or_query: Table | Query) -> str:
        """Return the table or query as SQL without AS."""
        if isinstance(table_or_query, Query):
            return f"(\n{table_or_query.sql.strip().rstrip(';')}\n) {self.quote('query')}"
        return super().relation(table_or_query)

    def select(
        self,
        expressions: Iterable[str],
        relation: str,
        *,
        where: str = "",
        order_by: str = "",
        limit: int = -1,
    ) -> str:
        """Return a SELECT statement without LIMIT, unknown to some databases."""
        if limit == 0:
            where = f"({where}) AND {_NO_ROWS}" if where else _NO_ROWS
        sql = super().select(expressions, relation, where=where, order_by=order_by)
        return f"{sql}\nFETCH FIRST {limit:d} ROWS ONLY" if limit > 0 else sql

    def begin(self, snapshot: str | None = None) -> None:
        """Do nothing. Spark reads over its own connections."""

    def end(self) -> None:
        """Do nothing."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement. Values are numbers, dates, timestamps or texts."""
        return list(self._call_driver(lambda: self._run(sql, _rows)))

    def read_columns(self, columns: Iterable[SqlColumn], choices: ValueChoices) -> list[ReadColumn]:
        """Decide how columns are read.

        :raises ConfigError: Spark would change values.
        """
        return [read_column(column, choices, self.quote(column.name)) for column in columns]

    def _read(
        self, columns: Sequence[ReadColumn], select: StatementBuilder, block_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        raise ConfigError("rows of a jdbc connection are read by Spark itself")

    def cancel(self) -> None:
        """Do nothing. This session's statements are short."""


def _columns(rows: Any) -> Iterator[SqlColumn]:
    metadata = rows.getMetaData()
    for position in range(1, metadata.getColumnCount() + 1):
        code, kind = metadata.getColumnType(position), str(metadata.getColumnTypeName(position)).lower()
        precision, scale = metadata.getPrecision(position), metadata.getScale(position)
        base = base_type(code, precision, scale, is_signed=metadata.isSigned(position))
        if base.startswith(("decimal", "numeric")) and precision:
            kind = f"{kind}({precision},{scale})"
        yield SqlColumn(
            str(metadata.getColumnLabel(position)), kind, base, is_nullable=metadata.isNullable(position) != _NOT_NULL
        )


def _rows(rows: Any) -> Iterator[tuple[Any, ...]]:
    metadata = rows.getMetaData()
    kinds = [
        base_type(metadata.getColumnType(position), 0, 0, is_signed=True)
        for position in range(1, metadata.getColumnCount() + 1)
    ]
    while rows.next():
        yield tuple(_python_value(rows, position, kind) for position, kind in enumerate(kinds, start=1))


def _python_value(rows: Any, position: int, kind: str) -> Any:
    if kind in ("date", "timestamp"):
        java_value = rows.getDate(position) if kind == "date" else rows.getTimestamp(position)
        return None if java_value is None else _parse_time(str(java_value.toString()), kind)
    text = rows.getString(position)
    if text is None:
        return None
    return Decimal(str(text)) if kind in _NUMBERS or kind.startswith(("decimal", "numeric")) else str(text)


def _parse_time(text: str, kind: str) -> dt.date:
    try:
        # Cut to microseconds: a bound slightly below its row is still valid.
        return dt.date.fromisoformat(text) if kind == "date" else dt.datetime.fromisoformat(text[:26])
    except ValueError:
        raise DataError("the key has a date before the year 1 or after 9999: leave out parallel_chunks") from None


_OLD_DATE = dt.date(1500, 3, 1)
_NUMBERS = ("tinyint", "smallint", "integer", "bigint")
