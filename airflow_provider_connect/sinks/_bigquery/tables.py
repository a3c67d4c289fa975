"""The merge rule, and the tables beside a target: ledger, rejects, tombstones, staging."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.tables import (
    create_table,
    fields_of,
    find_table,
    remove_expiration,
    retry_if_stale,
)
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.aliases import STREAM
from airflow_provider_connect.sinks._bigquery.columns.schema import sink_fields
from airflow_provider_connect.sinks._bigquery.columns.types import FITS_INTO, rest_type, sql_type
from airflow_provider_connect.sinks._bigquery.staging import staging_prefix
from airflow_provider_connect.sinks._bigquery.target import patch_schema, schema_change_failure, set_types

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.sinks._bigquery.columns.types import Field, TargetColumn
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions

_NO_KEY_TYPES = ("FLOAT", "JSON", "RECORD")
_NO_ORDER_TYPES = ("JSON", "RECORD")


@dataclass(frozen=True)
class MergeRule:
    """Columns that identify a row and decide which of two rows wins.

    :param newest_by: highest value wins. Default: the later day, then the later staged row.
    :param delete_where: BOOL column. Deletes the key if true.
    """

    key: tuple[str, ...]
    newest_by: str | None = None
    delete_where: str | None = None
    tombstones: TableRef | None = None
    may_be_nan: bool = False

    @property
    def tombstone_columns(self) -> tuple[str, ...]:
        """Columns of a deleted row that the tombstones keep."""
        return tuple(dict.fromkeys((*self.key, *((self.newest_by,) if self.newest_by else ()))))

    def comparable(self, value: str) -> str:
        """Return SQL of a ``newest_by`` value with NaN as NULL."""
        return f"IF(IS_NAN({value}), NULL, {value})" if self.may_be_nan else value


def make_merge_rule(
    columns: Sequence[TargetColumn],
    key: Sequence[str],
    newest_by: str | None,
    delete_where: str | None,
    tombstones: TableRef | None,
) -> MergeRule:
    """Return the merge rule for options that name source columns.

    :raises ConfigError: missing or unsuitable columns.
    """
    by_source = {column.source: column for column in columns}
    problems: list[str] = []

    def target_name(option: str, source: str, refused: tuple[str, ...]) -> str:
        column = by_source.get(source)
        if column is None:
            problems.append(f"{option} names {source!r}, which the source lacks. It has {', '.join(sorted(by_source))}")
            return source
        type_name = column.target["type"]
        if column.target.get("mode") == "REPEATED" or type_name in refused:
            problems.append(
                f"{option} names {source!r}, a {type_name} column, which BigQuery cannot compare: name another"
            )
        elif option == "delete_where" and type_name != "BOOLEAN":
            problems.append(f"delete_where names {source!r}, a {type_name} column: name a BOOL column")
        return column.name

    if not key:
        problems.append("write_mode='merge' needs key=(…), the columns that identify a row")
    rule = MergeRule(
        key=tuple(target_name("key", source, _NO_KEY_TYPES) for source in key),
        newest_by=target_name("newest_by", newest_by, _NO_ORDER_TYPES) if newest_by else None,
        delete_where=target_name("delete_where", delete_where, ()) if delete_where else None,
        tombstones=tombstones if delete_where else None,
        may_be_nan=newest_by in by_source and by_source[newest_by].target["type"] == "FLOAT",
    )
    if problems:
        raise ConfigError("; ".join(problems))
    return rule


def tombstone_fields(merge: MergeRule, columns: Sequence[TargetColumn]) -> list[dict[str, Any]]:
    """Return the columns of the tombstones: key, ``newest_by``, and the day and stream that deleted the key."""
    by_name = {column.name: column.target for column in columns}
    deletion_fields = sink_fields(
        ("day", "DATE", "The day whose data deleted the key."),
        (STREAM, "STRING", "The stream whose data deleted the key."),
    )
    return [{**by_name[name], "mode": "NULLABLE"} for name in merge.tombstone_columns] + deletion_fields


@dataclass(frozen=True)
class TargetTables:
    """Names of a target and its sibling tables."""

    options: BigQueryOptions
    project: str

    @cached_property
    def target(self) -> TableRef:
        """Table that the sink publishes into, or a template's head (:mod:`.template_tables`)."""
        return TableRef.parse(self.options.head, self.project)

    @property
    def staging(self) -> TableRef:
        return staging_prefix(self.target, self.options.staging_dataset)

    @property
    def ledger(self) -> TableRef:
        return self.target.sibling(f"{self.target.table}__ledger")

    @property
    def rejects(self) -> TableRef:
        return self.target.sibling(f"{self.target.table}__rejects")

    @property
    def tombstones(self) -> TableRef:
        """Table of deleted keys, for merges with ``delete_where``."""
        return self.target.sibling(f"{self.target.table}__tombstones")

    def merge_rule(self, columns: Sequence[TargetColumn]) -> MergeRule | None:
        options = self.options
        if options.write_mode != "merge":
            return None
        return make_merge_rule(columns, options.key, options.newest_by, options.delete_where, self.tombstones)


