"""Finds problems of dataset, target and options, each with its remedy."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.api import SETTLE_SECONDS
from airflow_provider_connect.clients.bigquery.errors import MissingError
from airflow_provider_connect.clients.bigquery.sql import any_partition, literal
from airflow_provider_connect.clients.bigquery.tables import drop_table, dry_run, fields_of, filter_column, find_table
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.aliases import TARGET
from airflow_provider_connect.sinks._bigquery.columns.schema import DAY_FIELD, compare_schema
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.names import DAY
from airflow_provider_connect.sinks._bigquery.options import INGESTION_TIME, NONE, RANGE
from airflow_provider_connect.sinks._bigquery.partitions import (
    describe_partitioning,
    partitioning_as_options,
    range_table_advice,
    requested_partitioning,
    table_partitioning,
    target_column_name,
)
from airflow_provider_connect.sinks._bigquery.staging import create_staging_table, staging_table_for
from airflow_provider_connect.sinks._bigquery.target import missing_table_problem, table_type_problem

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sinks._bigquery.columns.types import Field, TargetColumn
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions
    from airflow_provider_connect.sinks._bigquery.tables import TargetTables

_PARTITION_TYPES = ("DATE", "TIMESTAMP", "DATETIME")


def target_problems(
    api: BigQueryApi, tables: TargetTables, schema: pa.Schema, *, creates_probe: bool = True
) -> list[str]:
    """Return the problems, each with its remedy.

    :param creates_probe: False for a dry run, which does not test the KMS key.
    :raises RetriableError: BigQuery is unavailable.
    """
    target, options = tables.target, tables.options
    if problems_found := _dataset_problems(api, tables):
        return problems_found
    table = find_table(api, target)
    checks: list[Callable[[], list[str] | None]] = [
        lambda: _probe(api, tables) if creates_probe else _dry_probe(api, tables)
    ]
    if table is None:
        checks.append(lambda: new_table_problems(target, options, make_columns(schema)))
    elif problem := table_type_problem(table, target):
        return [problem]
    else:
        existing = fields_of(table)
        checks.append(lambda: table_problems(table, target, options, make_columns(schema, existing)))
        checks.append(lambda: _check_schema(target, existing, make_columns(schema, existing), options))
        checks.append(lambda: _dry_delete(api, table, target))
    for check in checks:
        try:
            problems_found += check() or []
        except (ConfigError, DataError) as error:
            problems_found.append(str(error))
    return problems_found


def _missing_dataset_text(table_ref: TableRef, location: str, option: str) -> str:
    return (
        f"dataset {table_ref.project}.{table_ref.dataset} does not exist, or the connection's account may not see "
        f"it. Correct {option}, create the dataset (bq mk --dataset --location={location} "
        f"{table_ref.project}:{table_ref.dataset}), or give the account the right bigquery.datasets.get"
    )


def _dataset_problems(api: BigQueryApi, tables: TargetTables) -> list[str]:
    try:
        location = api.locate(tables.target)
    except MissingError:
        return [_missing_dataset_text(tables.target, "…", "table=")]
    except ConfigError as error:
        return [str(error)]
    return _staging_problems(api, tables.staging, location) if tables.options.staging_dataset else []


def _staging_problems(api: BigQueryApi, staging: TableRef, location: str) -> list[str]:
    name = f"{staging.project}.{staging.dataset}"
    try:
        dataset = api.call(
            f"reading dataset {name}", api.client.get_dataset, name, retry_missing_seconds=SETTLE_SECONDS
        )
    except MissingError:
        return [_missing_dataset_text(staging, location, "staging_dataset=")]
    if str(dataset.location).lower() != location.lower():
        return [
            f"dataset {name} lies in {dataset.location}, but the table lies in {location}. Set staging_dataset= to "
            "a dataset in the table's location"
        ]
    return []


def new_table_problems(target: TableRef, options: BigQueryOptions, columns: Sequence[TargetColumn]) -> list[str]:
    if problem := missing_table_problem(target, options):
        return [problem]
    problems = []
    fields = {column.name: column.target for column in columns} | {DAY: DAY_FIELD}
    column_name, size = requested_partitioning(options, columns)
    if column_name not in (NONE, INGESTION_TIME):
        problems += _partition_problems(target, options, column_name, size, fields[column_name])
    for name in options.cluster_by:
        field = fields[target_column_name(name, columns)]
        if field["type"] in ("RECORD", "JSON", "FLOAT", "BYTES", "TIME") or field.get("mode") == "REPEATED":
            problems.append(
                f"cluster_by names {name!r}, a {field['type']} column. BigQuery cannot cluster by that type"
            )
    return problems


def _partition_problems(
    target: TableRef, options: BigQueryOptions, column: str, size: str | None, field: Field
) -> list[str]:
    kind = "REPEATED" if field.get("mode") == "REPEATED" else field["type"]
    if size == RANGE:
        if kind != "INTEGER":
            column_text = f"partition_by={options.partition_by!r} is a {kind} column"
            return [f"{column_text}: BigQuery makes ranges of INTEGER columns only"]
        return [range_table_advice(target, column)]
    if kind not in _PARTITION_TYPES:
        return [
            f"partition_by={options.partition_by!r} is a {kind} column: "
            "BigQuery partitions by DATE, TIMESTAMP or DATETIME"
        ]
    if size == "hour" and kind == "DATE":
        return [f"partition_type='hour': {options.partition_by!r} is a DATE and has no hours"]
    return []


def table_problems(
    table: Any, target: TableRef, options: BigQueryOptions, columns: Sequence[TargetColumn]
) -> list[str]:
    """Return differences between table and options that would fail the day or cost money."""
    problems = []
    requested, actual = requested_partitioning(options, columns), table_partitioning(table)
    if actual != requested:
        sources = {column.name: column.source for column in columns}
        problems.append(
            f"table {target.id} is partitioned otherwise ({describe_partitioning(*actual)}) than the options "
            f"request ({describe_partitioning(*requested)}). Partitions cannot be changed. Set "
            f"{partitioning_as_options(sources.get(actual[0], actual[0]), actual[1])}, or load into a new table"
        )
    if table.expires is not None:
        problems.append(
            f"table {target.id} expires at {table.expires:%Y-%m-%d %H:%M} UTC, with every day in it. Run ALTER "
            "TABLE … SET OPTIONS (expiration_timestamp = NULL)"
        )
    key = table.encryption_configuration.kms_key_name if table.encryption_configuration else None
    if options.kms_key and key != options.kms_key:
        problems.append(
            f"table {target.id} is encrypted with {key or 'a key of Google'}, not with {options.kms_key}. Correct "
            f"kms_key=, or change the table (bq update --destination_kms_key=… {target.id})"
        )
    return problems


def expiry_problem(table: Any, day: dt.date, today: dt.date) -> str | None:
    """Return the problem if BigQuery would delete a day right after its publish.

    A partition's expiration counts from the UTC midnight at which the partition ends:
    https://cloud.google.com/bigquery/docs/managing-partitioned-tables#partition-expiration (2026-11).
    """
    partitioning = table.time_partitioning
    if partitioning is None or partitioning.field is None or not partitioning.expiration_ms:
        return None
    days = partitioning.expiration_ms / 86_400_000
    if (today - _last_day_of_partition(day, partitioning.type_)).days <= days:
        return None
    column_text = "" if partitioning.field == DAY else f" of {partitioning.field!r}"
    return (
        f"table {table.project}.{table.dataset_id}.{table.table_id} drops partitions{column_text} after {days:g} "
        f"days, and {day} is older: BigQuery would delete the day immediately. Raise partition_expiration_days of "
        "the table (ALTER TABLE … SET OPTIONS (partition_expiration_days = …)), or do not load this day"
    )


def _last_day_of_partition(day: dt.date, kind: str) -> dt.date:
    if kind == "YEAR":
        return day.replace(month=12, day=31)
    if kind == "MONTH":
        return (day.replace(day=1) + dt.timedelta(days=32)).replace(day=1) - dt.timedelta(days=1)
    return day


def _check_schema(
    target: TableRef, existing: Sequence[Field], columns: Sequence[TargetColumn], options: BigQueryOptions
) -> None:
    compare_schema(target.id, existing, columns, options.schema_contract)


def _probe(api: BigQueryApi, tables: TargetTables) -> None:
    probe_table = staging_table_for(tables.staging, f"probe-{uuid.uuid4().hex}")
    create_staging_table(api, probe_table, [DAY_FIELD])
    drop_table(api, probe_table)


def _dry_probe(api: BigQueryApi, tables: TargetTables) -> None:
    """Dry-run the creation of a staging table.

    Seen: https://github.com/mozilla/bigquery-etl/pull/1805 (2026-11).
    """
    probe_table = staging_table_for(tables.staging, f"probe-{uuid.uuid4().hex}")
    api.call(f"try to make table {probe_table.id}", dry_run, api, f"CREATE TABLE {probe_table.sql} ({DAY} DATE)")


def _dry_delete(api: BigQueryApi, table: Any, target: TableRef) -> None:
    if not any(field["name"].lower() == DAY for field in fields_of(table)):
        return  # the schema check adds the column or reports it
    condition = f"{TARGET}.{DAY} = {literal(dt.date(1970, 1, 1))} AND {any_partition(filter_column(table), TARGET)}"
    api.call(f"try to change {target.id}", dry_run, api, f"DELETE FROM {target.sql} AS {TARGET} WHERE {condition}")
