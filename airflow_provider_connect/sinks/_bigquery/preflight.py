"""What would fail a publish, found once a job, before the source is asked for anything."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.errors import STREAMED_SECONDS
from airflow_provider_connect.clients.bigquery.sql import any_partition, literal
from airflow_provider_connect.clients.bigquery.tables import find
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._bigquery.aliases import TARGET
from airflow_provider_connect.sinks._bigquery.columns.types import columns
from airflow_provider_connect.sinks._bigquery.erase_list import emptied, read_list
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger, WriteMode, ensure_ledger
from airflow_provider_connect.sinks._bigquery.plan import plan_of
from airflow_provider_connect.sinks._bigquery.problems import expired, problems
from airflow_provider_connect.sinks._bigquery.rejects import Rejects
from airflow_provider_connect.sinks._bigquery.script import rehearse, sample
from airflow_provider_connect.sinks._bigquery.snapshot import kept_rows, refused_rows
from airflow_provider_connect.sinks._bigquery.staging import Part, Staging, stage_of
from airflow_provider_connect.sinks._bigquery.tables import Tables, ensure_tombstones
from airflow_provider_connect.sinks._bigquery.target import Ready, ensure_marks, ensure_target
from airflow_provider_connect.sinks._bigquery.ways_in.load_job import load_method
from airflow_provider_connect.stage.deleted import soft_delete_problems
from airflow_provider_connect.stage.digest import RECORD_KEY

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.clients.bigquery.sql import Place
    from airflow_provider_connect.sink import StreamKey
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions
    from airflow_provider_connect.window import SourceKind


def _mode_problems(options: BigQueryOptions, target: Place, kind: SourceKind) -> list[str]:
    """Say why the options do not fit what the source's rows are."""
    if kind == "snapshot" and options.snapshot == "replace" and options.write_mode == "append":
        return [
            f"table {target.id}: write_mode='append' only adds rows, so a snapshot cannot take the place of the one "
            "before: set snapshot='daily' to add the snapshot of each day, or write_mode='replace'"
        ]
    if kind == "increment" and options.write_mode == "merge" and options.newest_by is None:
        return [
            f"table {target.id}: increments need not come in the order of their days, so write_mode='merge' cannot "
            "tell which of two rows is newer: name the column in newest_by"
        ]
    return []


def _deletes_problems(options: BigQueryOptions, target: Place, schema: pa.Schema, kind: SourceKind) -> list[str]:
    if options.deletes == "hard":
        return []
    # A merge compares by its own key, which is looked at elsewhere.
    key = RECORD_KEY if options.write_mode == "replace" else options.key[0]
    return [f"table {target.id}: {text}" for text in soft_delete_problems(schema.names, kind, key)]


def preflight(
    api: Api,
    tables: Tables,
    ledger: BigQueryLedger,
    schema: pa.Schema,
    dates: Sequence[dt.date],
    *,
    kind: SourceKind = "day",
) -> list[str]:
    """Return what a person has to mend, each with what to do; make target, tombstones and ledger when nothing is.

    :raises ConfigError: something else that a person has to mend.
    :raises DataError: columns do not fit.
    :raises RetriableError: BigQuery is away, or others stream into the target.
    """
    options, target = tables.options, tables.target
    whole = options.replaces_whole(kind)
    if found := seen(api, tables, schema, kind=kind):
        return found
    # The second look: another first run may make the table, and publish, between the other two.
    if find(api, target) is None and (lost := len(ledger.days())) and find(api, target) is None:
        return [
            f"table {target.id} is gone, and {tables.ledger.id} says it held {lost} days: restore the table "
            "(bq cp …@<milliseconds before it was dropped>), or drop the ledger too and load the days again"
        ]
    ready = ensure_target(api, target, options, schema)
    if options.deletes == "soft":
        if options.write_mode == "replace" and all(column.source != RECORD_KEY for column in ready.columns):
            return [
                f"table {target.id} has no column {RECORD_KEY}, and schema_contract={options.schema_contract!r} adds "
                "none: add it to the table (STRING), or set deletes='hard'"
            ]
        ensure_marks(api, target)
    check_buffer(api, target, ready, dates, options.write_mode, replaces_whole=whole)
    ensure_tombstones(api, tables, ready.columns)
    rehearse_publish(tables, ledger.key, schema, ready, kind)
    today = dt.datetime.now(dt.UTC).date()
    if found := [text for date in dates if (text := expired(ready.table, date, today))]:
        return found[:1]
    version = ensure_ledger(api, tables.ledger, target, ledger.key, options.write_mode, replaces_whole=whole)
    if problem := read_list(api, target, version).problem(schema.names):
        return [f"table {target.id}: {problem}, while no job runs: {emptied(tables.ledger, target)}"]
    if whole:
        require_only_newest(api, tables, ledger, ready)
    return []


