"""Contract of a read-only session with PostgreSQL, MySQL, SQLite or over JDBC."""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from airflow_provider_connect.closing import Closable
from airflow_provider_connect.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

Decimals = str
"""How decimal numbers are read.

``exact``: as decimals, or as text if 38 digits are too few or no precision is declared. ``decimal(p,s)``: as decimals,
of this type where ``exact`` reads text. ``string``: as text. ``double``: as the nearest double.
"""
ZeroDates = Literal["fail", "null"]
"""MySQL's dates with month or day zero fail the read, or become NULL."""
RowSecurity = Literal["refuse", "accept"]
"""If PostgreSQL's policies hide rows, the read fails (``refuse``) or returns the visible rows (``accept``)."""
DEFAULT_BLOCK_BYTES = 1 << 20
"""Approximate size of a batch in bytes."""
_DECIMAL_CHOICE = re.compile(r"decimal\((\d+), ?(\d+)\)")
MAX_DECIMAL_DIGITS = 38
"""Most digits of a decimal in Arrow's decimal128, Spark and Delta."""
StatementBuilder = Callable[[list[str]], str]
"""Returns a SELECT statement for a list of expressions."""


class Table(NamedTuple):
    """A table or view.

    :param schema: PostgreSQL's schema or MySQL's database. "" for the session's default.
    """

    name: str
    schema: str = ""


class ListedTable(NamedTuple):
    """A table or view in the database's catalog.

    :param schema: its schema, or MySQL's database.
    :param is_default: True if its name alone names it in a session.
    :param stores_rows: False for a view.
    """

    name: str
    schema: str
    is_default: bool
    stores_rows: bool = True


class Query(NamedTuple):
    """A user's SELECT statement, which may begin with WITH."""

    sql: str


def suggest_table(table: Table, tables: Iterable[Table]) -> str:
    """Return a hint with the most similar of the user's tables, or ``""``."""
    names = {
        f"{listed_table.schema}.{listed_table.name}" if listed_table.schema else listed_table.name: listed_table
        for listed_table in tables
    }
    same_names = [text for text, listed_table in names.items() if listed_table.name.lower() == table.name.lower()]
    wanted_name = f"{table.schema}.{table.name}" if table.schema else table.name
    similar_names = difflib.get_close_matches(wanted_name, names, n=1) or [
        text for text, listed_table in names.items() if difflib.get_close_matches(table.name, [listed_table.name])
    ]
    candidates = [*same_names, *similar_names]
    return f". Did you mean {candidates[0]!r}?" if candidates else ""


class SqlColumn(NamedTuple):
    """A column as the database describes it, as plain data for tasks.

    :param type: the database's name of the type: ``numeric(40,2)``, ``bigint unsigned``.
    :param base: a domain's base type, or ``enum``, ``array``, ``composite`` or ``range``, else ``type``.
    :param is_nullable: False only if the database itself refuses NULL. True for columns of a query.
    """

    name: str
    type: str
    base: str
    is_nullable: bool = True


class Index(NamedTuple):
    """An index.

    :param columns: whole columns in order, up to the first expression or partly indexed text.
    :param is_unique: True if the rows of a read have distinct values in ``columns``, except NULL.
    :param is_ordered: True if it can find a range of the first column.
    """

    name: str
    columns: tuple[str, ...]
    is_unique: bool
    is_ordered: bool = True


class ColumnCounter(NamedTuple):
    """The counter of a column's numbers: a sequence or ``AUTO_INCREMENT``.

    :param last_number: greatest number given so far. None if unknown, as on a replica.
    :param gaps: further reasons for lower numbers after higher ones.
    """

    name: str
    last_number: int | None
    gaps: tuple[str, ...] = ()


class ValueChoices(NamedTuple):
    """A user's choices for values that do not fit their type."""

    decimals: Decimals = "exact"
    zero_dates: ZeroDates = "fail"


