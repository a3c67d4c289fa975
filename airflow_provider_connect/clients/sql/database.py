"""What a database is to its readers: the contract, the same for PostgreSQL, MySQL and SQLite.

A session only reads, and the server itself sees to that. Statements are put together from what the session quotes:
:meth:`Database.relation`, :meth:`Database.quote` and :meth:`Database.literal`. There are no placeholders, so a ``%`` or
``?`` in a user's own SQL is what it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from airflow_provider_connect.closing import Closable
from airflow_provider_connect.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

Decimals = Literal["exact", "string", "double"]
"""How a decimal number is read.

``exact``: as a decimal, or as text where Arrow's and Spark's 38 digits are too few or the column declares no precision.
``string``: as text, every one. ``double``: as the nearest double.
"""
ZeroDates = Literal["fail", "null"]
"""What MySQL's dates with month or day zero become."""
RowSecurity = Literal["refuse", "accept"]
"""Whether a read fails or returns the visible rows if PostgreSQL's policies hide rows from the user."""
DEFAULT_BLOCK_BYTES = 1 << 20
"""About how many bytes of rows one batch is made of."""
MAX_DECIMAL_DIGITS = 38
"""What Arrow's decimal128, Spark and Delta hold."""
StatementBuilder = Callable[[list[str]], str]
"""Returns the statement that reads some expressions of the rows that are meant."""


class Table(NamedTuple):
    """A table or a view.

    :param schema: a schema of PostgreSQL, a database of MySQL; "" for the one that the session finds by itself.
    """

    name: str
    schema: str = ""


class Query(NamedTuple):
    """A user's own SELECT; it may begin with WITH."""

    sql: str


class SqlColumn(NamedTuple):
    """A column as the database describes it: plain data, which travels to tasks.

    :param type: as the database names it: ``numeric(40,2)``, ``bigint unsigned``.
    :param base: the type that decides how the column is read: a domain's own type, or ``enum``, ``array``,
        ``composite``, ``range``; otherwise the same as ``type``.
    :param is_nullable: False only if the database itself refuses NULL; the columns of a query always may be NULL.
    """

    name: str
    type: str
    base: str
    is_nullable: bool = True


class Index(NamedTuple):
    """An index over plain columns, in its order.

    :param columns: whole columns. The part that follows an expression or the beginning of a text is left out.
    :param is_unique: True if no two rows that a read of the table returns have the same values in ``columns``, except
        NULL. The index is unique, whole, valid, checked at each statement and over all rows, those of inheriting tables
        included.
    :param is_ordered: True if a range of the first column can use it.
    """

    name: str
    columns: tuple[str, ...]
    is_unique: bool
    is_ordered: bool = True


class ColumnCounter(NamedTuple):
    """What gives a column its numbers: a sequence, ``AUTO_INCREMENT``.

    :param name: in words, for messages.
    :param given: the greatest number that it may have given out, so that the next one is greater; None if nobody can
        tell, as on a replica.
    :param gaps: why a number may come after a greater one; () if only because its transaction takes longer.
    """

    name: str
    last_number: int | None
    gaps: tuple[str, ...] = ()


class ValueChoices(NamedTuple):
    """What a user decides about values that have no exact home."""

    decimals: Decimals = "exact"
    zero_dates: ZeroDates = "fail"


