"""Polls a database through Spark's own JDBC reader: what is read is planned here, and Spark brings the rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.poller import ReadBySpark
from airflow_provider_connect.clients.sql.database import Database, SqlColumn
from airflow_provider_connect.clients.sql.jdbc.connection import reader_options
from airflow_provider_connect.clients.sql.jdbc.errors import error_for_exceptions, jvm_exceptions
from airflow_provider_connect.clients.sql.jdbc.session import JdbcDatabase
from airflow_provider_connect.clients.sql.jdbc.types import convert_batch, require_same_types
from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.sources._sql.chunks import chunk_count
from airflow_provider_connect.sources._sql.poller import KeyAppender, SqlPoller
from airflow_provider_connect.sources._sql.table_shape import RowLayout, TableShape, row_layout
from airflow_provider_connect.values.numbers import plain_text
from airflow_provider_connect.window import ONE_DAY, Day

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_DATE = dt.date(1970, 1, 1)
_FIRST_TIME = dt.datetime.fromtimestamp(0, dt.UTC).replace(tzinfo=None)
_MICROSECOND = dt.timedelta(microseconds=1)


class JdbcPoller(SqlPoller, ReadBySpark):
    """Polls one table or query of a database that only its JDBC driver can speak to."""

    # Chunks have no key where they end: a try that dies begins anew.
    _quote_mark = '"'

    def _open_session(self, what: str) -> Database:
        if self._context.spark is None:
            raise ConfigError(
                f"connection {self._connection.conn_id!r}: a connection of type jdbc is read by Spark's own reader, in "
                "the job of a ConnectOperator alone: elsewhere use spark.read.format('jdbc')"
            )
        database = JdbcDatabase.open(self._connection, self._context.spark(), self._options.session_limits)
        self._quote_mark = database.quote_mark
        return database

    def _plan_day(self, day: Day) -> list[dict[str, Any]]:
        found, _ = self._inspect()
        with self._open_session(str(day)) as database:
            wheres = (
                [self._day_condition(database, found.day_column, day)]
                if found.day_column
                else self._even(database, found)
            )
        return [found.to_params | {"where": where} for where in wheres]

    def _even(self, database: Database, found: TableShape) -> list[str]:
        """Return the condition of each chunk: even ranges of the key's first column, where NULL is in the first."""
        most = self._options.parallel_chunks or 1
        if most == 1 or not found.key or not _is_range(found.key_columns[0]):
            return [""]
        column = database.quote(found.key[0])
        asked = [f"min({column})", f"max({column})", "count(*)"]
        least, last, rows = database.one_row(
            database.select(asked, database.relation(self._options.table_or_query), where=self._where(""))
        )
        if least is None:
            return [""]
        return range_conditions(database, column, even_bounds(least, last, chunk_count(int(rows), most)))

    def frame(self, part: InputPartition) -> Any:
        """Return the rows of a partition as Spark would read them; none is read yet.

        :raises ConfigError: Spark would read a column otherwise than it was described.
        """
        assert self._context.spark is not None, "the plan needed it"
        _, how = self._of(part)
        database = self._unlinked()
        names = [f"{column.expression} AS {database.quote(f'c{at}')}" for at, column in enumerate(how.columns)]
        relation, where = database.relation(self._options.table_or_query), self._where(part.params["where"])
        # Under names of ours, so that Spark quotes none of the database's.
        sql = f"(\n{database.select(names, relation, where=where)}\n) connect_rows"
        options = reader_options(self._connection, sql, self._options.session_limits)
        try:
            frame = self._context.spark().read.format("jdbc").options(**options).load()
        except Exception as error:  # noqa: BLE001  # its text holds the SQL
            raise self.error_of(error) from None
        require_same_types(how.columns, [kind for _, kind in frame.dtypes])
        return frame

    def _of(self, part: InputPartition) -> tuple[TableShape, RowLayout]:
        found = TableShape.from_params(part.params)
        return found, row_layout(self._unlinked(), found, self._options.value_choices)

    def _unlinked(self) -> JdbcDatabase:
        """Return what writes SQL without a session."""
        return JdbcDatabase(None, self._connection, self._quote_mark, 0)

    def error_of(self, error: Exception) -> ConnectError:
        """Return our error for one that Spark's reader raised."""
        return error_for_exceptions(f"connection {self._connection.conn_id!r}", jvm_exceptions(error))

    def rows_of(
        self, part: InputPartition, batches: Iterator[pa.RecordBatch], tally: Tally
    ) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows that Spark has read with their own types, and their key.

        :raises DataError: a value does not fit, or a key is missing or comes twice.
        """
        import pyarrow as pa

        (day,) = part.days
        found, how = self._of(part)
        names = [column.name for column in how.columns]
        with closing(KeyAppender(found, how)) as keyed:
            for batch in batches:
                if not batch.num_rows:
                    continue
                tally.rows += batch.num_rows
                tally.raw_bytes += batch.nbytes
                read = convert_batch(batch, how.columns)
                made = [
                    array if array.type == column.type else plain_text(array)
                    for array, column in zip(read, how.columns, strict=True)
                ]
                yield day, keyed.append_keys(pa.RecordBatch.from_arrays(made, names=names))

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Refuse: Spark reads the rows, and :meth:`rows_of` takes them.

        :raises ConfigError: always.
        """
        raise ConfigError("rows of a jdbc connection are read by Spark itself")
        yield  # a generator, as every poll is


def _is_range(column: SqlColumn) -> bool:
    """Whether bounds can be computed between two values of a column."""
    return column.base in ("date", "timestamp") or column.base.startswith(
        ("tinyint", "smallint", "integer", "bigint", "decimal", "numeric")
    )


def even_bounds(first: Any, last: Any, chunks: int) -> list[Any]:
    """Return where the chunks after the first begin: evenly spread, each once, in ascending order."""
    if isinstance(first, dt.datetime):
        numbers = _spread((first - _FIRST_TIME) // _MICROSECOND, (last - _FIRST_TIME) // _MICROSECOND, chunks)
        return [_FIRST_TIME + number * _MICROSECOND for number in numbers]
    if isinstance(first, dt.date):
        return [
            _FIRST_DATE + number * ONE_DAY
            for number in _spread((first - _FIRST_DATE).days, (last - _FIRST_DATE).days, chunks)
        ]
    return [Decimal(number) for number in _spread(int(first), int(last), chunks)]


def _spread(least: int, last: int, chunks: int) -> list[int]:
    found = {least + (last - least) * at // chunks for at in range(1, chunks)}
    return sorted(number for number in found if number > least)


def range_conditions(database: Database, column: str, bounds: list[Any]) -> list[str]:
    """Return the condition of each chunk. Together they hold every row once, whatever the column says of it.

    :param column: quoted already.
    """
    if not bounds:
        return [""]
    texts = [database.literal(bound) for bound in bounds]
    first = f"({column} < {texts[0]} OR {column} IS NULL)"
    between = [f"({column} >= {begin} AND {column} < {end})" for begin, end in pairwise(texts)]
    return [first, *between, f"({column} >= {texts[-1]})"]