class ReadColumn(NamedTuple):
    """How one column is selected and converted.

    :param expression: quoted SQL to select.
    :param read_type: Arrow type parsed from the server's text, then cast to ``type``.
    :param type: Arrow type in the batch.
    :param form: ``hex`` for bytes in hexadecimal digits.
    :param is_json: True for JSON that the server has validated.
    """

    name: str
    database_type: str
    expression: str
    read_type: pa.DataType
    type: pa.DataType
    form: Literal["plain", "hex"] = "plain"
    is_nullable: bool = True
    is_json: bool = False
    advice: str = ""

    @property
    def title(self) -> str:
        """Name and type, for messages."""
        return f"column {self.name!r} ({self.database_type})"

    @property
    def field(self) -> pa.Field:
        """Field of an Arrow schema."""
        import pyarrow as pa

        return pa.field(
            self.name, self.type, nullable=self.is_nullable, metadata={"json": "checked"} if self.is_json else None
        )


def decimal_type(precision: int, scale: int, choices: ValueChoices) -> pa.DataType:
    """Return the Arrow type for decimal numbers."""
    import pyarrow as pa

    if choices.decimals == "double":
        return pa.float64()
    if choices.decimals == "string":
        return pa.string()
    if _is_decimal128(precision, scale):
        return pa.decimal128(precision, scale)
    undeclared = decimal_digits(choices.decimals)
    return pa.decimal128(*undeclared) if undeclared else pa.string()


def decimal_digits(decimals: Decimals) -> tuple[int, int] | None:
    """Return precision and scale of a choice such as ``decimal(38,9)``. None for other texts."""
    match = _DECIMAL_CHOICE.fullmatch(decimals)
    digits = (int(match[1]), int(match[2])) if match else (0, 0)
    return digits if _is_decimal128(*digits) else None


def digits_advice(kind: pa.DataType) -> str:
    """Return the remedy for a number with too many digits."""
    return f"more digits than {kind}? Round it in a query, or set decimals='string'"


def _is_decimal128(precision: int, scale: int) -> bool:
    return 0 < precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision


class SessionLimits(NamedTuple):
    """Time limits of a session.

    :param statement_seconds: reading included.
    """

    statement_seconds: float = 3600.0
    connect_seconds: float = 30.0


