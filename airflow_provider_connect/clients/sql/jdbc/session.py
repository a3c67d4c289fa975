"""One session with a database through its JDBC driver, in the JVM of Spark's driver: names, types and bounds.

Rows do not come this way: Spark reads them (:func:`.reader_options`). The session is made as Spark makes its own, so
what one is told the other is told, too. Spark is handed in, and never imported.
"""

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
    """See :class:`.Database`.

    :ivar quoted_by: what stands around a name.
    """

    def __init__(self, link: Any, connection: Connection, quote: str, seconds: int) -> None:
        self._link = link
        self._label = f"connection {connection.conn_id!r}"
        self._secrets = connection_secrets(connection)
        self.quote_mark = quote
        self._seconds = seconds

    @classmethod
    def open(cls, connection: Connection, spark: Any, limits: SessionLimits) -> Self:
        """Open a session.

        :param spark: Spark's SQL session.
        :raises ConfigError: the connection is wrong, there is no driver for it, or Spark does not know how the database
            quotes names.
        :raises RetriableError: the database cannot be reached.
        """
        jvm = spark.sparkContext._jvm
        options = reader_options(connection, "(SELECT 1) connect_rows", limits)
        place, secrets = f"connection {connection.conn_id!r}", connection_secrets(connection)
        try:
            dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
            held = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(jvm.PythonUtils.toScalaMap(options))
            link = dialect.createConnectionFactory(held).apply(-1)
            quote = str(link.getMetaData().getIdentifierQuoteString() or "").strip()
            sparks = str(dialect.quoteIdentifier("c"))
        except Exception as error:  # noqa: BLE001  # its text may hold the URL
            raise error_for_exceptions(place, jvm_exceptions(error), secrets=secrets) from None
        found = cls(link, connection, quote, int(options["queryTimeout"]))
        if sparks != f"{quote}c{quote}":
            found.close()
            raise ConfigError(
                f"{place}: Spark would write a column's name as {sparks}, which is no name in this database: Spark has "
                "no dialect for it, and it cannot be read this way"
            )
        found._told(lambda: link.setReadOnly(True))
        return found

    def close(self) -> None:
        """End the session; what cannot be ended is gone already."""
        try:
            self._link.close()
        except Exception as error:
            if not jvm_exceptions(error):
                raise

    def _told(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except ConnectError:
            raise
        except Exception as error:  # noqa: BLE001  # told by its class and codes
            raise error_for_exceptions(self._label, jvm_exceptions(error), secrets=self._secrets) from None

    @property
    def version(self) -> str:
        """The database as its driver names it."""
        about = self._told(self._link.getMetaData)
        return f"{about.getDatabaseProductName()} {str(about.getDatabaseProductVersion()).splitlines()[0]}"

    def describe(self, what: Table | Query) -> list[SqlColumn]:
        """Return the columns in order; no row is read.

        :raises ConfigError: there is no such table, or the query cannot be understood.
        """
        sql = self.select(["*"], self.relation(what), where=_NO_ROWS)
        return list(self._told(lambda: self._statement(sql, _columns)))

    def _statement(self, sql: str, read: Callable[[Any], Iterable[Any]]) -> list[Any]:
        statement = self._link.createStatement()
        try:
            statement.setQueryTimeout(self._seconds)
            return list(read(statement.executeQuery(sql)))
        finally:
            statement.close()

    def primary_key(self, table: Table) -> list[str]:
        """Return the primary key's columns in its order; [] without one."""

        def read() -> list[tuple[int, str]]:
            schema = table.schema or self._link.getSchema()
            rows = self._link.getMetaData().getPrimaryKeys(self._link.getCatalog(), schema, table.name)
            found = []
            while rows.next():
                found.append((rows.getInt("KEY_SEQ"), str(rows.getString("COLUMN_NAME"))))
            rows.close()
            return found

        return [name for _, name in sorted(self._told(read))]

    def quote(self, name: str) -> str:
        """Return a name as it stands in SQL."""
        return f"{self.quote_mark}{name.replace(self.quote_mark, self.quote_mark * 2)}{self.quote_mark}"

    def literal(self, value: object) -> str:
        """Return a value as it stands in SQL, dates and times in JDBC's own form, which every driver knows."""
        if isinstance(value, dt.datetime):
            if value.tzinfo is not None:
                raise ConfigError("an instant has no form that every database understands: cast the column in a query")
            return f"{{ts '{value.isoformat(sep=' ', timespec='microseconds')}'}}"
        if isinstance(value, dt.date):
            return f"{{d '{value.isoformat()}'}}"
        if isinstance(value, Decimal):
            return format(value, "f")
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise ConfigError(f"a value of {type(value).__name__} cannot be compared in every database")

    def relation(self, what: Table | Query) -> str:
        """Return what stands after FROM. Not every database takes AS before the name of a query."""
        if isinstance(what, Query):
            return f"(\n{what.sql.strip().rstrip(';')}\n) {self.quote('query')}"
        return super().relation(what)

    def select(
        self,
        expressions: Iterable[str],
        relation: str,
        *,
        where: str = "",
        order_by: str = "",
        limit: int = -1,
    ) -> str:
        """Return a statement; not every database knows LIMIT."""
        if limit == 0:
            where = f"({where}) AND {_NO_ROWS}" if where else _NO_ROWS
        sql = super().select(expressions, relation, where=where, order_by=order_by)
        return f"{sql}\nFETCH FIRST {limit:d} ROWS ONLY" if limit > 0 else sql

    def begin(self, snapshot: str | None = None) -> None:
        """Do nothing: Spark reads over connections of its own."""

    def end(self) -> None:
        """Do nothing."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its few rows: numbers, dates and times as Python's own, all else as text."""
        return list(self._told(lambda: self._statement(sql, _rows)))

    def read_columns(self, columns: Iterable[SqlColumn], choices: ValueChoices) -> list[ReadColumn]:
        """Return how to read columns.

        :raises ConfigError: Spark's reader would bend the values of one.
        """
        return [read_column(column, choices, self.quote(column.name)) for column in columns]

    def _read(
        self, columns: Sequence[ReadColumn], select: StatementBuilder, block_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Refuse: Spark reads the rows.

        :raises ConfigError: always.
        """
        raise ConfigError("rows of a jdbc connection are read by Spark itself")

    def cancel(self) -> None:
        """Do nothing: statements of this session are short, and end in time."""


def _columns(rows: Any) -> Iterator[SqlColumn]:
    about = rows.getMetaData()
    for at in range(1, about.getColumnCount() + 1):
        code, kind = about.getColumnType(at), str(about.getColumnTypeName(at)).lower()
        precision, scale = about.getPrecision(at), about.getScale(at)
        base = base_type(code, precision, scale, is_signed=about.isSigned(at))
        if base.startswith(("decimal", "numeric")) and precision:
            kind = f"{kind}({precision},{scale})"
        yield SqlColumn(str(about.getColumnLabel(at)), kind, base, is_nullable=about.isNullable(at) != _NOT_NULL)


def _rows(rows: Any) -> Iterator[tuple[Any, ...]]:
    about = rows.getMetaData()
    kinds = [base_type(about.getColumnType(at), 0, 0, is_signed=True) for at in range(1, about.getColumnCount() + 1)]
    while rows.next():
        yield tuple(_value(rows, at, kind) for at, kind in enumerate(kinds, start=1))


def _value(rows: Any, at: int, kind: str) -> Any:
    if kind in ("date", "timestamp"):
        found = rows.getDate(at) if kind == "date" else rows.getTimestamp(at)
        return None if found is None else _time(str(found.toString()), kind)
    text = rows.getString(at)
    if text is None:
        return None
    return Decimal(str(text)) if kind in _NUMBERS or kind.startswith(("decimal", "numeric")) else str(text)


def _time(text: str, kind: str) -> dt.date:
    try:
        # Down to a microsecond: a bound below its row is one all the same.
        return dt.date.fromisoformat(text) if kind == "date" else dt.datetime.fromisoformat(text[:26])
    except ValueError:
        raise DataError("the key has a date before the year 1, or after 9999: leave out parallel_chunks") from None


_NUMBERS = ("tinyint", "smallint", "integer", "bigint")
