"""What is wrong with a dataset, a target or the options for it, each with what to do.

The dataset and the target are read, a staging table is made and dropped, and a DELETE is tried dry, which costs nothing
and asks for the same rights as the real one.
"""

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
    """Return what a person has to mend, each with what to do; [] when nothing.

    :param probes: whether the right to make tables is tried with one that is made and dropped; else dry, which makes
        nothing, and does not tell whether the key may be used.
    :raises RetriableError: BigQuery is away.
    """
    target, options = tables.target, tables.options
    if found := _dataset_problems(api, tables):
        return found
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
            found += check() or []
        except (ConfigError, DataError) as error:
            found.append(str(error))
    return found


def _no_dataset(place: TableRef, location: str, option: str) -> str:
    return (
        f"dataset {place.project}.{place.dataset} does not exist, or the connection's account may not see it: make it "
        f"(bq mk --dataset --location={location} {place.project}:{place.dataset}), give the account the right "
        f"bigquery.datasets.get, or correct {option}"
    )


def _dataset_problems(api: BigQueryApi, tables: TargetTables) -> list[str]:
    try:
        location = api.locate(tables.target)
    except MissingError:
        return [_no_dataset(tables.target, "…", "table=")]
    except ConfigError as error:
        return [str(error)]
    return _staging_problems(api, tables.staging, location) if tables.options.staging_dataset else []


def _staging_problems(api: BigQueryApi, place: TableRef, location: str) -> list[str]:
    name = f"{place.project}.{place.dataset}"
    try:
        found = api.call(f"reading dataset {name}", api.client.get_dataset, name, retry_missing_seconds=SETTLE_SECONDS)
    except MissingError:
        return [_no_dataset(place, location, "staging_dataset=")]
    if str(found.location).lower() != location.lower():
        return [
            f"dataset {name} lies in {found.location}, and the table in {location}: staging_dataset= has to name one "
            "that lies where the table does"
        ]
    return []


def new_table_problems(target: TableRef, options: BigQueryOptions, columns: Sequence[TargetColumn]) -> list[str]:
    """Return what is wrong with making the table as the options say."""
    if problem := missing_table_problem(target, options):
        return [problem]
    found = []
    fields = {column.name: column.target for column in columns} | {DAY: DAY_FIELD}
    by, size = requested_partitioning(options, columns)
    if by not in (NONE, INGESTION_TIME):
        found += _partition_problems(target, options, by, size, fields[by])
    for name in options.cluster_by:
        field = fields[target_column_name(name, columns)]
        if field["type"] in ("RECORD", "JSON", "FLOAT", "BYTES", "TIME") or field.get("mode") == "REPEATED":
            found.append(f"cluster_by names {name!r}, a {field['type']} column, by which BigQuery does not cluster")
    return found


def _partition_problems(
    target: TableRef, options: BigQueryOptions, by: str, size: str | None, field: Field
) -> list[str]:
    kind = "REPEATED" if field.get("mode") == "REPEATED" else field["type"]
    if size == RANGE:
        if kind != "INTEGER":
            said = f"partition_by={options.partition_by!r} is a {kind} column"
            return [f"{said}: BigQuery makes ranges of INTEGER columns only"]
        return [range_table_advice(target, by)]
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
    """Return where an existing table differs from what the options say, if that would cost or fail."""
    found = []
    wanted, actual = requested_partitioning(options, columns), table_partitioning(table)
    if actual != wanted:
        sources = {column.name: column.source for column in columns}
        found.append(
            f"table {target.id} is partitioned otherwise ({describe_partitioning(*actual)}) than the options say ({describe_partitioning(*wanted)}): "
            f"{partitioning_as_options(sources.get(actual[0], actual[0]), actual[1])} takes it as it is; or load into a new table: "
            "partitioning cannot be changed"
        )
    if table.expires is not None:
        found.append(
            f"table {target.id} expires at {table.expires:%Y-%m-%d %H:%M} UTC, and every day in it: "
            "ALTER TABLE … SET OPTIONS (expiration_timestamp = NULL)"
        )
    key = table.encryption_configuration.kms_key_name if table.encryption_configuration else None
    if options.kms_key and key != options.kms_key:
        found.append(
            f"table {target.id} is encrypted with {key or 'a key of Google'} and not with {options.kms_key}: change it "
            f"(bq update --destination_kms_key=… {target.id}), or correct kms_key="
        )
    return found


def expiry_problem(table: Any, day: dt.date, today: dt.date) -> str | None:
    """Return why a day would vanish as soon as it is published; None when it stays.

    A partition lives so long after the midnight, UTC, at which it ends, however new the data in it is:
    https://cloud.google.com/bigquery/docs/managing-partitioned-tables#partition-expiration (2026-11). What a day has in
    another partition column is known only when it is read: it is taken to be of that day. Partitions by time of arrival
    are new, whatever is in them.

    :param today: in UTC.
    """
    partitioning = table.time_partitioning
    if partitioning is None or partitioning.field is None or not partitioning.expiration_ms:
        return None
    days = partitioning.expiration_ms / 86_400_000
    if (today - _last_of_partition(day, partitioning.type_)).days <= days:
        return None
    of = "" if partitioning.field == DAY else f" of {partitioning.field!r}"
    return (
        f"table {table.project}.{table.dataset_id}.{table.table_id} drops partitions{of} after {days:g} days, and "
        f"{day} is older: BigQuery would delete the day at once. Raise partition_expiration_days of the table (ALTER "
        "TABLE … SET OPTIONS (partition_expiration_days = …)), or do not load this day"
    )


def _last_of_partition(day: dt.date, kind: str) -> dt.date:
    if kind == "YEAR":
        return day.replace(month=12, day=31)
    if kind == "MONTH":
        return (day.replace(day=1) + dt.timedelta(days=32)).replace(day=1) - dt.timedelta(days=1)
    return day


def _check_schema(
    target: TableRef, existing: Sequence[Field], made: Sequence[TargetColumn], options: BigQueryOptions
) -> None:
    compare_schema(target.id, existing, made, options.schema_contract)


def _probe(api: BigQueryApi, tables: TargetTables) -> None:
    """Make and drop a staging table: rights to make tables, and to use the key."""
    place = staging_table_for(tables.staging, f"probe-{uuid.uuid4().hex}")
    create_staging_table(api, place, [DAY_FIELD])
    drop_table(api, place)


def _dry_probe(api: BigQueryApi, tables: TargetTables) -> None:
    """Ask whether a staging table could be made: BigQuery refuses it dry as it would be refused.

    Seen: https://github.com/mozilla/bigquery-etl/pull/1805 (2026-11).
    """
    place = staging_table_for(tables.staging, f"probe-{uuid.uuid4().hex}")
    api.call(f"try to make table {place.id}", dry_run, api, f"CREATE TABLE {place.sql} ({DAY} DATE)")


def _dry_delete(api: BigQueryApi, table: Any, target: TableRef) -> None:
    if not any(field["name"].lower() == DAY for field in fields_of(table)):
        return  # it is added, or reported as missing, with the other columns
    condition = f"{TARGET}.{DAY} = {literal(dt.date(1970, 1, 1))} AND {any_partition(filter_column(table), TARGET)}"
    api.call(f"try to change {target.id}", dry_run, api, f"DELETE FROM {target.sql} AS {TARGET} WHERE {condition}")