class Database(Closable, ABC):
    """One session with a database. Only one thread may use it, except for :meth:`cancel`.

    Methods raise ``ConfigError`` if a person must act, ``RetriableError`` for passing problems, and ``DataError`` for
    unreadable values. Messages never contain a value.
    """

    _label: str
    """The connection's name in messages."""

    # Server

    @property
    @abstractmethod
    def version(self) -> str:
        """Server and version: ``PostgreSQL 15.18``, ``MariaDB 10.11.19``."""

    queried_uuids_were_texts: ClassVar[bool] = False
    """True if versions up to 1.0.0rc1 read a query's UUIDs as texts, with other keys."""

    shares_snapshots: ClassVar[bool] = False
    """True if other sessions can read from this session's snapshot. See :meth:`export_snapshot`."""

    def lag_seconds(self) -> float | None:
        """Return a replica's lag behind its primary. None if there is none or it is unknown."""
        return None

    # Catalog

    def list_tables(self) -> list[ListedTable]:
        """Return the tables and views, sorted by schema and name, without the database's own and without partitions.

        :raises ConfigError: the database's tables cannot be listed.
        """
        raise ConfigError(f"{self._label}: its tables cannot be listed")

    @abstractmethod
    def describe(self, table_or_query: Table | Query) -> list[SqlColumn]:
        """Return the columns in order, without running a query.

        :raises ConfigError: no table, or an invalid query.
        """

    def require_all_columns(self, table: Table) -> None:
        """Raise ConfigError if columns are hidden from the user."""

    @abstractmethod
    def primary_key(self, table: Table) -> list[str]:
        """Return the primary key's columns in order, or [].

        MySQL may index only the beginning of a text: see :meth:`indexes`.
        """

    def indexes(self, table: Table) -> list[Index]:
        """Return the indexes that identify a row or find a range of their first column. [] if unknown."""
        return []

    def estimated_rows(self, table: Table) -> int | None:
        """Estimate a table's rows, or return None."""
        return None

    def column_counter(self, table: Table, column: str) -> ColumnCounter | None:
        """Return the counter of a column's numbers. None if missing or hidden."""
        return None

    # SQL

    @abstractmethod
    def quote(self, name: str) -> str:
        """Quote a name for SQL."""

    @abstractmethod
    def literal(self, value: object) -> str:
        """Write None, a bool, a number, a text, bytes, a date or a time as SQL, instants in UTC."""

    def key_value(self, column: SqlColumn) -> str:
        """Return the SQL expression for a column's value in :meth:`rows`, in a form that :meth:`literal` writes."""
        return self.quote(column.name)

    def select(
        self,
        expressions: Iterable[str],
        relation: str,
        *,
        where: str = "",
        order_by: str = "",
        limit: int = -1,
    ) -> str:
        """Return a SELECT statement. Parts may be a user's SQL that ends in a comment.

        :param limit: all rows if negative.
        """
        parts = [f"SELECT {', '.join(expressions)}", f"FROM {relation}"]
        parts += [f"WHERE {where}"] if where else []
        parts += [f"ORDER BY {order_by}"] if order_by else []
        parts += [f"LIMIT {limit:d}"] if limit >= 0 else []
        return "\n".join(parts)

    def relation(self, table_or_query: Table | Query) -> str:
        """Return the table or query as SQL, to follow FROM."""
        if isinstance(table_or_query, Query):
            # On its own lines, since a query may end in a comment.
            return f"(\n{table_or_query.sql.strip().rstrip(';')}\n) AS {self.quote('query')}"
        return ".".join(self.quote(part) for part in (table_or_query.schema, table_or_query.name) if part)

    # Reading

    @abstractmethod
    def begin(self, snapshot: str | None = None) -> None:
        """Begin a read-only transaction, which sees the database as of its first read.

        :param snapshot: of another session (:meth:`export_snapshot`).
        :raises RetriableError: that session has ended.
        """

    def lock_tables(self, table_or_query: Table | Query, names: Sequence[str]) -> list[SqlColumn]:
        """Prevent changes to the table's definition until :meth:`end`. Returns the columns as they will be read.

        Call it between :meth:`begin` and the first row.

        :param names: columns to read.
        :raises ConfigError: the table is gone or hidden.
        :raises RetriableError: it was rewritten, emptied or replaced since the transaction began.
        """
        return self.describe(table_or_query)

    @abstractmethod
    def end(self) -> None:
        """End the transaction, if any."""

    def export_snapshot(self) -> str:
        """Return a name by which other sessions can read this transaction's snapshot until it ends.

        :raises ConfigError: the database cannot share snapshots.
        """
        raise ConfigError(f"{self._label}: {self.version} cannot share a snapshot between sessions")

    @abstractmethod
    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement with few result rows."""

    def one_row(self, sql: str) -> tuple[Any, ...]:
        """Run a statement and return its only row.

        :raises DataError: any other number.
        """
        rows = self.rows(sql)
        if len(rows) != 1:
            raise DataError(f"the database returned {len(rows)} rows instead of one")
        return rows[0]

    @abstractmethod
    def read_columns(self, columns: Iterable[SqlColumn], choices: ValueChoices) -> list[ReadColumn]:
        """Decide how columns are read, without the server."""

    def read(
        self,
        columns: Sequence[ReadColumn],
        relation: str,
        *,
        where: str = "",
        order_by: str = "",
        block_bytes: int = DEFAULT_BLOCK_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows in nonempty batches of about ``block_bytes`` bytes.

        Ends normally only if the server confirmed that it sent all rows. Close the session to stop early.

        :param where: SQL condition. "" for all rows.
        :param order_by: SQL expressions. "" for any order.
        """
        select = partial(self.select, relation=relation, where=where, order_by=order_by)
        return self._read(columns, select, block_bytes)

    @abstractmethod
    def _read(
        self, columns: Sequence[ReadColumn], select: StatementBuilder, block_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows. See :meth:`read`."""

    @abstractmethod
    def cancel(self) -> None:
        """End another thread's statement in this session, with ``RetriableError`` there."""
