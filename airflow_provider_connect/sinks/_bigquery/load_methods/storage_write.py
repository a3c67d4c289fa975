"""The executor's half of a publish: a staged Parquet file becomes rows of the staging table, and its bad rows rejects.

A file goes into a write stream of its own. The rows of a file that is put twice therefore lie in two streams, and only
the one whose receipt reached the driver is ever committed. The driver appends what the source set aside.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.commit import finalize_and_commit
from airflow_provider_connect.clients.bigquery.streams import Appender, RefusedRow, RowsError, StreamReceipt
from airflow_provider_connect.clients.bigquery.tables import find_table
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._bigquery.columns.rows import (
    convert_batch,
    staging_schema,
    summarize_rejects,
    truncated_reject,
)
from airflow_provider_connect.sinks._bigquery.rejects import STAGED_REJECT_FIELDS, RejectTables, ensure_rejects_table
from airflow_provider_connect.stage.rejects import Reject, Tolerance, read_rejects
from airflow_provider_connect.stage.rows import read_batches
from airflow_provider_connect.stage.tables import table_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sink import Publish
    from airflow_provider_connect.sinks._bigquery.staging import StagingLayout
    from airflow_provider_connect.sinks._bigquery.tables import TargetTables

RESTARTS = 5
"""How often a file is appended from its first row again without rows that BigQuery refused; each time it names many."""
BATCH_BYTES = 5_400_000
"""About what one request holds. Full ones (9 MB) cost a task 50 MB more, and are no faster (measured 2026-11)."""


@dataclass(frozen=True)
class FileReceipt:
    """What one staged file has become."""

    rows: StreamReceipt
    rejects: StreamReceipt


def put_file(api: BigQueryApi, layout: StagingLayout, stage: str, path: str, tolerance: Tolerance) -> FileReceipt:
    """Append a staged file's rows to the staging table.

    :param stage: path or URL of the stage's root.
    :param path: of the file, below it.

    :raises DataError: rows that BigQuery cannot hold, and the tolerance does not allow them, or there is no end of them
        after :data:`RESTARTS`.
    """
    refused: dict[int, tuple[str, str]] = {}
    for restarts in itertools.count():
        attempt = _Attempt(api, layout, stage, path, tolerance, refused)
        try:
            return attempt.run()
        except RowsError as error:
            # Nothing of the refused request is stored, but requests before it are: a new stream, without those rows.
            named = attempt.positions(error.rows)
            known = len(refused)
            refused.update(named)
            if not tolerance.allows(len(refused)) or len(refused) == known:
                raise RowsError(attempt.spoken(str(error)), error.rows) from None
            if restarts == RESTARTS:
                raise DataError(
                    f"{path}: BigQuery refuses other rows each of the {RESTARTS + 1} times that the file was sent, "
                    f"{len(refused)} by now, the last: {attempt.spoken(str(error))}; mend them in the source"
                ) from None
    raise AssertionError


@dataclass
class _Attempt:
    """One try to append a file to streams of its own.

    :param refused: rows that BigQuery refused in earlier tries, by position, with column and reason.
    :param spans: of each batch: rows appended before it, its position, positions of the rows left out of it.
    """

    api: BigQueryApi
    staging: StagingLayout
    stage: str
    path: str
    tolerance: Tolerance
    refused: Mapping[int, tuple[str, str]]
    spans: list[tuple[int, int, list[int]]] = field(default_factory=list)

    @cached_property
    def _sources(self) -> dict[str, str]:
        return {column.staging["name"]: column.source for column in self.staging.columns}

    def run(self) -> FileReceipt:
        """Read, convert and append; return when every row is stored."""
        staging = self.staging
        appended = rejected = 0
        with ExitStack() as stack:
            schema = staging_schema(staging.columns, staging.position_column, staging.table_column)
            rows = stack.enter_context(Appender(self.api, staging.table, schema))
            rejects = None
            if staging.rejects:
                rejects = stack.enter_context(Appender(self.api, staging.rejects, reject_schema()))
            for start, batch in read_batches(self.stage, self.path, BATCH_BYTES):
                done = convert_batch(
                    batch,
                    staging.columns,
                    start,
                    position_column=staging.position_column,
                    table_value=(staging.table_column, table_folder(self.path)) if staging.table_column else None,
                    refused_rows=self.refused,
                )
                if done.rejects:
                    rejected += len(done.rejects)
                    text = f"BigQuery cannot hold {len(done.rejects)} rows of {self.path}: {summarize_rejects(done.rejects)}"
                    self.tolerance.require(rejected, text)
                    assert rejects is not None
                    append_rejects(rejects, "sink", done.rejects)
                self.spans.append((appended, start, [each.position for each in done.rejects]))
                appended += done.batch.num_rows
                if done.batch.num_rows:
                    rows.append(done.batch)
            return FileReceipt(rows.close(), rejects.close() if rejects else StreamReceipt("", 0))

    def positions(self, rows: Sequence[RefusedRow]) -> dict[int, tuple[str, str]]:
        """Return column and reason of rows that BigQuery named by their position, not by that among those appended.

        Columns are called as in the source.
        """
        found = {}
        for row in rows:
            appended, start, left_out = next(span for span in reversed(self.spans) if span[0] <= row.offset)
            position = start + row.offset - appended
            for out in left_out:
                position += out <= position
            found[position] = (self._sources.get(row.column or "", ""), f"refused by BigQuery: {row.reason}")
        return found

    def spoken(self, text: str) -> str:
        """Return a text in which the staging table's columns are called as in the source."""
        for staged, source in self._sources.items():
            if staged != source:  # then it ends in a hash, and stands for nothing else
                text = text.replace(staged, source)
        return text


