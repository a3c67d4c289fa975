"""Creates the target and adds the source's columns to it.

Vendor facts: https://cloud.google.com/bigquery/quotas#standard_tables, …/docs/managing-table-schemas (2026-11).
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.errors import StaleError
from airflow_provider_connect.clients.bigquery.sql import any_partition, column_list, quoted
from airflow_provider_connect.clients.bigquery.tables import (
    create_table,
    dry_run,
    fields_of,
    filter_column,
    find_table,
    retry_if_stale,
)
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.patience import Patience, doubling_pauses
from airflow_provider_connect.sinks._bigquery.aliases import TARGET
from airflow_provider_connect.sinks._bigquery.columns.schema import (
    compare_schema,
    fits_columns,
    new_fields,
    sink_fields,
)
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns, rest_type
from airflow_provider_connect.sinks._bigquery.names import DAY
from airflow_provider_connect.sinks._bigquery.partitions import new_partitioning, target_column_name
from airflow_provider_connect.stage.soft_deletes import DELETED, DELETED_AT, MARK_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sinks._bigquery.columns.types import Field, TargetColumn
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions

_LOG = logging.getLogger(__name__)
MARK_FIELDS = sink_fields(
    (DELETED, "BOOLEAN", "Whether the newest snapshot no longer has the row."),
    (DELETED_AT, "TIMESTAMP", "When the source was asked that no longer had the row."),
)
COLUMN_WAIT_SECONDS = 60.0
NO_DAY_CONDITION = f"{TARGET}.{DAY} = DATE '0001-01-01'"
# BigQuery's messages about a column that queries do not know yet, without and with an alias.
_UNKNOWN_COLUMN = re.compile(r"Unrecognized name|Name \S+ not found inside")


@dataclass(frozen=True)
class PreparedTarget:
    """Target that has the source's columns.

    :param filter_column: required in every query, or None.
    :param discarded: left-out source columns.
    """

    columns: list[TargetColumn]
    filter_column: str | None
    discarded: tuple[str, ...]
    table: Any


def ensure_target(api: BigQueryApi, target: TableRef, options: BigQueryOptions, schema: pa.Schema) -> PreparedTarget:
    """Create the target, or add the source's columns to it.

    :raises ConfigError: no table, and none may be created.
    :raises DataError: columns do not fit.
    """
    return ensure_columns(api, target, options, lambda existing: make_columns(schema, existing))


def ensure_columns(
    api: BigQueryApi,
    target: TableRef,
    options: BigQueryOptions,
    columns_for: Callable[[Sequence[Field]], list[TargetColumn]],
    *,
    labels: Mapping[str, str] = MappingProxyType({}),
    require: Callable[[Any], None] = lambda table: None,
) -> PreparedTarget:
    """Create a table or add columns to it, as :func:`ensure_target` does.

    :param columns_for: returns the columns for a table with the given fields.
    :param require: gets the table, or None if missing, and may raise.
    """

    def compare() -> PreparedTarget:
        table = find_table(api, target)
        require(table)
        if table is None:
            table = _create_target(api, target, options, columns_for([]), labels)
            require(table)  # another job may have created it first
        if problem := table_type_problem(table, target):
            raise ConfigError(problem)
        existing = fields_of(table)
        plan = compare_schema(target.id, existing, columns_for(existing), options.schema_contract)
        if plan.new_types:
            set_types(api, target, plan.new_types)
            raise StaleError(f"table {target.id} has new types since it was read")
        if plan.changed:
            table = patch_schema(api, table, target, plan.fields, plan.added_names)
        return PreparedTarget(plan.written_columns, filter_column(table), plan.discarded_sources, table)

    return retry_if_stale(compare, schema_change_failure(target))


def schema_change_failure(target: TableRef) -> str:
    """Return the failure text for :func:`~.tables.retry_if_stale`."""
    return f"the schema of {target.id}, so its columns could not be changed"


def _create_target(
    api: BigQueryApi,
    target: TableRef,
    options: BigQueryOptions,
    columns: Sequence[TargetColumn],
    labels: Mapping[str, str],
) -> Any:
    if problem := missing_table_problem(target, options):
        raise ConfigError(problem)
    return create_table(
        api,
        target,
        new_fields(columns),
        labels=labels,
        cluster_by=[target_column_name(name, columns) for name in options.cluster_by],
        partitioning=new_partitioning(target, options, columns),
    )


def missing_table_problem(target: TableRef, options: BigQueryOptions) -> str | None:
    if options.create_disposition == "never":
        return (
            f"table {target.id} does not exist and create_disposition='never'. Create it, or set "
            "create_disposition='if_needed'"
        )
    return None


def ensure_delete_marks(api: BigQueryApi, target: TableRef) -> None:
    """Add the columns of soft deletes to a target, whatever the schema contract.

    :raises DataError: such columns of other types.
    """

    def compare() -> None:
        table = find_table(api, target)
        existing = {field["name"].lower(): field for field in fields_of(table)} if table is not None else {}
        missing = [field for field in MARK_FIELDS if field["name"] not in existing]
        present = [field for field in MARK_FIELDS if field not in missing]
        if wrong := [field["name"] for field in present if not _is_mark(field, existing[field["name"]])]:
            raise DataError(
                f"table {target.id}: column {wrong[0]!r} has another type than deletes='soft' needs. Rename it, or "
                "leave deletes out"
            )
        if table is not None and missing:  # a write reports a target that is gone
            patch_schema(api, table, target, [*fields_of(table), *missing], [field["name"] for field in missing])

    retry_if_stale(compare, schema_change_failure(target))


def has_delete_marks(table: Any, written_columns: Sequence[TargetColumn]) -> bool:
    """Return True if a table has the columns of soft deletes, and the source has none of these names."""
    existing = {field["name"].lower(): field for field in fields_of(table)}
    has_columns = all(field["name"] in existing and _is_mark(field, existing[field["name"]]) for field in MARK_FIELDS)
    return has_columns and not any(column.name.lower() in MARK_COLUMNS for column in written_columns)


def _is_mark(mark: Field, existing: Field) -> bool:
    return rest_type(existing) == rest_type(mark) and existing.get("mode", "NULLABLE") in ("", "NULLABLE")


def table_type_problem(table: Any, target: TableRef) -> str | None:
    """Return the problem if the target is not a table, but for example a view."""
    if table.table_type != "TABLE":
        return f"{target.id} is a {table.table_type}, which cannot be written. Choose another name for the table"
    return None


def patch_schema(api: BigQueryApi, table: Any, target: TableRef, fields: Sequence[Field], added: Sequence[str]) -> Any:
    """Set a table's fields, and wait until queries know the added ones. Returns the new metadata.

    :raises StaleError: another client changed the table.
    """
    from google.cloud import bigquery

    table.schema = [bigquery.SchemaField.from_api_repr(field) for field in fields]
    table = api.call(f"change the schema of {target.id}", api.client.update_table, table, ["schema"])
    if added:
        by_day = any(field["name"] == DAY for field in fields)
        new = [field for field in fields if field["name"] in added]
        _await_columns(api, target, new, filter_column(table), NO_DAY_CONDITION if by_day else "TRUE")
    return table


def set_types(api: BigQueryApi, table_ref: TableRef, new_types: Sequence[tuple[str, str]]) -> None:
    """Let columns grow. BigQuery changes their types in place, in a statement each.

    :param new_types: names, and types in SQL.
    :raises ConfigError: BigQuery refuses the change, such as of a column that clusters the table.
    """
    names = ", ".join(name for name, _ in new_types)
    _LOG.warning("table %s: %s", table_ref.id, ", ".join(f"{name} becomes {kind}" for name, kind in new_types))
    for name, kind in new_types:
        sql = f"ALTER TABLE {table_ref.sql} ALTER COLUMN {quoted(name)} SET DATA TYPE {kind}"
        api.query(sql, action=f"let columns of {table_ref.id} grow: {names}", labels={"connect": "schema"})


def _await_columns(
    api: BigQueryApi, target: TableRef, added: Sequence[Field], filter_by: str | None, no_row_condition: str
) -> None:
    names = column_list(field["name"] for field in added)
    condition = f"{no_row_condition} AND {any_partition(filter_by, TARGET)}"
    columns = column_list((field["name"] for field in added), TARGET)
    query = f"SELECT {columns} FROM {target.sql} AS {TARGET} WHERE {condition} LIMIT 0"
    patience = Patience(COLUMN_WAIT_SECONDS, doubling_pauses(0.5, 5.0))
    while not _knows_columns(api, target, query):
        if not patience.wait_and_poll():
            raise RetriableError(
                f"{target.id}: {names} were added, but queries do not know them after {COLUMN_WAIT_SECONDS:.0f} s"
            )


def _knows_columns(api: BigQueryApi, target: TableRef, query: str) -> bool:
    from google.api_core.exceptions import BadRequest

    def try_query(*, timeout: float, retry: None) -> bool:
        try:
            dry_run(api, query, timeout=timeout, retry=retry)
        except BadRequest as error:
            if _UNKNOWN_COLUMN.search(str(error)):
                return False
            raise
        return True

    return bool(api.call(f"look for the new columns of {target.id}", try_query))


def has_schema_changed(api: BigQueryApi, target: TableRef, written_columns: Sequence[TargetColumn]) -> bool:
    """Return True if ``written_columns`` no longer fit the target."""
    table = find_table(api, target)
    return table is None or not fits_columns(fields_of(table), written_columns)
