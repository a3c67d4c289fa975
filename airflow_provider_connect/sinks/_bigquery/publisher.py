"""Publishes into BigQuery: creates and fills a staging table, runs one script, and cleans up."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_connect.capabilities.publisher import (
    CommitCountsDifferences,
    Confirms,
    Erases,
    InspectsTarget,
    KeepsNotes,
    KeepsRejects,
    StagesByExecutors,
    Sweeps,
)
from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.commit import finalize_and_commit
from airflow_provider_connect.clients.bigquery.errors import GoneError
from airflow_provider_connect.clients.bigquery.sql import project_in_name
from airflow_provider_connect.clients.bigquery.tables import drop_table, fields_of
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from airflow_provider_connect.publishing import is_reload
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher, StreamKey
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.differences import count_differences
from airflow_provider_connect.sinks._bigquery.erasing.copies import remaining_copies
from airflow_provider_connect.sinks._bigquery.erasing.eraser import TableEraser
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger
from airflow_provider_connect.sinks._bigquery.load_methods.load_job import choose_load_method, run_load_jobs
from airflow_provider_connect.sinks._bigquery.load_methods.storage_write import FileReceipt, put_file, stage_rejects
from airflow_provider_connect.sinks._bigquery.names import POSITION_COLUMN, TABLE_COLUMN, labels
from airflow_provider_connect.sinks._bigquery.notes import write_note
from airflow_provider_connect.sinks._bigquery.plan import LedgerStep, PublishPlan, make_publish_plan
from airflow_provider_connect.sinks._bigquery.preflight import inspection_problems, preflight
from airflow_provider_connect.sinks._bigquery.rejects import STAGED_REJECT_FIELDS, rejects_by_day
from airflow_provider_connect.sinks._bigquery.snapshot import require_no_rejects
from airflow_provider_connect.sinks._bigquery.spans import ensure_span_column
from airflow_provider_connect.sinks._bigquery.staging import (
    REJECTS_SUFFIX,
    StagingLayout,
    abandoned_tables,
    create_staging_table,
    drop_abandoned_tables,
    is_kept_for_retry,
    new_staging_table,
    reuse_filled,
)
from airflow_provider_connect.sinks._bigquery.tables import TargetTables
from airflow_provider_connect.sinks._bigquery.target import ensure_delete_marks, ensure_target, has_delete_marks
from airflow_provider_connect.sinks._bigquery.template_tables import (
    table_changes_of,
    template_problems,
    template_table_problems,
)
from airflow_provider_connect.sinks._bigquery.turns import publish_or_keep_staging, run_confirmation
from airflow_provider_connect.stage.erase_list import Erasure, ShapingDigest, no_shaping
from airflow_provider_connect.stage.rejects import DayRejects, Tolerance
from airflow_provider_connect.window import ONE_DAY, Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.connection import Connection
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions
    from airflow_provider_connect.stage.manifest import StagedFile
    from airflow_provider_connect.stage.notes import LedgerNote

_log = logging.getLogger(__name__)
CLEANUP_SECONDS = 15.0
SWEEP_AGE = ONE_DAY
"""Time without a change after which a staging table counts as abandoned."""


class BigQueryPublisher(
    Publisher, StagesByExecutors, CommitCountsDifferences, Confirms, Erases, KeepsNotes, KeepsRejects, Sweeps
):
    """Publisher of one stream into one table or a template's tables. Threads may share it."""

    def __init__(self, options: BigQueryOptions, key: StreamKey, connection: Connection) -> None:
        self.options = options
        self.key = key
        self._connection = connection
        self._lock = threading.Lock()
        self._api: BigQueryApi | None = None

    @property
    def api(self) -> BigQueryApi:
        """Client of BigQuery, created on first use."""
        with self._lock:
            if self._api is None:
                options = self.options
                self._api = BigQueryApi.open(
                    self._connection,
                    project_in_name(options.head),
                    retry_budget_seconds=options.retry_budget_seconds,
                    maximum_bytes_billed=options.maximum_bytes_billed,
                    labels=labels(options.labels),
                    kms_key=options.kms_key,
                )
            return self._api

    @cached_property
    def tables(self) -> TargetTables:
        return TargetTables(self.options, self.api.project)

    @property
    def ledger(self) -> BigQueryLedger:
        refuses = self.options.write_mode == "append" and self.options.on_published_day == "refuse"
        tables = self.tables
        return BigQueryLedger(
            self.api,
            tables.target,
            tables.ledger,
            self.key,
            "refuse" if refuses else "append",
            replaces_whole=self.options.replaces_whole("snapshot"),
            is_merged=self.options.write_mode == "merge",
        )

    def note(self, note: LedgerNote) -> None:
        """Add a note unless it exists. Takes a call and a query."""
        self.api.locate(self.tables.target)
        write_note(self.api, self.tables.target, self.key, note)

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        dates = sorted(day.date for day in days)
        try:
            return (
                template_problems(self.options, schema, kind)
                or preflight(self.api, self.tables, self.ledger, schema, dates, kind=kind)
                or template_table_problems(self.api, self.tables, self.ledger, schema, dates, kind=kind)
            )
        except (ConfigError, DataError) as error:
            return [str(error)]

    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        rows = self.ledger.between(first, last)
        rejects_table = self.tables.rejects
        rejects = rejects_by_day(self.api, rejects_table, self.key, (first, last), records) if rows else {}
        adds = self.options.write_mode == "append"
        for row in rows:
            rejected_count, day_rejects = None if adds else row.counts.get("rejected"), rejects.get(row.day, [])
            if rejected_count or day_rejects:
                yield DayRejects(row.day, row.generation, rejected_count, f"table {rejects_table.id}", day_rejects)

    def begin(self, publish: Publish) -> StagingLayout:
        """Add the source's columns to the target, and create the staging tables or reuse filled ones."""
        api, tables, options, schema = self.api, self.tables, self.options, publish.schema
        api.locate(tables.target)
        ready = ensure_target(api, tables.target, options, schema)
        deletes_softly = options.deletes_softly(publish.kind)
        if deletes_softly:
            ensure_delete_marks(api, tables.target)
        if publish.kind == "increment" and options.write_mode == "replace":
            ensure_span_column(api, tables.target)
        if ready.discarded:
            _log.warning("%s lacks columns. They are left out: %s", tables.target.id, ", ".join(ready.discarded))
        all_columns = make_columns(schema, fields_of(ready.table))
        method = choose_load_method(options, publish.stage, schema, all_columns)
        table_changes = table_changes_of(api, tables, self.ledger, publish, ready)
        table_column = None if table_changes is None else TABLE_COLUMN
        # A retry publishes the rows that an earlier driver staged, under the same attempt's name. Rows and load jobs
        # of that driver must not count here, and it must not drop this table if it comes back late.
        staging_table = new_staging_table(tables.staging, publish.manifest.attempt)
        sets_aside = options.errors_tolerance == "all" or publish.manifest.polled.rejects
        layout = StagingLayout(
            table=staging_table,
            rejects=staging_table.sibling(f"{staging_table.table}{REJECTS_SUFFIX}") if sets_aside else None,
            columns=ready.columns,
            # Load jobs also load the columns that the target lacks.
            staged_columns=all_columns if method == "load_job" else ready.columns,
            discarded_sources=ready.discarded,
            load_method=method,
            position_column=POSITION_COLUMN if options.write_mode == "merge" else None,
            table_column=table_column,
            filter_column=ready.filter_column,
            table_changes=table_changes,
            has_delete_marks=deletes_softly or has_delete_marks(ready.table, ready.columns),
        )
        if (filled := reuse_filled(api, publish, layout)) is not None:
            _log.info("day %s: its rows are already in %s and are published from there", publish.day, filled.table.id)
            return filled
        job_labels = self._labels(publish)
        # Clustered, so that each table's INSERT reads only its own rows.
        create_staging_table(api, layout.table, layout.fields, job_labels, [table_column] if table_column else [])
        if layout.rejects is not None:
            create_staging_table(api, layout.rejects, STAGED_REJECT_FIELDS, job_labels)
        return layout

    def put(self, token: StagingLayout, stage: str, share: tuple[StagedFile, ...]) -> FileReceipt | None:
        """Append a staged file to the staging table, in its own write stream. None with load jobs or filled tables."""
        if token.load_method == "load_job" or token.filled is not None:
            return None
        (file,) = share
        tolerance = Tolerance(self.options.errors_tolerance, self.options.max_rejects)
        return put_file(self.api, token, stage, file.path, tolerance)

    def commit(self, publish: Publish, token: StagingLayout, receipts: Sequence[FileReceipt | None]) -> LedgerRow:
        """Commit the staged rows, publish the day, drop the staging tables. May be repeated after a lost response."""
        file_receipts = [receipt for receipt in receipts if receipt is not None]
        streams = [receipt.rows.name for receipt in file_receipts if receipt.rows.name]
        job_labels = self._labels(publish)
        try:
            self.api.locate(self.tables.target)
            if token.filled is None:
                self._fill(publish, token, file_receipts, job_labels)
            rejects = stage_rejects(
                self.api, self.tables, publish, token, [receipt.rejects for receipt in file_receipts]
            )
            plan = make_publish_plan(self.tables, publish, token, streams, rejects)
            self._require_rows_left(plan)
            require_no_rejects(plan)
            plan = count_differences(self.api, plan, job_labels, self.options.differences)
            published = publish_or_keep_staging(self.api, plan, job_labels)
        except GoneError:
            # The staging table may be gone because the day is published already.
            row = self.ledger.published(publish.day.date, publish.intent.token)
            if row is None:
                raise
            return row
        # The day is published. A table that cannot be dropped now is swept, or expires.
        with suppress(ConnectError):
            self._drop(token)
        return published

    def confirm(self, publish: Publish) -> LedgerRow:
        self.api.locate(self.tables.target)
        tables = self.tables
        step = LedgerStep(target=tables.target, staging=tables.staging, ledger=tables.ledger, publish=publish)
        return run_confirmation(self.api, step, self._labels(publish))

    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        return self._eraser(column).count_rows(values)

    def erase(
        self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = no_shaping
    ) -> Erasure:
        return self._eraser(column).erase(values, kind, shaping)

    def _eraser(self, column: str) -> TableEraser:
        return TableEraser(self.api, self.tables, self.ledger, column)

    def copies(self) -> list[str]:
        return remaining_copies(self.api, self.tables)

    def abort(self, publish: Publish, token: StagingLayout) -> None:
        """Drop the staging tables, unless a note keeps them."""
        if not is_kept_for_retry(publish, token):
            self._drop(token)

    def sweep(self) -> int:
        """Drop staging tables unchanged for :data:`SWEEP_AGE`."""
        with self.api.time_limit(CLEANUP_SECONDS):
            return drop_abandoned_tables(self.api, self.tables.staging, dt.datetime.now(dt.UTC) - SWEEP_AGE)

    def leftovers(self) -> list[str]:
        self.api.locate(self.tables.target)
        tables = abandoned_tables(self.api, self.tables.staging, dt.datetime.now(dt.UTC) - SWEEP_AGE)
        return sorted(table_ref.id for table_ref in tables)

    def close(self) -> None:
        with self._lock:
            api, self._api = self._api, None
        if api is not None:
            api.close()

    def _drop(self, layout: StagingLayout) -> None:
        with self.api.time_limit(CLEANUP_SECONDS):
            for table_ref in (layout.table, layout.rejects):
                if table_ref is not None:
                    drop_table(self.api, table_ref)

    def _labels(self, publish: Publish) -> dict[str, str]:
        names = ("dag_id", "task_id", "run_id")
        task_labels = {name: publish.labels[name] for name in names if name in publish.labels}
        return labels({**self.options.labels, **task_labels, "day": str(publish.day)})

    def _fill(
        self, publish: Publish, layout: StagingLayout, receipts: Sequence[FileReceipt], job_labels: dict[str, str]
    ) -> None:
        files, table = publish.manifest.polled.files, layout.table
        if layout.load_method == "load_job":
            paths = [f"{publish.stage.rstrip('/')}/{file.path}" for file in files]
            fields = [column.staging for column in layout.staged_columns]
            run_load_jobs(self.api, table, paths, fields, labels=job_labels, attempt=table.table)
            return
        staged_rows = sum(file.rows for file in files)
        sent_rows = sum(receipt.rows.rows + receipt.rejects.rows for receipt in receipts)
        if sent_rows != staged_rows:
            raise RetriableError(
                f"day {publish.day}: {staged_rows:,} rows are staged, but {sent_rows:,} were sent to BigQuery"
            )
        finalize_and_commit(self.api, table, [receipt.rows for receipt in receipts])

    def _require_rows_left(self, plan: PublishPlan) -> None:
        publish = plan.publish
        has_staged_rows = any(file.rows for file in publish.manifest.polled.files)
        if (
            plan.row.rows
            or not has_staged_rows
            or publish.on_empty == "accept"
            or not self.options.replaces(publish.kind)
        ):
            return
        row = self._replaced_row(publish)
        if row is not None and row.rows and row.day <= publish.day.date:
            raise DataError(
                f"day {publish.day}: BigQuery can hold none of the polled rows, but {row.rows:,} rows are "
                f"published (generation {row.generation}) and would be deleted. Correct the source. If the day is "
                "to be empty, set the operator's on_empty='accept' and clear the task"
            )

    def _replaced_row(self, publish: Publish) -> LedgerRow | None:
        if publish.kind != "increment":
            return self.ledger.newest(publish.day.date, publish.kind)
        row = self.ledger.newest_increment(publish.day.date, publish.intent.run)
        return row if is_reload(publish.manifest, row) else None


class TablePublisher(BigQueryPublisher, InspectsTarget):
    """Publisher into one table, which can be inspected before the poll."""

    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return the problems that options, existing tables and dry runs show. Creates nothing."""
        try:
            return inspection_problems(self.api, self.tables, schema, kind=kind, creates_probe=False)
        except (ConfigError, DataError) as error:
            return [str(error)]
