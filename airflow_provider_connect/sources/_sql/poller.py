"""Poller of a table or query. A day is one partition, a snapshot one or several."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.poller import AcceptsParts, Follows, LimitsPartitions
from airflow_provider_connect.clients.sql.database import Database, SqlColumn, Table
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.polling.days import require_begun, require_over, require_recent
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.keys import keys_as_hex
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PlanGoneError, PollContext, Poller
from airflow_provider_connect.sources._sql import chunks
from airflow_provider_connect.sources._sql.chunks import KeyValues, key_to_json
from airflow_provider_connect.sources._sql.cursors import NO_ROWS
from airflow_provider_connect.sources._sql.day_bounds import day_bounds, day_condition
from airflow_provider_connect.sources._sql.guards import require_replayed, require_unaltered
from airflow_provider_connect.sources._sql.increments import IncrementTracker, RowSelection
from airflow_provider_connect.sources._sql.keys import key_bytes
from airflow_provider_connect.sources._sql.options import CLOCK_QUERIES, DEFAULT_CHUNKS, MYSQL, SQLITE, SqlOptions
from airflow_provider_connect.sources._sql.table_shape import (
    RowLayout,
    TableShape,
    day_column_clock,
    inspect_table,
    require_readable,
    row_layout,
    unsplit_reason,
)
from airflow_provider_connect.sources._sql.zones import require_zone, undeclared_zone
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)
_MIN_TRUSTED_ESTIMATE = 1_000_000
"""Smaller estimates may be far off. Then the rows are counted, which is cheap."""


def current_time() -> dt.datetime:
    """Return the current instant. Tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class SqlPoller(Poller, Follows, AcceptsParts, LimitsPartitions):
    """Polls one table or query.

    If chunks share a snapshot, the driver keeps its session open until all are read.
    """

    def __init__(self, options: SqlOptions, connection: Connection, context: PollContext) -> None:
        self._options = options
        self._connection = connection
        self._context = context
        self._lock = threading.Lock()
        self._inspected: tuple[TableShape, RowLayout] | None = None
        self._snapshot_sessions: dict[Day, Database] = {}
        self._increments = IncrementTracker(options, compares_rows=self._compares_rows)
        self._reads_by_chunk = options.consistency == "chunk"
        if options.day_column is None:
            self.partitions_at_once = options.parallel_chunks or DEFAULT_CHUNKS
        self._resumes = options.snapshot is not None and self._reads_by_chunk

    def close(self) -> None:
        """Close the sessions of shared snapshots."""
        with ExitStack() as stack:
            while self._snapshot_sessions:
                stack.enter_context(closing(self._snapshot_sessions.popitem()[1]))

    def schema(self) -> pa.Schema:
        """Return the Arrow schema: the columns and ``record_key``."""
        return self._inspect()[1].schema

    def _inspect(self) -> tuple[TableShape, RowLayout]:
        with self._lock:
            if self._inspected is None:
                with self._open_session("describe") as database:
                    shape = inspect_table(database, self._options)
                    layout = row_layout(database, shape, self._options)
                    require_readable(database, self._options, layout)
                    self._warn_of_zone(database, shape.day_column)
                    self._inspected = shape, layout
            return self._inspected

    def _warn_of_zone(self, database: Database, column: SqlColumn | None) -> None:
        zone = undeclared_zone(database, self._connection.conn_type, self._options, column)
        if zone is not None and column is not None:
            stream, doubt = self._options.stream_key, zone.doubt(self._options.mode)
            _LOG.warning("%s: day_column %r has %s: %s", stream, column.name, doubt, zone.remedy)

    def follow(self, day: Day, after: str | None, to: str | None) -> str:
        """Store the positions of a day's increment. Returns the end. Errors as :meth:`.IncrementTracker.find_end`."""
        if self._increments.is_finished(after, to):
            return self._increments.set_span(day, after, after or "")
        shape, _ = self._inspect()
        with self._open_session(str(day)) as database:
            require_zone(database, self._connection.conn_type, self._options, shape.timestamp_column)
            condition, database_time = self._with_user_condition(""), self._database_time(database)
            to = self._increments.find_end(
                database, shape, after, to, user_condition=condition, database_time=database_time
            )
        return self._increments.set_span(day, after, to)

    def _database_time(self, database: Database) -> dt.datetime:
        clock_query = CLOCK_QUERIES.get(self._connection.conn_type)
        return (
            dt.datetime.fromtimestamp(float(database.one_row(clock_query)[0]), dt.UTC)
            if clock_query is not None
            else current_time()
        )

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return one partition for each day, or for each chunk of a snapshot.

        :raises ConfigError: a day is in another zone or in the future, or the table does not fit the options.
        :raises RetriableError: a day ended less than an hour ago, or the database cannot be reached.
        """
        for day in days:
            self._require_day(day)
        day_params = [(day, params) for day in days for params in self._plan_day(day)]
        return [
            InputPartition(days=(day,), index=index, params=params) for index, (day, params) in enumerate(day_params)
        ]

    def _require_day(self, day: Day) -> None:
        options = self._options
        if options.kind != "day":
            require_begun(day, options.zone, current_time())
            return
        require_over(day, options.zone, current_time())
        if options.snapshot == "daily":
            require_recent(day, current_time(), "the database has")

    def _chunk_params(
        self, database: Database, shape: TableShape, keys: Sequence[KeyValues], span_condition: str = ""
    ) -> list[dict[str, Any]]:
        """Return partition parameters for chunks that end at ``keys``, and for a last one.

        :param span_condition: SQL condition for an increment. "" for all rows.
        """
        columns = [database.quote(name) for name in shape.key]
        bounds = [chunks.key_literals(database, key) for key in keys]
        conditions = chunks.chunk_conditions(columns, bounds, compares_rows=self._compares_rows)
        chunk_conditions = [_join_conditions(span_condition, condition) for condition in conditions]
        if not self._resumes:
            return [shape.partition_params | {"where": condition_of_chunk} for condition_of_chunk in chunk_conditions]
        last_keys = [*map(key_to_json, keys), None]
        return [
            shape.partition_params | {"where": condition_of_chunk, "upto": key}
            for condition_of_chunk, key in zip(chunk_conditions, last_keys, strict=True)
        ]

    @property
    def _compares_rows(self) -> bool:
        return self._connection.conn_type != MYSQL

    def _plan_day(self, day: Day) -> list[dict[str, Any]]:
        shape, layout = self._inspect()
        self._close_snapshot_session(day)
        if self._options.mode is not None and not self._increments.has_span(day):
            self.follow(day, None, None)
        with ExitStack() as stack:
            database = stack.enter_context(self._open_session(str(day)))
            if shape.day_column is not None:
                return [shape.partition_params | {"where": self._day_condition(database, shape.day_column, day)}]
            selection = RowSelection("", has_all_rows=True)
            if self._options.mode is not None:
                selection = self._increments.select_rows(database, shape, day)
            single_part = [shape.partition_params | {"where": selection.condition}]
            max_chunks = self._chunk_concurrency(database)
            if not selection.has_all_rows or not self._can_split(shape, layout, max_chunks):
                return single_part
            if not self._reads_by_chunk:
                database.begin()
            chunk_params = self._chunk_params(
                database, shape, self._split_keys(database, shape, max_chunks, selection.condition), selection.condition
            )
            if len(chunk_params) == 1:
                self._warn_of_one_chunk(f"a chunk has at least {chunks.MIN_CHUNK_ROWS:,} rows")
            if self._reads_by_chunk:
                return chunk_params
            snapshot = self._export_snapshot(database) if len(chunk_params) > 1 else None
            if snapshot is None and self._options.parallel_chunks is None:
                return single_part
            if snapshot is not None:
                # The exporting session must stay open until the last other session has begun.
                stack.pop_all()
                with self._lock:
                    self._snapshot_sessions[day] = database
            return [params | {"snapshot": snapshot} for params in chunk_params]

    def _can_split(self, shape: TableShape, layout: RowLayout, max_chunks: int) -> bool:
        if max_chunks == 1 and not self._resumes:
            return False
        if reason := unsplit_reason(shape, layout):
            self._warn_of_one_chunk(reason)
        return not reason

    def _warn_of_one_chunk(self, reason: str) -> None:
        if (self._options.parallel_chunks or 1) > 1:
            text = "%s: one task reads all rows, although parallel_chunks=%s: %s"
            _LOG.warning(text, self._options.stream_key, self._options.parallel_chunks, reason)

    def _day_condition(self, database: Database, column: SqlColumn, day: Day) -> str:
        name = database.quote(column.name)
        clock = day_column_clock(database, column, self._options.day_column_unit)
        if self._connection.conn_type == SQLITE and self._options.day_column_unit is not None:
            self._require_times(database, name, f"CASE typeof({name}) WHEN 'integer' THEN 1 END")
        elif self._connection.conn_type == SQLITE:
            function = "date" if clock == "date" else "datetime"
            self._require_times(database, name, f"{function}({name})")
            name = f"{function}({name})"
        return day_condition(database, name, day_bounds(day, clock, self._options.clock_zone))

    def _require_times(self, database: Database, column: str, converted_column: str) -> None:
        """Refuse texts that SQLite cannot read as a time. Comparisons would skip their rows."""
        condition = self._with_user_condition(f"{column} IS NOT NULL AND {converted_column} IS NULL")
        if database.rows(
            database.select(["1"], database.relation(self._options.table_or_query), where=condition, limit=1)
        ):
            raise DataError(
                f"day_column: {self._options.day_column!r} has values that SQLite cannot read as a time, so their "
                "rows would be in no day. Correct them, or leave them out with where="
            )

    def _chunk_concurrency(self, database: Database) -> int:
        parallel_chunks = self._options.parallel_chunks
        if self._reads_by_chunk:
            return parallel_chunks or DEFAULT_CHUNKS
        if database.shares_snapshots and self._context.is_closed_before_polls:
            self._warn_of_one_chunk("this reader keeps no session open for a shared snapshot: set consistency='chunk'")
            return 1
        return parallel_chunks or (DEFAULT_CHUNKS if database.shares_snapshots else 1)

    def _export_snapshot(self, database: Database) -> str | None:
        """Return the name of the session's snapshot. None if, like some standbys, the server cannot share it."""
        if not database.shares_snapshots:
            return None
        try:
            return database.export_snapshot()
        except ConfigError as error:
            if self._options.parallel_chunks is not None:
                raise ConfigError(f"{error}. Leave out parallel_chunks, or set consistency='chunk'") from None
            return None

    def _split_keys(
        self, database: Database, shape: TableShape, max_chunks: int, span_condition: str
    ) -> list[KeyValues]:
        options = self._options
        relation, condition = database.relation(options.table_or_query), self._with_user_condition(span_condition)
        rows = None
        if not options.where and isinstance(options.table_or_query, Table):
            rows = database.estimated_rows(options.table_or_query)
        if rows is None or rows < _MIN_TRUSTED_ESTIMATE:
            (rows,) = database.one_row(database.select(["count(*)"], relation, where=condition))
        count = chunks.chunk_count(int(rows), max_chunks)
        columns = [database.quote(name) for name in shape.key]
        return chunks.find_keys(
            database,
            relation,
            columns,
            values=[database.key_value(column) for column in shape.key_columns],
            row_condition=condition,
            rows=int(rows),
            chunks=count,
            compares_rows=self._compares_rows,
        )

    def _with_user_condition(self, condition: str) -> str:
        # On its own lines, since the user's condition may end in a comment.
        return _join_conditions(f"\n{self._options.where}\n" if self._options.where else "", condition)

    def accept(self, day: Day, counts: Mapping[str, int]) -> None:
        """Close the session of the day's shared snapshot."""
        self._close_snapshot_session(day)

    def _close_snapshot_session(self, day: Day) -> None:
        with self._lock:
            database = self._snapshot_sessions.pop(day, None)
        if database is not None:
            database.close()

    def _open_session(self, purpose: str) -> Database:
        name = f"connect {purpose} {self._options.stream_key}"
        return open_database(
            self._connection,
            application_name=name,
            limits=self._options.session_limits,
            row_security=self._options.row_security,
        )

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield a partition's rows in batches, with their keys.

        :raises RetriableError: the database is unreachable or busy. A :class:`.PlanGoneError` if the table was altered
            or the shared snapshot is gone.
        :raises ConfigError: credentials, rights, table or options are wrong.
        :raises DataError: a value cannot be read exactly, or a key is missing or occurs twice.
        """
        (day,) = part.days
        params = part.params
        if params["where"] == NO_ROWS:
            return
        shape = TableShape.from_params(params)
        with ExitStack() as stack:
            database = stack.enter_context(self._open_session(str(day)))
            layout = row_layout(database, shape, self._options)
            self._require_replayed(database, day)
            self._begin_read(database, shape, params.get("snapshot"))
            key_appender = stack.enter_context(closing(KeyAppender(shape, layout)))
            relation, condition = (
                database.relation(self._options.table_or_query),
                self._with_user_condition(params["where"]),
            )
            batches = stack.enter_context(closing(database.read(layout.columns, relation, where=condition)))  # type: ignore[type-var]
            for batch in batches:
                tally.rows += batch.num_rows
                tally.raw_bytes += batch.nbytes
                yield day, key_appender.append_keys(batch)
            database.end()

    def _require_replayed(self, database: Database, day: Day) -> None:
        if self._options.kind == "day":
            require_replayed(database, day, self._database_time(database))

    def _begin_read(self, database: Database, shape: TableShape, snapshot: str | None) -> None:
        try:
            database.begin(snapshot)
            require_unaltered(database, self._options, shape)
        except PlanGoneError:
            raise
        except RetriableError as error:
            if snapshot is None:
                raise
            raise PlanGoneError(f"{error}: the next try takes a new snapshot") from None


def _join_conditions(first: str, second: str) -> str:
    """Join two SQL conditions, or "", by AND."""
    return " AND ".join(f"({condition})" for condition in (first, second) if condition)


class KeyAppender:
    """Adds ``record_key`` to batches. Checks keys that the database does not guarantee to be unique."""

    def __init__(self, shape: TableShape, layout: RowLayout) -> None:
        self._layout = layout
        self._key_set = None if shape.is_unique or not shape.key else KeySet()

    def close(self) -> None:
        """Delete the stored keys."""
        if self._key_set is not None:
            self._key_set.close()

    def append_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with ``record_key``, if the table has a key.

        :raises DataError: a key is missing or occurred before.
        """
        import pyarrow as pa

        layout, columns = self._layout, list(batch.columns)
        if layout.key:
            key_digests = key_bytes(
                layout.key, layout.key_classes, [batch.column(position) for position in layout.key_positions]
            )
            self._require_new(key_digests)
            columns.append(keys_as_hex(key_digests))
        return pa.RecordBatch.from_arrays(columns, schema=layout.schema)

    def _require_new(self, key_digests: bytes) -> None:
        import numpy as np

        if self._key_set is None:
            return
        halves = np.frombuffer(key_digests, ">u8").astype(np.uint64).reshape(-1, 2)
        repeats = int((~self._key_set.add(halves[:, 0], halves[:, 1])).sum())
        if repeats:
            raise DataError(
                f"key: {', '.join(self._layout.key)} does not identify a row: {repeats} of {len(halves)} rows have "
                "a key that occurred before. Name more columns"
            )
