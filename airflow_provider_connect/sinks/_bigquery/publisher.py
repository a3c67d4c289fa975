"""The driver's half of a publish into BigQuery: staging table, receipts, one script, and tidying up."""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.clients.bigquery.api import Api
from airflow_provider_connect.clients.bigquery.commit import finalize_and_commit
from airflow_provider_connect.clients.bigquery.errors import GoneError
from airflow_provider_connect.clients.bigquery.place import Place
from airflow_provider_connect.clients.bigquery.streams import StreamReceipt
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from airflow_provider_connect.publishing import row_of
from airflow_provider_connect.sink import LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._bigquery.buffer import check_buffer
from airflow_provider_connect.sinks._bigquery.columns.rows import cut
from airflow_provider_connect.sinks._bigquery.columns.types import Column, columns
from airflow_provider_connect.sinks._bigquery.kept import is_kept, kept_before, put_or_keep
from airflow_provider_connect.sinks._bigquery.layout import Layout
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger, ensure
from airflow_provider_connect.sinks._bigquery.load import load, unloadable
from airflow_provider_connect.sinks._bigquery.merge import Merge, merge_of, tombstone_fields
from airflow_provider_connect.sinks._bigquery.names import POSITION, labels
from airflow_provider_connect.sinks._bigquery.preflight import expired, problems
from airflow_provider_connect.sinks._bigquery.put import BATCH_BYTES, FileReceipt, RejectsAppender, Staging
from airflow_provider_connect.sinks._bigquery.rejects import STAGED_REJECT_FIELDS, Rejects, ensure_rejects
from airflow_provider_connect.sinks._bigquery.script import PublishPlan, rehearse, sample
from airflow_provider_connect.sinks._bigquery.sweep import REJECTS_END, new_stage, stage_of, sweep
from airflow_provider_connect.sinks._bigquery.table import (
    Ready,
    drop,
    ensure_table,
    ensure_target,
    fields_of,
    find,
    staging,
)
from airflow_provider_connect.stage.rejects import read_rejects
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks.bigquery import BigQuerySink

_log = logging.getLogger(__name__)
LEDGER_END, REJECTS_TABLE_END, TOMBSTONES_END = "__ledger", "__rejects", "__tombstones"
TIDY_SECONDS = 15.0