def seen(api: Api, tables: Tables, schema: pa.Schema, *, kind: SourceKind = "day", probes: bool = True) -> list[str]:
    """Return the problems that options, columns, rights and what is there show.

    :param probes: whether rights are tried with a table that is made and dropped; else dry.
    :raises ConnectError: as :func:`preflight`.
    """
    options, target = tables.options, tables.target
    if found := _mode_problems(options, target, kind) or _deletes_problems(options, target, schema, kind):
        return found
    load_method(tables.options, "", schema, columns(schema))
    return problems(api, tables, schema, probes=probes)


def require_only_newest(api: Api, tables: Tables, ledger: BigQueryLedger, ready: Ready) -> None:
    """Check that the table holds nothing that a snapshot must not delete.

    :raises ConfigError: it does.
    """
    newest = ledger.newest(dt.date.max, "snapshot")
    day = newest.day if newest else None
    counted = kept_rows(tables.target, tables.options.write_mode, ready.filter_column, literal(day, "DATE"))
    sql = f"SELECT {counted} AS kept"
    [found], _ = api.query(sql, doing=f"look for rows to keep in {tables.target.id}", labels={"connect": "preflight"})
    if found["kept"]:
        raise refused_rows(tables.target, found["kept"], day)


def rehearse_publish(
    tables: Tables,
    key: StreamKey,
    schema: pa.Schema,
    ready: Ready,
    kind: SourceKind = "day",
    *,
    parts: tuple[Part, ...] | None = None,
) -> None:
    """Make the script of a day that is not there yet: what cannot be written is known before the poll.

    :param parts: the tables that it may change, where there are several.

    :raises ConfigError: the script is too long or costs more than it may, or options of merge name columns that
        cannot serve.
    """
    place = stage_of(tables.staging, uuid.uuid4().hex * 2)
    made = Staging(
        place,
        None,
        ready.columns,
        ready.columns,
        "storage_write",
        filter_column=ready.filter_column,
        parts=parts,
        marked=True,  # the longer script
    )
    plan = plan_of(tables, sample(key, schema, kind), made, (), Rejects(tables.rejects, tables.rejects))
    rehearse(plan, tables.options.maximum_bytes_billed)


def check_buffer(
    api: Api,
    target: Place,
    ready: Ready,
    days: Sequence[dt.date],
    write_mode: WriteMode,
    *,
    replaces_whole: bool = False,
) -> None:
    """Return if a publish of these days need not change rows of a table that others stream into.

    BigQuery refuses to delete or merge recently streamed rows for 30 to 90 minutes, and says of the table only that
    something is in its buffer, not which rows. Inserts are not concerned, so a day without a row goes in at any time:
    https://cloud.google.com/bigquery/docs/write-api#use_data_manipulation_language_dml_with_recently_streamed_data
    (2026-11).

    :raises RetriableError: it would have to.
    """
    buffer = ready.table.streaming_buffer
    if buffer is None or write_mode == "append":
        return
    if write_mode == "replace" and not replaces_whole and not _has_rows(api, target, days, ready.filter_column):
        return
    since = f", the oldest from {buffer.oldest_entry_time:%Y-%m-%d %H:%M} UTC" if buffer.oldest_entry_time else ""
    raise RetriableError(
        f"table {target.id} has about {buffer.estimated_rows or 0:,} rows in BigQuery's streaming buffer{since}, and "
        "rows of the table are to be replaced: BigQuery does not change recently streamed rows in a transaction, for "
        "30 to 90 minutes. Nothing was polled; try again later, and let nobody stream into a table of this sink's",
        retry_after_seconds=STREAMED_SECONDS,
    )


def _has_rows(api: Api, target: Place, days: Sequence[dt.date], filter_column: str | None) -> bool:
    if not days:
        return False
    among = ", ".join(literal(day) for day in sorted(days))
    where = f"{TARGET}.`day` IN ({among}) AND {any_partition(filter_column, TARGET)}"
    sql = f"SELECT 1 AS there FROM {target.sql} AS {TARGET} WHERE {where} LIMIT 1"
    found, _ = api.query(sql, doing=f"look for days to replace in {target.id}", labels={"connect": "preflight"})
    return bool(found)
