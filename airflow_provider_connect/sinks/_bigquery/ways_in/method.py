"""Which way a day's rows go into the staging table: what the options say, and what the columns allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._bigquery.columns.types import Column
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions

_AS_THEY_ARE = ("BOOLEAN", "INTEGER", "FLOAT", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP", "DATETIME", "NUMERIC")


def load_method(
    options: BigQueryOptions, stage: str, schema: pa.Schema, columns: Sequence[Column]
) -> Literal["storage_write", "load_job"]:
    """Return how rows reach the staging table.

    :param stage: path or URL of the stage's root.
    :param columns: what ``schema`` becomes.
    :raises ConfigError: load jobs are asked for, and these rows cannot go that way.
    """
    if options.load_method == "storage_write" or (options.load_method == "auto" and not stage.startswith("gs://")):
        return "storage_write"
    if options.tables is not None:
        return "storage_write"  # the rows must say which table they belong to, and files do not
    against = unloadable(schema, columns)
    if options.write_mode == "merge":
        against.append("write_mode='merge' needs each row's place in the day, which a file does not hold")
    if options.errors_tolerance == "all":
        against.append("errors_tolerance='all' looks at every row, and a load job takes files as they are")
    if not against:
        return "load_job"
    if options.load_method == "auto":
        return "storage_write"
    raise ConfigError(f"load_method='load_job' cannot be used here: {'; '.join(against)}; use 'storage_write'")


def unloadable(schema: pa.Schema, columns: Sequence[Column]) -> list[str]:
    """Say which columns a load job cannot take from a Parquet file as they are."""
    from pyarrow import types

    problems = []
    for column in columns:
        if column.staging["name"] != column.source:
            problems.append(f"column {column.source!r} has another name in the staging table")
        elif column.staging["mode"] == "REPEATED" or column.staging["type"] not in _AS_THEY_ARE:
            problems.append(f"column {column.source!r} is nested or wider than NUMERIC")
        elif column.json == "unchecked" or (
            column.target["mode"] == "REQUIRED" and schema.field(column.source).nullable
        ):
            problems.append(f"column {column.source!r} must be looked at row by row (JSON or REQUIRED)")
        elif not _same_in_parquet(schema.field(column.source).type, types):
            problems.append(
                f"column {column.source!r} is {schema.field(column.source).type}, which Parquet has otherwise"
            )
    return problems


def _same_in_parquet(kind: pa.DataType, types: Any) -> bool:
    """Tell whether BigQuery reads this type from Parquet as the staging table has it."""
    if types.is_timestamp(kind) or types.is_time(kind):
        return bool(kind.unit in ("ms", "us"))
    return not (types.is_uint64(kind) or types.is_null(kind) or types.is_float16(kind))