class Publisher:
    """Publishes days of one stream into one table.

    :param sink: its options.
    :param api: to BigQuery; nothing is sent before the first call.
    """

    def __init__(self, sink: BigQuerySink, key: StreamKey, api: Api) -> None:
        self.sink = sink
        self.key = key
        self.api = api
        self.target = Place.parse(sink.table, api.project)

    @cached_property
    def ledger(self) -> BigQueryLedger:
        """The stream's ledger."""
        refuses = self.sink.write_mode == "append" and self.sink.on_published_day == "refuse"
        return BigQueryLedger(self.api, self.target, self._ledger_place, self.key, "refuse" if refuses else "append")

    def preflight(self, schema: pa.Schema, days: Sequence[Day]) -> list[str]:
        """Find what would fail a publish; make the target and the ledger when nothing would."""
        try:
            self._load_method("", schema, columns(schema))
            found = problems(self.api, self.target, self._layout, lambda fields: columns(schema, fields))
            if found:
                return found
            # The second look: another first run may make the table, and publish, between the other two.
            if self._is_missing() and (lost := len(self.ledger.days())) and self._is_missing():
                return [
                    f"table {self.target.id} is gone, and {self._ledger_place.id} says it held {lost} days: "
                    "restore the table (bq cp …@<milliseconds before it was dropped>), or drop the ledger too and load "
                    "the days again"
                ]
            ready = self._ready(schema)
            dates = [day.date for day in days]
            check_buffer(self.api, self.target, ready, dates, self.sink.write_mode)
            self._ensure_tombstones(ready.columns)
            self._rehearse(ready)
            today = dt.datetime.now(dt.UTC).date()
            found = [
                text
                for day in sorted(days, key=lambda day: day.date)
                if (text := expired(ready.table, day.date, today))
            ]
            if found:
                return found[:1]
            ensure(
                self.api,
                self._ledger_place,
                self.target,
                self.key,
                labels=labels(self.sink.labels),
                kms_key=self.sink.kms_key,
                write_mode=self.sink.write_mode,
            )
        except (ConfigError, DataError) as error:
            return [str(error)]
        return []

    def _rehearse(self, ready: Ready) -> None:
        """Make the script of a day that is not there yet: what cannot be written is known before the poll.

        :raises ConfigError: the script is too long or costs more than it may, or options of merge name columns that
            cannot serve.
        """
        rejects = self.target.sibling(f"{self.target.table}{REJECTS_TABLE_END}")
        publish, row = sample(self.key)
        rehearse(
            PublishPlan(
                target=self.target,
                staging=stage_of(self.target, uuid.uuid4().hex * 2, self.sink.staging_dataset),
                ledger=self._ledger_place,
                publish=publish,
                row=row,
                columns=ready.columns,
                write_mode=self.sink.write_mode,
                merge=self._merge(ready.columns),
                filter_column=ready.filter_column,
                rejects=Rejects(rejects, rejects),
            ),
            self.sink.maximum_bytes_billed,
        )

    def begin(self, publish: Publish, schema: pa.Schema) -> Staging:
        """Bring the target to hold the source's columns; make this attempt's staging tables."""
        ready = self._ready(schema)
        if ready.discarded:
            _log.warning("%s lacks columns, which are left out: %s", self.target.id, ", ".join(ready.discarded))
        every = columns(schema, fields_of(ready.table))
        method = self._load_method(publish.stage, schema, every)
        merges = self.sink.write_mode == "merge"
        # A retry publishes what an earlier driver froze, under the same attempt's name; the rows that driver left must
        # not count as ours, nor its load jobs, nor must it drop our table when it comes back late.
        place = new_stage(self.target, publish.manifest.attempt, self.sink.staging_dataset)
        rejects = None
        if self.sink.errors_tolerance == "all" or publish.manifest.polled.rejects:
            rejects = place.sibling(f"{place.table}{REJECTS_END}")
        made = Staging(
            stage=publish.stage,
            table=place,
            rejects=rejects,
            columns=ready.columns,
            # Files go in as they are, with the columns that the target does not take.
            staged=every if method == "load_job" else ready.columns,
            discarded=ready.discarded,
            load_method=method,
            position_column=POSITION if merges else None,
            filter_column=ready.filter_column,
        )
        if (kept := kept_before(self.api, publish, made, self.target, self.sink.staging_dataset)) is not None:
            _log.info(
                "day %s: its rows are in %s already, and go into the table from there", publish.day, kept.table.id
            )
            return kept
        names = self._labels(publish)
        fields = [column.staging for column in made.staged]
        if made.position_column:
            fields.append({"name": made.position_column, "type": "INTEGER", "mode": "NULLABLE"})
        staging(self.api, made.table, fields, names, self.sink.kms_key)
        if rejects is not None:
            staging(self.api, rejects, STAGED_REJECT_FIELDS, names, self.sink.kms_key)
        return made

    def commit(self, publish: Publish, made: Staging, receipts: Sequence[FileReceipt | None]) -> LedgerRow:
        """Show what was staged, put the day in place, drop the staging tables; may be repeated after a lost answer."""
        try:
            return self._commit(publish, made, receipts)
        except GoneError:
            # What is published already has lost its staging table.
            row = self.ledger.published(publish.day.date, publish.intent.token)
            if row is None:
                raise
            return row

    def _commit(self, publish: Publish, made: Staging, receipts: Sequence[FileReceipt | None]) -> LedgerRow:
        names = self._labels(publish)
        self.api.locate(self.target)
        appended = [receipt for receipt in receipts if receipt is not None]
        streams = tuple(receipt.rows.name for receipt in appended if receipt.rows.name)
        stream_count = made.kept.streams if made.kept else len(streams)
        if made.kept is None and made.load_method == "load_job":
            self._load(publish, made, names)
        elif made.kept is None:
            self._show(publish, made, appended)
        rejects = self._reject(publish, made, appended)
        plan = replace(self._plan(publish, made, rejects), streams=streams, stream_count=stream_count)
        published = put_or_keep(self.api, publish, made, plan, names)
        # The day is published. A table that cannot be dropped now expires, or is swept before.
        with suppress(ConnectError):
            self.drop(made)
        return published

    def abandon(self, publish: Publish, made: Staging) -> None:
        """Drop an attempt's staging tables, if they are not kept for the next one."""
        if not is_kept(publish, made):
            self.drop(made)

    def drop(self, made: Staging) -> None:
        """Drop an attempt's staging tables."""
        with self.api.within(TIDY_SECONDS):
            for place in (made.table, made.rejects):
                if place is not None:
                    drop(self.api, place)

    def sweep(self) -> int:
        """Drop the staging tables of attempts that must be dead."""
        with self.api.within(TIDY_SECONDS):
            before = dt.datetime.now(dt.UTC) - self.sink.sweep_after
            return sweep(self.api, self.target, before, self.sink.staging_dataset)

    @property
    def _ledger_place(self) -> Place:
        return self.target.sibling(self.sink.ledger_table or f"{self.target.table}{LEDGER_END}")

    @cached_property
    def _layout(self) -> Layout:
        sink = self.sink
        return Layout(
            create_disposition=sink.create_disposition,
            partition_by=sink.partition_by,
            partition_type=sink.partition_type,
            partition_filter=sink.partition_filter,
            partition_expiration_days=sink.partition_expiration_days,
            cluster_by=sink.cluster_by,
            labels=labels(sink.labels),
            kms_key=sink.kms_key,
            location=sink.location,
            schema_contract=sink.schema_contract,
            staging_dataset=sink.staging_dataset,
        )

    def _ready(self, schema: pa.Schema) -> Ready:
        self.api.locate(self.target)
        return ensure_target(self.api, self.target, self._layout, lambda fields: columns(schema, fields))

    def _is_missing(self) -> bool:
        return find(self.api, self.target) is None

    def _ensure_tombstones(self, made: Sequence[Column]) -> None:
        merge = self._merge(made)
        if merge is not None and merge.tombstones is not None:
            ensure_table(
                self.api,
                merge.tombstones,
                tombstone_fields(merge, made),
                labels=labels(self.sink.labels),
                kms_key=self.sink.kms_key,
                description=f"Keys that were deleted from {self.target.id}, and the day that deleted them.",
            )

    def _merge(self, made: Sequence[Column]) -> Merge | None:
        """Return how rows are merged, None in the other modes."""
        sink = self.sink
        if sink.write_mode != "merge":
            return None
        tombstones = self.target.sibling(f"{self.target.table}{TOMBSTONES_END}")
        return merge_of(made, sink.key, sink.newest_by, sink.delete_where, tombstones)

    def _labels(self, publish: Publish) -> dict[str, str]:
        """Return the labels of jobs and staging tables: the user's own, then where to look in Airflow."""
        names = ("dag_id", "task_id", "run_id")
        own = {name: publish.labels[name] for name in names if name in publish.labels}
        return labels({**self.sink.labels, **own, "day": str(publish.day)})

    def _load_method(
        self, stage: str, schema: pa.Schema, made: Sequence[Column]
    ) -> Literal["storage_write", "load_job"]:
        """Return how rows reach the staging table.

        :raises ConfigError: load jobs are asked for, and these rows cannot go that way.
        """
        sink = self.sink
        if sink.load_method == "storage_write" or (sink.load_method == "auto" and not stage.startswith("gs://")):
            return "storage_write"
        against = unloadable(schema, made)
        if sink.write_mode == "merge":
            against.append("write_mode='merge' needs each row's place in the day, which a file does not hold")
        if sink.errors_tolerance == "all":
            against.append("errors_tolerance='all' looks at every row, and a load job takes files as they are")
        if not against:
            return "load_job"
        if sink.load_method == "auto":
            return "storage_write"
        raise ConfigError(f"load_method='load_job' does not do here: {'; '.join(against)}; use 'storage_write'")

    def _show(self, publish: Publish, made: Staging, receipts: Sequence[FileReceipt]) -> None:
        """Commit the streams of all files, after a look at the counts."""
        staged = sum(file.rows for file in publish.manifest.polled.files)
        sent = sum(receipt.rows.rows + receipt.rejects.rows for receipt in receipts)
        if sent != staged:
            raise RetriableError(f"day {publish.day}: {staged:,} rows are staged and {sent:,} were sent to BigQuery")
        finalize_and_commit(self.api, made.table, [receipt.rows for receipt in receipts])

    def _load(self, publish: Publish, made: Staging, names: dict[str, str]) -> None:
        files = [f"{made.stage.rstrip('/')}/{file.path}" for file in publish.manifest.polled.files]
        if files:
            fields = [column.staging for column in made.staged]
            load(self.api, made.table, files, fields, labels=names, attempt=made.table.table)

    def _reject(self, publish: Publish, made: Staging, receipts: Sequence[FileReceipt]) -> Rejects | None:
        """Stage what the source set aside beside what executors did, and return the day's dead letters.

        :raises DataError: more rows were set aside in all files together than ``max_rejects`` allows.
        """
        if made.kept is not None:
            rejected = made.kept.rejects - publish.manifest.polled.counts.get("rejected", 0)
        else:
            rejected = sum(receipt.rejects.rows for receipt in receipts)
        if rejected > self.sink.max_rejects:
            raise DataError(
                f"day {publish.day}: BigQuery cannot hold {rejected:,} rows, more than max_rejects="
                f"{self.sink.max_rejects}: mend them in the source, or raise max_rejects"
            )
        target = self.target.sibling(f"{self.target.table}{REJECTS_TABLE_END}")
        if made.rejects is None:
            # Those of an earlier generation must go with it.
            return Rejects(target) if find(self.api, target) is not None else None
        if made.kept is not None:
            return Rejects(target, made.rejects, made.kept.rejects)
        streams = [receipt.rejects for receipt in receipts]
        if publish.manifest.polled.rejects:
            streams.append(self._source_rejects(publish, made.rejects))
        finalize_and_commit(self.api, made.rejects, streams)
        ensure_rejects(self.api, target, self.target, labels=labels(self.sink.labels), kms_key=self.sink.kms_key)
        return Rejects(target, made.rejects, sum(stream.rows for stream in streams))

    def _source_rejects(self, publish: Publish, table: Place) -> StreamReceipt:
        with RejectsAppender(self.api, table) as appender:
            for file in publish.manifest.polled.rejects:
                for rejects in read_rejects(publish.stage, file, BATCH_BYTES):
                    rows = [cut(reject.position, reject.reason, reject.record) for reject in rejects]
                    appender.append("source", rows)
            return appender.close()

    def _plan(self, publish: Publish, made: Staging, rejects: Rejects | None) -> PublishPlan:
        polled = publish.manifest.polled
        from_source = polled.counts.get("rejected", 0)
        staged = sum(file.rows for file in polled.files)
        from_sink = rejects.rows - from_source if rejects and rejects.staging else 0
        if staged and staged == from_sink:
            self._require_nothing_gone(publish)
        counts = polled.all_counts | {"rejected": from_source + from_sink}
        if made.discarded:
            counts["discarded_columns"] = len(made.discarded)
        return PublishPlan(
            target=self.target,
            staging=made.table,
            ledger=self._ledger_place,
            publish=publish,
            row=row_of(publish, 0, rows=staged - from_sink, counts=counts, published_at=None),
            columns=made.columns,
            write_mode=self.sink.write_mode,
            on_published_day=self.sink.on_published_day,
            merge=self._merge(made.columns),
            filter_column=made.filter_column,
            load_method=made.load_method,
            rejects=rejects,
            shares_ledger=self.sink.ledger_table is not None,
        )

    def _require_nothing_gone(self, publish: Publish) -> None:
        """Refuse to replace a day that has rows by none, where BigQuery can hold none of those that came.

        :raises DataError: with how many rows would be gone.
        """
        if publish.on_empty == "accept" or not self.sink.replaces(publish.kind):
            return
        row = self.ledger.row(publish.day.date)
        if row is not None and row.rows:
            raise DataError(
                f"day {publish.day}: BigQuery can hold none of the rows that came, and {row.rows:,} rows are published "
                f"(generation {row.generation}), which would be gone: mend the source; if that is right, set the "
                "operator's on_empty='accept' and clear the task"
            )