def stage_rejects(
    api: BigQueryApi,
    tables: TargetTables,
    publish: Publish,
    layout: StagingLayout,
    sink_receipts: Sequence[StreamReceipt],
) -> RejectTables | None:
    """Stage what the source set aside beside what executors did; return the day's rejects, None without any. Driver.

    :param sent: what executors appended.
    :raises DataError: in all files together more rows were set aside than ``max_rejects`` allows.
    """
    if layout.filled is not None:
        rejected = layout.filled.rejects - publish.manifest.polled.counts.get("rejected", 0)
    else:
        rejected = sum(receipt.rows for receipt in sink_receipts)
    tolerance = Tolerance(tables.options.errors_tolerance, tables.options.max_rejects)
    tolerance.require(rejected, f"day {publish.day}: BigQuery cannot hold {rejected:,} rows")
    if layout.rejects is None:
        # Those of an earlier generation must go with it.
        return RejectTables(tables.rejects) if find_table(api, tables.rejects) is not None else None
    if layout.filled is not None:
        return RejectTables(tables.rejects, layout.rejects, layout.filled.rejects)
    streams = [*sink_receipts]
    if publish.manifest.polled.rejects:
        streams.append(_append_source_rejects(api, publish, layout.rejects))
    finalize_and_commit(api, layout.rejects, streams)
    ensure_rejects_table(api, tables.rejects, tables.target)
    return RejectTables(tables.rejects, layout.rejects, sum(stream.rows for stream in streams))


def _append_source_rejects(api: BigQueryApi, publish: Publish, table: TableRef) -> StreamReceipt:
    with Appender(api, table, reject_schema()) as appender:
        for file in publish.manifest.polled.rejects:
            for rejects in read_rejects(publish.stage, file, BATCH_BYTES):
                bad = [truncated_reject(reject.position, reject.reason, reject.record) for reject in rejects]
                append_rejects(appender, "source", bad)
        return appender.close()


def append_rejects(appender: Appender, origin: Literal["source", "sink"], rejects: Sequence[Reject]) -> None:
    """Append rejected rows.

    :param origin: who found that they are bad.
    """
    import pyarrow as pa

    rows = [(origin, reject.position, reject.column or None, reject.reason, reject.record) for reject in rejects]
    schema = reject_schema()
    try:
        appender.append(pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema))
    except RowsError as error:
        # Not one of the data's own rows, which a restart could leave out.
        raise DataError(str(error)) from None


def reject_schema() -> pa.Schema:
    """Return the Arrow schema of a staging table of rejects."""
    import pyarrow as pa

    types = {"STRING": pa.string(), "INTEGER": pa.int64(), "BYTES": pa.binary()}
    return pa.schema([(field["name"], types[field["type"]]) for field in STAGED_REJECT_FIELDS])