class ReadColumn(NamedTuple):
    """How one column is read.

    :param database_type: the type as the database names it, for messages.
    :param expression: what is selected, quoted already.
    :param read_type: what the server's text is converted to; the same as ``type``, or what a cast makes it from.
    :param type: the column's type in the batch.
    :param form: ``hex`` where the text is bytes in hexadecimal digits, else ``plain``.
    :param is_json: whether the text is a JSON document that the server itself has checked.
    :param advice: what to do about a value that cannot be converted; ends a message.
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
        """The column as messages name it."""
        return f"column {self.name!r} ({self.database_type})"

    @property
    def field(self) -> pa.Field:
        """The column of a schema."""
        import pyarrow as pa

        return pa.field(
            self.name, self.type, nullable=self.is_nullable, metadata={"json": "checked"} if self.is_json else None
        )


def decimal_type(precision: int, scale: int, choices: ValueChoices) -> pa.DataType:
    """Return the type that decimal numbers are read as.

    :param precision: as the column declares it; 0 if it does not.
    """
    import pyarrow as pa

    if choices.decimals == "double":
        return pa.float64()
    is_exact = choices.decimals == "exact" and 0 < precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision
    return pa.decimal128(precision, scale) if is_exact else pa.string()


class SessionLimits(NamedTuple):
    """How a session is kept from being a burden.

    :param statement_seconds: the server ends a statement that takes longer, its reading included.
    :param connect_seconds: how long the server may take to let us in.
    """

    statement_seconds: float = 3600.0
    connect_seconds: float = 30.0


class Database(Closable, ABC):
    """One session. One thread uses it; :meth:`cancel` alone may come from another.

    Every method raises ``ConfigError`` for what a person must mend (a table that is not there, a missing right, wrong
    SQL), ``RetriableError`` for what may pass (a server that went away, a timeout, a conflict on a standby) and
    ``DataError`` for a value that cannot be read. Messages hold the server's code, and never a value.
    """

    _label: str
    """The connection in words, for messages."""

    # What the server is

    @property
    @abstractmethod
    def version(self) -> str:
        """The server and its version: ``PostgreSQL 15.18``, ``MariaDB 10.11.19``."""

    queried_uuids_were_texts: ClassVar[bool] = False
    """Whether versions up to 1.0.0rc1 took a query's UUIDs for texts, so that their keys were others."""

    shares_snapshots: ClassVar[bool] = False
    """Whether other sessions can see the rows as one session saw them: :meth:`export_snapshot`."""

    def lag_seconds(self) -> float | None:
        """Return by how much a replica is behind its primary; None if this server is no replica, or does not say."""
        return None

    # What is in it

    @abstractmethod
    def describe(self, table_or_query: Table | Query) -> list[SqlColumn]:
        """Return the columns in order; a query is not run for that.

        :raises ConfigError: if there is no such table, or the query cannot be understood.
        """

    def require_all_columns(self, table: Table) -> None:
        """Make sure that :meth:`describe` shows every column of a table.

        Does nothing by default, for databases that show all columns.

        :raises ConfigError: the database hides columns that the user may not read.
        """

    @abstractmethod
    def primary_key(self, table: Table) -> list[str]:
        """Return the primary key's columns in their order; [] without a primary key.

        Contains the whole columns, also if the key covers only the beginnings of texts. Only :meth:`indexes` tells
        whether they identify a row.
        """

    def indexes(self, table: Table) -> list[Index]:
        """Return the indexes that identify a row or serve a range of their first column, the primary key's included.

        None by default, for databases that do not tell them.
        """
        return []

    def estimated_rows(self, table: Table) -> int | None:
        """Return about how many rows there are, as the database's own statistics say; None if they do not."""
        return None

    def column_counter(self, table: Table, column: str) -> ColumnCounter | None:
        """Return what gives a column its numbers; None if the database does not, or does not tell."""
        return None

    # SQL

    @abstractmethod
    def quote(self, name: str) -> str:
        """Return a name as it stands in SQL."""

    @abstractmethod
    def literal(self, value: object) -> str:
        """Return a value as it stands in SQL: None, a bool, a number, a text, bytes, a date or a time.

        An instant with a zone is written in UTC, which is every session's zone.
        """

    def select(
        self,
        expressions: Iterable[str],
        relation: str,
        *,
        where: str = "",
        order_by: str = "",
        limit: int = -1,
    ) -> str:
        """Return a statement. Each part may be a user's own, and end in a comment.

        :param limit: the most rows; all if it is negative.
        """
        parts = [f"SELECT {', '.join(expressions)}", f"FROM {relation}"]
        parts += [f"WHERE {where}"] if where else []
        parts += [f"ORDER BY {order_by}"] if order_by else []
        parts += [f"LIMIT {limit:d}"] if limit >= 0 else []
        return "\n".join(parts)

    def relation(self, table_or_query: Table | Query) -> str:
        """Return what stands after FROM."""
        if isinstance(table_or_query, Query):
            # On lines of its own: a query may end in a comment.
            return f"(\n{table_or_query.sql.strip().rstrip(';')}\n) AS {self.quote('query')}"
        return ".".join(self.quote(part) for part in (table_or_query.schema, table_or_query.name) if part)

    # Reading

    @abstractmethod
    def begin(self, snapshot: str | None = None) -> None:
        """Begin a read-only transaction that sees the rows, until :meth:`end`, as they are when it looks for the first.

        :param snapshot: what another session's :meth:`export_snapshot` returned: see the rows as that one does.
        :raises RetriableError: if the snapshot is gone because the session that exported it has ended.
        """

    def lock_tables(self, table_or_query: Table | Query, names: Sequence[str]) -> list[SqlColumn]:
        """Keep what is to be read from being altered until :meth:`end`; return its columns as they are read until then.

        It belongs between :meth:`begin` and the rows. Without it a database may read a table that was rewritten after
        the transaction began as empty, and one whose column has got another type in that type's text. As it is here,
        it suits databases whose transactions see the tables themselves as they were.

        :param names: the columns that are going to be read; the others may be missing from what is returned.
        :raises ConfigError: the table is not there any more, or may not be read.
        :raises RetriableError: it was rewritten, emptied or replaced since the transaction began.
        """
        return self.describe(table_or_query)

    @abstractmethod
    def end(self) -> None:
        """End the transaction, if there is one."""

    def export_snapshot(self) -> str:
        """Return the name by which other sessions can share this transaction's snapshot, for as long as it lasts.

        :raises ConfigError: if this database cannot: see :attr:`shares_snapshots`.
        """
        raise ConfigError(f"{self._label}: {self.version} has no snapshots that sessions can share")

    @abstractmethod
    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its few rows as Python's own values: bounds, counts, the server's clock."""

    def one_row(self, sql: str) -> tuple[Any, ...]:
        """Run a statement that has exactly one row, and return it."""
        rows = self.rows(sql)
        if len(rows) != 1:
            raise DataError(f"the database answered {len(rows)} rows where one was asked for")
        return rows[0]

    @abstractmethod
    def read_columns(self, columns: Iterable[SqlColumn], choices: ValueChoices) -> list[ReadColumn]:
        """Return how to read columns. It asks the server nothing, so that driver and tasks come to the same."""

    def read(
        self,
        columns: Sequence[ReadColumn],
        relation: str,
        *,
        where: str = "",
        order_by: str = "",
        block_bytes: int = DEFAULT_BLOCK_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in batches of about so many bytes; memory stays flat. No batch is empty.

        It ends normally only if the server said that these were all. After it was left early the session may be of no
        use: close it.

        :param relation: :meth:`relation`.
        :param where: a condition; "" for all rows.
        :param order_by: a list of expressions; "" for any order.
        """
        select = partial(self.select, relation=relation, where=where, order_by=order_by)
        return self._read(columns, select, block_bytes)

    @abstractmethod
    def _read(
        self, columns: Sequence[ReadColumn], select: StatementBuilder, block_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows: see :meth:`read`."""

    @abstractmethod
    def cancel(self) -> None:
        """End the statement that another thread waits for; it raises ``RetriableError`` there."""
