"""Partitions of a table: requested by options, read from a table, and described.

A day's rows have its date in column ``day``.

Vendor facts: https://cloud.google.com/bigquery/docs/partitioned-tables (2026-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.sql import quoted
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.aliases import TARGET
from airflow_provider_connect.sinks._bigquery.names import DAY
from airflow_provider_connect.sinks._bigquery.options import INGESTION_TIME, NONE, RANGE

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sinks._bigquery.columns.types import TargetColumn
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions


def target_column_name(source: str, columns: Sequence[TargetColumn]) -> str:
    """Return the target's name of a source column in ``partition_by`` or ``cluster_by``.

    :raises ConfigError: no such column.
    """
    if source == DAY:
        return DAY
    for column in columns:
        if column.source == source:
            return column.name
    raise ConfigError(
        f"partition_by or cluster_by names {source!r}, which the source lacks. It has "
        f"{', '.join(sorted(column.source for column in columns))}"
    )


def requested_partitioning(options: BigQueryOptions, columns: Sequence[TargetColumn]) -> tuple[str, str | None]:
    """Return the target's partition column and the partition size that the options request."""
    column = options.partition_by
    if column == NONE:
        return NONE, None
    return column if column == INGESTION_TIME else target_column_name(column, columns), options.partition_type


def table_partitioning(table: Any) -> tuple[str, str | None]:
    if table.range_partitioning is not None:
        return str(table.range_partitioning.field), RANGE
    if table.time_partitioning is None:
        return NONE, None
    return table.time_partitioning.field or INGESTION_TIME, table.time_partitioning.type_.lower()


def row_partition_sql(table: Any) -> str | None:
    """Return SQL of the partition of a target's row. None if a day's rows are always in one."""
    column, size = table_partitioning(table)
    if column in (NONE, DAY) or size is None:
        return None
    if size == RANGE:
        ranges = table.range_partitioning.range_
        return f"DIV(SAFE_SUBTRACT({TARGET}.{quoted(column)}, {int(ranges.start)}), {int(ranges.interval)})"
    if column == INGESTION_TIME:
        return f"{TARGET}._PARTITIONTIME"
    kind = next(field.field_type for field in table.schema if field.name.lower() == column.lower())
    return f"{kind}_TRUNC({TARGET}.{quoted(column)}, {size.upper()})"


def new_partitioning(target: TableRef, options: BigQueryOptions, columns: Sequence[TargetColumn]) -> Any:
    """Return the time partitioning of a new table.

    :raises ConfigError: the options request ranges.
    """
    from google.cloud import bigquery

    column, size = requested_partitioning(options, columns)
    if size is None:
        return None
    if size == RANGE:
        raise ConfigError(range_table_advice(target, column))
    expiration_ms = options.partition_expiration_days and options.partition_expiration_days * 86_400_000
    field = None if column == INGESTION_TIME else column
    return bigquery.TimePartitioning(type_=size.upper(), field=field, expiration_ms=expiration_ms)


def range_table_advice(target: TableRef, column: str) -> str:
    """Return a message with the statement that creates a range-partitioned table."""
    return (
        f"table {target.id} does not exist. Create a table with ranges by hand: CREATE TABLE {target.sql} ({DAY} "
        f"DATE, {quoted(column)} INT64) PARTITION BY RANGE_BUCKET({quoted(column)}, GENERATE_ARRAY(first, end, "
        "step)); then the first publish adds the other columns"
    )


def describe_partitioning(column: str, size: str | None) -> str:
    if column == NONE:
        return "not at all"
    if size == RANGE:
        return f"{column} by ranges of whole numbers"
    return f"{'time of arrival' if column == INGESTION_TIME else column} by {size}"


def partitioning_as_options(column: str, size: str | None) -> str:
    return f"partition_by={column!r}" + (f", partition_type={size!r}" if size else "")
