"""Appends staged Parquet files to the staging table, and bad rows to the rejects.

Of a file put twice, only the stream whose receipt reached the driver is committed.
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
"""How often a file is sent again without rows that BigQuery refused."""
BATCH_BYTES = 5_400_000
"""Approximate size of a request. Requests of 9 MB take 50 MB more memory and are no faster (measured 2026-11)."""


@dataclass(frozen=True)
class FileReceipt:
    """Receipts of a staged file's two write streams: rows and rejects."""

    rows: StreamReceipt
    rejects: StreamReceipt


def put_file(api: BigQueryApi, layout: StagingLayout, stage: str, path: str, tolerance: Tolerance) -> FileReceipt:
    """Append a staged file's rows to the staging table.

    :raises DataError: too many rows are bad, also after :data:`RESTARTS`.
    """
    refused_rows: dict[int, tuple[str, str]] = {}
    for restarts in itertools.count():
        append = _FileAppend(api, layout, stage, path, tolerance, refused_rows)
        try:
            return append.run()
        except RowsError as error:
            # The refused request is not stored, but earlier ones are. So use a new stream, without those rows.
            refused_again = append.positions(error.rows)
            refused_before = len(refused_rows)
            refused_rows.update(refused_again)
            if not tolerance.allows(len(refused_rows)) or len(refused_rows) == refused_before:
                raise RowsError(append.with_source_names(str(error)), error.rows) from None
            if restarts == RESTARTS:
                raise DataError(
                    f"{path}: BigQuery refused other rows each of the {RESTARTS + 1} times that the file was sent, "
                    f"{len(refused_rows)} so far. Correct them in the source. The last error: "
                    f"{append.with_source_names(str(error))}"
                ) from None
    raise AssertionError


@dataclass
class _FileAppend:
    """One try to append a file to new streams.

    :param refused_rows: column and reason, by position.
    :param spans: for each batch: rows before it, its position, left-out positions.
    """

    api: BigQueryApi
    staging: StagingLayout
    stage: str
    path: str
    tolerance: Tolerance
    refused_rows: Mapping[int, tuple[str, str]]
    spans: list[tuple[int, int, list[int]]] = field(default_factory=list)

    @cached_property
    def _sources(self) -> dict[str, str]:
        return {column.staging["name"]: column.source for column in self.staging.columns}

    def run(self) -> FileReceipt:
        staging = self.staging
        appended = rejected = 0
        with ExitStack() as stack:
            schema = staging_schema(staging.columns, staging.position_column, staging.table_column)
            rows = stack.enter_context(Appender(self.api, staging.table, schema))
            rejects = None
            if staging.rejects:
                rejects = stack.enter_context(Appender(self.api, staging.rejects, reject_schema()))
            for start, batch in read_batches(self.stage, self.path, BATCH_BYTES):
                converted = convert_batch(
                    batch,
                    staging.columns,
                    start,
                    position_column=staging.position_column,
                    table_value=(staging.table_column, table_folder(self.path)) if staging.table_column else None,
                    refused_rows=self.refused_rows,
                )
                if converted.rejects:
                    rejected += len(converted.rejects)
                    text = (
                        f"BigQuery cannot hold {len(converted.rejects)} rows of {self.path}: "
                        f"{summarize_rejects(converted.rejects)}"
                    )
                    self.tolerance.require(rejected, text)
                    assert rejects is not None
                    append_rejects(rejects, "sink", converted.rejects)
                self.spans.append((appended, start, [reject.position for reject in converted.rejects]))
                appended += converted.batch.num_rows
                if converted.batch.num_rows:
                    rows.append(converted.batch)
            return FileReceipt(rows.close(), rejects.close() if rejects else StreamReceipt("", 0))

    def positions(self, rows: Sequence[RefusedRow]) -> dict[int, tuple[str, str]]:
        """Return source column and reason of refused rows, by their position in the day."""
        by_position = {}
        for row in rows:
            appended, start, omitted = next(span for span in reversed(self.spans) if span[0] <= row.offset)
            position = start + row.offset - appended
            for omitted_position in omitted:
                position += omitted_position <= position
            by_position[position] = (self._sources.get(row.column or "", ""), f"refused by BigQuery: {row.reason}")
        return by_position

    def with_source_names(self, text: str) -> str:
        for staged, source in self._sources.items():
            if staged != source:  # a name that ends in a hash, which occurs nowhere else
                text = text.replace(staged, source)
        return text


def stage_rejects(
    api: BigQueryApi,
    tables: TargetTables,
    publish: Publish,
    layout: StagingLayout,
    sink_receipts: Sequence[StreamReceipt],
) -> RejectTables | None:
    """Append the source's rejects, and commit all of the day's. Returns their tables, if any.

    :raises DataError: more rejects than ``max_rejects``.
    """
    if layout.filled is not None:
        rejected = layout.filled.rejects - publish.manifest.polled.counts.get("rejected", 0)
    else:
        rejected = sum(receipt.rows for receipt in sink_receipts)
    tolerance = Tolerance(tables.options.errors_tolerance, tables.options.max_rejects)
    tolerance.require(rejected, f"day {publish.day}: BigQuery cannot hold {rejected:,} rows")
    span_number = publish.manifest.span_number if publish.kind == "increment" else None
    if layout.rejects is None:
        # Rejects of an earlier generation must be deleted with it.
        if find_table(api, tables.rejects) is None:
            return None
        if span_number is not None:
            ensure_rejects_table(api, tables.rejects, tables.target, span_number=span_number)
        return RejectTables(tables.rejects, span_number=span_number)
    if layout.filled is not None:
        return RejectTables(tables.rejects, layout.rejects, layout.filled.rejects, span_number)
    streams = [*sink_receipts]
    if publish.manifest.polled.rejects:
        streams.append(_append_source_rejects(api, publish, layout.rejects))
    finalize_and_commit(api, layout.rejects, streams)
    ensure_rejects_table(api, tables.rejects, tables.target, span_number=span_number)
    return RejectTables(tables.rejects, layout.rejects, sum(stream.rows for stream in streams), span_number)


def _append_source_rejects(api: BigQueryApi, publish: Publish, table: TableRef) -> StreamReceipt:
    with Appender(api, table, reject_schema()) as appender:
        for file in publish.manifest.polled.rejects:
            for rejects in read_rejects(publish.stage, file, BATCH_BYTES):
                truncated = [truncated_reject(reject.position, reject.reason, reject.record) for reject in rejects]
                append_rejects(appender, "source", truncated)
        return appender.close()


def append_rejects(appender: Appender, origin: Literal["source", "sink"], rejects: Sequence[Reject]) -> None:
    import pyarrow as pa

    rows = [(origin, reject.position, reject.column or None, reject.reason, reject.record) for reject in rejects]
    schema = reject_schema()
    try:
        appender.append(pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema))
    except RowsError as error:
        # These are not rows of the file, so a restart cannot leave them out.
        raise DataError(str(error)) from None


def reject_schema() -> pa.Schema:
    import pyarrow as pa

    types = {"STRING": pa.string(), "INTEGER": pa.int64(), "BYTES": pa.binary()}
    return pa.schema([(field["name"], types[field["type"]]) for field in STAGED_REJECT_FIELDS])