def ensure_tombstones(api: BigQueryApi, tables: TargetTables, columns: Sequence[TargetColumn]) -> None:
    """Create the table of deleted keys if the merge needs it."""
    merge = tables.merge_rule(columns)
    if merge is None or merge.tombstones is None:
        return
    fields = tombstone_fields(merge, columns)
    ensure_table(
        api,
        merge.tombstones,
        fields,
        description=f"Keys that were deleted from {tables.target.id}, and the day that deleted them.",
    )
    types = {field["name"]: rest_type(field) for field in fields_of(find_table(api, merge.tombstones))}
    new_types = [
        (field["name"], sql_type(field))
        for field in fields
        if rest_type(field) in FITS_INTO.get(types.get(field["name"], ""), ())
    ]
    if new_types:  # the target's column has grown
        set_types(api, merge.tombstones, new_types)


def ensure_table(
    api: BigQueryApi,
    table_ref: TableRef,
    fields: Sequence[Field],
    *,
    description: str,
    cluster_by: Sequence[str] = (),
    partition_by: str | None = None,
    added_later: Collection[str] = (),
) -> None:
    """Create one of the sink's own tables, which never expires, if missing.

    :param added_later: columns that an existing table may lack.
    :raises ConfigError: the table lacks others, or will expire.
    """
    from google.cloud import bigquery

    table = find_table(api, table_ref) or create_table(
        api,
        table_ref,
        fields,
        description=description,
        cluster_by=cluster_by,
        partitioning=bigquery.TimePartitioning(field=partition_by) if partition_by else None,
    )
    lacking = {field["name"] for field in _missing_fields(table, fields)}
    if lacking and lacking <= {*added_later}:
        table = _with_columns(api, table_ref, table, fields)
    elif lacking:
        raise ConfigError(
            f"table {table_ref.id} is in the way: it was not created by this sink, since it lacks the columns "
            f"{', '.join(sorted(lacking - {*added_later}))}. Rename it or drop it"
        )
    remove_expiration(api, table_ref, table)


def _missing_fields(table: Any, fields: Sequence[Field]) -> list[Field]:
    existing = {field["name"].lower() for field in fields_of(table)}
    return [field for field in fields if field["name"].lower() not in existing]


def _with_columns(api: BigQueryApi, table_ref: TableRef, table: Any, fields: Sequence[Field]) -> Any:
    added = [field["name"] for field in _missing_fields(table, fields)]

    def add() -> Any:
        current = find_table(api, table_ref) or table  # another job may have added columns meanwhile
        return patch_schema(api, current, table_ref, [*fields_of(current), *_missing_fields(current, fields)], added)

    return retry_if_stale(add, schema_change_failure(table_ref))
