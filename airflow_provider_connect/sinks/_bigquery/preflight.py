"""Finds problems that would fail a publish, before the poll."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.errors import STREAMED_SECONDS
from airflow_provider_connect.clients.bigquery.sql import any_partition, literal
from airflow_provider_connect.clients.bigquery.tables import find_table
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._bigquery.aliases import TARGET
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.erase_list import empty_list_statements, read_erase_list
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger, WriteMode, ensure_ledger
from airflow_provider_connect.sinks._bigquery.load_methods.load_job import choose_load_method
from airflow_provider_connect.sinks._bigquery.merge.write_mode import require_write_mode
from airflow_provider_connect.sinks._bigquery.plan import make_publish_plan
from airflow_provider_connect.sinks._bigquery.problems import expiry_problem, target_problems
from airflow_provider_connect.sinks._bigquery.rejects import RejectTables
from airflow_provider_connect.sinks._bigquery.script import rehearse_script, sample_publish
from airflow_provider_connect.sinks._bigquery.snapshot import protected_rows_error, protected_rows_sql
from airflow_provider_connect.sinks._bigquery.spans import ensure_span_column, span_column_problems
from airflow_provider_connect.sinks._bigquery.staging import StagingLayout, TableChange, staging_table_for
from airflow_provider_connect.sinks._bigquery.tables import TargetTables, ensure_tombstones
from airflow_provider_connect.sinks._bigquery.target import PreparedTarget, ensure_delete_marks, ensure_target
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.stage.merging import INCREMENTS_NEED_ORDER
from airflow_provider_connect.stage.soft_deletes import soft_delete_problems

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sink import StreamKey
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions
    from airflow_provider_connect.window import SourceKind


def _mode_problems(options: BigQueryOptions, target: TableRef, kind: SourceKind) -> list[str]:
    if kind == "snapshot" and options.snapshot == "replace" and options.write_mode == "append":
        return [
            f"table {target.id}: write_mode='append' only adds rows, so a snapshot cannot replace the previous "
            "one. Set write_mode='replace', or snapshot='daily' to add the snapshot of each day"
        ]
    if kind == "increment" and options.write_mode == "merge" and options.newest_by is None:
        return [f"table {target.id}: {INCREMENTS_NEED_ORDER}"]
    return []


def _deletes_problems(options: BigQueryOptions, target: TableRef, schema: pa.Schema, kind: SourceKind) -> list[str]:
    if options.deletes == "hard":
        return []
    # A merge compares by its own key, which is validated elsewhere.
    key = RECORD_KEY if options.write_mode == "replace" else options.key[0]
    return [f"table {target.id}: {text}" for text in soft_delete_problems(schema.names, kind, key)]


def preflight(
    api: BigQueryApi,
    tables: TargetTables,
    ledger: BigQueryLedger,
    schema: pa.Schema,
    dates: Sequence[dt.date],
    *,
    kind: SourceKind = "day",
) -> list[str]:
    """Return the target's problems with remedies. Without any, create the sink's tables.

    :raises ConfigError: a problem that stops the further checks.
    :raises DataError: columns do not fit.
    :raises RetriableError: BigQuery or the target is busy.
    """
    options, target = tables.options, tables.target
    replaces_whole = options.replaces_whole(kind)
    if problems := inspection_problems(api, tables, schema, kind=kind):
        return problems
    # Read twice: another first run may create the table and publish between the two reads.
    if find_table(api, target) is None and (lost_days := len(ledger.days())) and find_table(api, target) is None:
        return [
            f"table {target.id} is gone, but {tables.ledger.id} says it held {lost_days} days. Restore the table "
            "(bq cp …@<milliseconds before it was dropped>), or drop the ledger too and load the days again"
        ]
    ready = ensure_target(api, target, options, schema)
    if options.deletes == "soft":
        if options.write_mode == "replace" and all(column.source != RECORD_KEY for column in ready.columns):
            return [
                f"table {target.id} has no column {RECORD_KEY}, and schema_contract={options.schema_contract!r} "
                "does not add it. Add it to the table (STRING), or set deletes='hard'"
            ]
        ensure_delete_marks(api, target)
    if kind == "increment" and options.write_mode == "replace":
        ensure_span_column(api, target)
    require_no_streamed_rows(api, target, ready, dates, options.write_mode, replaces_whole=replaces_whole)
    ensure_tombstones(api, tables, ready.columns)
    rehearse_publish(tables, ledger.key, schema, ready, kind)
    today = dt.datetime.now(dt.UTC).date()
    if problems := [text for date in dates if (text := expiry_problem(ready.table, date, today))]:
        return problems[:1]
    version = ensure_ledger(api, tables.ledger, target, ledger.key, options.write_mode, replaces_whole=replaces_whole)
    if problem := read_erase_list(api, target, version).column_problem(schema.names):
        return [f"table {target.id}: {problem}, while no job runs: {empty_list_statements(tables.ledger, target)}"]
    if replaces_whole:
        require_only_snapshot_rows(api, tables, ledger, ready)
    require_write_mode(api, tables, ledger, ready)
    return []


def inspection_problems(
    api: BigQueryApi, tables: TargetTables, schema: pa.Schema, *, kind: SourceKind = "day", creates_probe: bool = True
) -> list[str]:
    """Return the problems of options, columns, rights and existing tables."""
    options, target = tables.options, tables.target
    problems_found = _mode_problems(options, target, kind) or _deletes_problems(options, target, schema, kind)
    if kind == "increment" and options.write_mode == "replace":
        problems_found += span_column_problems(target, schema.names)
    if problems_found:
        return problems_found
    choose_load_method(tables.options, "", schema, make_columns(schema))
    return target_problems(api, tables, schema, creates_probe=creates_probe)


def require_only_snapshot_rows(
    api: BigQueryApi, tables: TargetTables, ledger: BigQueryLedger, target: PreparedTarget
) -> None:
    """Raise ConfigError if the table holds rows that a snapshot must not delete."""
    newest = ledger.newest(dt.date.max, "snapshot")
    day = newest.day if newest else None
    count_sql = protected_rows_sql(tables.target, tables.options.write_mode, target.filter_column, literal(day, "DATE"))
    sql = f"SELECT {count_sql} AS kept"
    [counts], _ = api.query(sql, action=f"look for rows to keep in {tables.target.id}", labels={"connect": "preflight"})
    if counts["kept"]:
        raise protected_rows_error(tables.target, counts["kept"], day)


def rehearse_publish(
    tables: TargetTables,
    key: StreamKey,
    schema: pa.Schema,
    target: PreparedTarget,
    kind: SourceKind = "day",
    *,
    table_changes: tuple[TableChange, ...] | None = None,
) -> None:
    """Make the script of a made-up day, to find before the poll whether it can run.

    :raises ConfigError: the script is too long or too expensive, or a merge column unsuitable.
    """
    staging_table = staging_table_for(tables.staging, uuid.uuid4().hex * 2)
    layout = StagingLayout(
        staging_table,
        None,
        target.columns,
        target.columns,
        "storage_write",
        filter_column=target.filter_column,
        table_changes=table_changes,
        has_delete_marks=True,  # the longer script
    )
    plan = make_publish_plan(
        tables, sample_publish(key, schema, kind), layout, (), RejectTables(tables.rejects, tables.rejects)
    )
    rehearse_script(plan, tables.options.maximum_bytes_billed)


def require_no_streamed_rows(
    api: BigQueryApi,
    target: TableRef,
    prepared: PreparedTarget,
    days: Sequence[dt.date],
    write_mode: WriteMode,
    *,
    replaces_whole: bool = False,
) -> None:
    """Check that a publish of these days touches no rows that other writers streamed recently.

    BigQuery refuses to change such rows for 30 to 90 minutes. A day without rows in the table can always be published:
    https://cloud.google.com/bigquery/docs/write-api#use_data_manipulation_language_dml_with_recently_streamed_data
    (2026-11).

    :raises RetriableError: the publish may have to change such rows.
    """
    buffer = prepared.table.streaming_buffer
    if buffer is None or write_mode == "append":
        return
    if write_mode == "replace" and not replaces_whole and not _has_rows(api, target, days, prepared.filter_column):
        return
    since = f", the oldest from {buffer.oldest_entry_time:%Y-%m-%d %H:%M} UTC" if buffer.oldest_entry_time else ""
    raise RetriableError(
        f"table {target.id} has about {buffer.estimated_rows or 0:,} rows in BigQuery's streaming buffer{since}, "
        "and rows of the table are to be replaced. BigQuery does not change recently streamed rows in a "
        "transaction for 30 to 90 minutes. Nothing was polled. Try again later, and let no other writer stream "
        "into this table",
        retry_after_seconds=STREAMED_SECONDS,
    )


def _has_rows(api: BigQueryApi, target: TableRef, days: Sequence[dt.date], filter_column: str | None) -> bool:
    if not days:
        return False
    day_literals = ", ".join(literal(day) for day in sorted(days))
    condition = f"{TARGET}.`day` IN ({day_literals}) AND {any_partition(filter_column, TARGET)}"
    sql = f"SELECT 1 AS there FROM {target.sql} AS {TARGET} WHERE {condition} LIMIT 1"
    rows, _ = api.query(sql, action=f"look for days to replace in {target.id}", labels={"connect": "preflight"})
    return bool(rows)
