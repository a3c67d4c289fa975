"""Poller for databases over JDBC. It plans the read, and Spark's reader fetches the rows."""

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
from airflow_provider_connect.clients.sql.jdbc.types import convert_batch, require_recent_times, require_same_types
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

_EPOCH_DATE = dt.date(1970, 1, 1)
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC).replace(tzinfo=None)
_MICROSECOND = dt.timedelta(microseconds=1)


class JdbcPoller(SqlPoller, ReadBySpark):
    """Polls one table or query over JDBC."""

    # JDBC chunks do not end at keys, so a retry starts over.
    _quote_mark = '"'

    def _open_session(self, purpose: str) -> JdbcDatabase:
        if self._context.spark is None:
            raise ConfigError(
                f"connection {self._connection.conn_id!r}: a connection of type jdbc is read by Spark's own reader, "
                "only in the job of a ConnectOperator. Elsewhere use spark.read.format('jdbc')"
            )
        database = JdbcDatabase.open(self._connection, self._context.spark(), self._options.session_limits)
        self._quote_mark = database.quote_mark
        return database

    def _plan_day(self, day: Day) -> list[dict[str, Any]]:
        shape, _ = self._inspect()
        with self._open_session(str(day)) as database:
            conditions = (
                [self._day_condition(database, shape.day_column, day)]
                if shape.day_column
                else self._even_ranges(database, shape)
            )
            has_times = any(column.base.startswith(("date", "timestamp")) for column in shape.columns)
            reads_old_dates = not has_times or database.reads_old_dates(self._options.table_or_query)
        params = shape.partition_params | {"old_dates": reads_old_dates}
        return [params | {"where": condition} for condition in conditions]

    def _even_ranges(self, database: Database, shape: TableShape) -> list[str]:
        """Return the conditions of chunks: even ranges of the key's first column. [""] for one chunk."""
        max_chunks = self._options.parallel_chunks or 1
        if max_chunks == 1:
            return [""]
        if not shape.key or not _has_ranges(shape.key_columns[0]):
            self._warn_of_one_chunk("the key does not begin with a number, date or timestamp")
            return [""]
        column = database.quote(shape.key[0])
        expressions = [f"min({column})", f"max({column})", "count(*)"]
        smallest, greatest, rows = database.one_row(
            database.select(
                expressions, database.relation(self._options.table_or_query), where=self._with_user_condition("")
            )
        )
        if smallest is None:
            return [""]
        return range_conditions(database, column, even_bounds(smallest, greatest, chunk_count(int(rows), max_chunks)))

    def frame(self, part: InputPartition) -> Any:
        """Return a DataFrame over a partition's unread rows.

        :raises ConfigError: Spark would read a column with another type than planned.
        """
        assert self._context.spark is not None, "the plan needed it"
        _, layout = self._shape_and_layout(part)
        database = self._sql_writer()
        names = [
            f"{column.expression} AS {database.quote(f'c{position}')}" for position, column in enumerate(layout.columns)
        ]
        relation, condition = (
            database.relation(self._options.table_or_query),
            self._with_user_condition(part.params["where"]),
        )
        # Columns get our own names, so that Spark need not quote the database's.
        sql = f"(\n{database.select(names, relation, where=condition)}\n) connect_rows"
        options = reader_options(self._connection, sql, self._options.session_limits)
        try:
            frame = self._context.spark().read.format("jdbc").options(**options).load()
        except Exception as error:  # noqa: BLE001  # its text holds the SQL
            raise self.error_of(error) from None
        require_same_types(layout.columns, [kind for _, kind in frame.dtypes])
        return frame

    def _shape_and_layout(self, part: InputPartition) -> tuple[TableShape, RowLayout]:
        shape = TableShape.from_params(part.params)
        return shape, row_layout(self._sql_writer(), shape, self._options)

    def _sql_writer(self) -> JdbcDatabase:
        return JdbcDatabase(None, self._connection, self._quote_mark, 0)

    def error_of(self, error: Exception) -> ConnectError:
        """Convert an exception of Spark's reader to an error of this package."""
        return error_for_exceptions(f"connection {self._connection.conn_id!r}", jvm_exceptions(error))

    def rows_of(
        self, part: InputPartition, batches: Iterator[pa.RecordBatch], tally: Tally
    ) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Convert Spark's batches to the planned types, and add the keys.

        :raises DataError: a value does not fit its type, or a key is missing or occurs twice.
        """
        import pyarrow as pa

        (day,) = part.days
        shape, layout = self._shape_and_layout(part)
        names = [column.name for column in layout.columns]
        with closing(KeyAppender(shape, layout)) as key_appender:
            for batch in batches:
                if not batch.num_rows:
                    continue
                tally.rows += batch.num_rows
                tally.raw_bytes += batch.nbytes
                read_arrays = convert_batch(batch, layout.columns)
                if not part.params.get("old_dates", True):
                    for array, column in zip(read_arrays, layout.columns, strict=True):
                        require_recent_times(array, column)
                columns = [
                    array if array.type == column.type else plain_text(array)
                    for array, column in zip(read_arrays, layout.columns, strict=True)
                ]
                yield day, key_appender.append_keys(pa.RecordBatch.from_arrays(columns, names=names))

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Raise ConfigError: Spark reads the rows, and :meth:`rows_of` converts them."""
        raise ConfigError("rows of a jdbc connection are read by Spark itself")
        yield  # makes this function a generator, like every poll


def _has_ranges(column: SqlColumn) -> bool:
    return column.base in ("date", "timestamp") or column.base.startswith(
        ("tinyint", "smallint", "integer", "bigint", "decimal", "numeric")
    )


def even_bounds(smallest: Any, greatest: Any, chunks: int) -> list[Any]:
    """Return the first value of every chunk except the first: evenly spaced, distinct and ascending."""
    if isinstance(smallest, dt.datetime):
        numbers = _spread_evenly((smallest - _EPOCH) // _MICROSECOND, (greatest - _EPOCH) // _MICROSECOND, chunks)
        return [_EPOCH + number * _MICROSECOND for number in numbers]
    if isinstance(smallest, dt.date):
        return [
            _EPOCH_DATE + number * ONE_DAY
            for number in _spread_evenly((smallest - _EPOCH_DATE).days, (greatest - _EPOCH_DATE).days, chunks)
        ]
    return [Decimal(number) for number in _spread_evenly(int(smallest), int(greatest), chunks)]


def _spread_evenly(smallest: int, greatest: int, chunks: int) -> list[int]:
    bounds = {smallest + (greatest - smallest) * position // chunks for position in range(1, chunks)}
    return sorted(number for number in bounds if number > smallest)


def range_conditions(database: Database, column: str, bounds: list[Any]) -> list[str]:
    """Return each chunk's SQL condition. Together they match every row once, NULL in the first.

    :param column: quoted.
    """
    if not bounds:
        return [""]
    texts = [database.literal(bound) for bound in bounds]
    first_condition = f"({column} < {texts[0]} OR {column} IS NULL)"
    middle_conditions = [f"({column} >= {begin} AND {column} < {end})" for begin, end in pairwise(texts)]
    return [first_condition, *middle_conditions, f"({column} >= {texts[-1]})"]
