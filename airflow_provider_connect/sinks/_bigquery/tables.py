"""The tables of one target: where ledger, rejects, tombstones and staging tables lie, how they are made and merged."""

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
from airflow_provider_connect.sinks._bigquery.staging import staging_prefix
from airflow_provider_connect.sinks._bigquery.target import patch_schema, schema_change_failure

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.sinks._bigquery.columns.types import Field, TargetColumn
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions

_NO_KEY = ("FLOAT", "JSON", "RECORD")
_NO_ORDER = ("JSON", "RECORD")


@dataclass(frozen=True)
class MergeRule:
    """What identifies a row, and which of two rows wins.

    :param key: names of columns in the table.
    :param newest_by: the column whose highest value wins; None: the later day wins, then the later staged row.
    :param delete_where: a BOOL column; where it is true, the key is deleted.
    :param tombstones: the table of deletions; None without ``delete_where``.
    :param may_be_nan: whether ``newest_by`` is a floating-point column.
    """

    key: tuple[str, ...]
    newest_by: str | None = None
    delete_where: str | None = None
    tombstones: TableRef | None = None
    may_be_nan: bool = False

    @property
    def tombstone_columns(self) -> tuple[str, ...]:
        """The columns that are kept of a deleted row."""
        return tuple(dict.fromkeys((*self.key, *((self.newest_by,) if self.newest_by else ()))))

    def comparable(self, value: str) -> str:
        """Return SQL that makes a value of ``newest_by`` comparable: NaN, which equals nothing, becomes NULL."""
        return f"IF(IS_NAN({value}), NULL, {value})" if self.may_be_nan else value


def make_merge_rule(
    columns: Sequence[TargetColumn],
    key: Sequence[str],
    newest_by: str | None,
    delete_where: str | None,
    tombstones: TableRef | None,
) -> MergeRule:
    """Return how to merge; the options name columns as the source does.

    :raises ConfigError: naming every option whose column is missing or has an unsuitable type.
    """
    by_source = {column.source: column for column in columns}
    problems: list[str] = []

    def find(option: str, source: str, refused: tuple[str, ...]) -> str:
        column = by_source.get(source)
        if column is None:
            problems.append(f"{option} names {source!r}, which the source lacks; it has {', '.join(sorted(by_source))}")
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
    found = MergeRule(
        key=tuple(find("key", source, _NO_KEY) for source in key),
        newest_by=find("newest_by", newest_by, _NO_ORDER) if newest_by else None,
        delete_where=find("delete_where", delete_where, ()) if delete_where else None,
        tombstones=tombstones if delete_where else None,
        may_be_nan=newest_by in by_source and by_source[newest_by].target["type"] == "FLOAT",
    )
    if problems:
        raise ConfigError("; ".join(problems))
    return found


def tombstone_fields(merge: MergeRule, columns: Sequence[TargetColumn]) -> list[dict[str, Any]]:
    """Return the fields of the table of tombstones: key, ``newest_by``, and the deleting day and stream."""
    by_name = {column.name: column.target for column in columns}
    own = sink_fields(
        ("day", "DATE", "The day whose data deleted the key."),
        (STREAM, "STRING", "The stream whose data deleted the key."),
    )
    return [{**by_name[name], "mode": "NULLABLE"} for name in merge.tombstone_columns] + own


@dataclass(frozen=True)
class TargetTables:
    """What the options say about a target and the tables beside it.

    :param project: of the target, where its name has none.
    """

    options: BigQueryOptions
    project: str

    @cached_property
    def target(self) -> TableRef:
        """The table that is published into; of a template, the head (:mod:`.split`)."""
        return TableRef.parse(self.options.head, self.project)

    @property
    def staging(self) -> TableRef:
        """Where staging tables lie, and what their names begin with."""
        return staging_prefix(self.target, self.options.staging_dataset)

    @property
    def ledger(self) -> TableRef:
        """The table that remembers every publish."""
        return self.target.sibling(f"{self.target.table}__ledger")

    @property
    def rejects(self) -> TableRef:
        """The table of rows that could not be loaded."""
        return self.target.sibling(f"{self.target.table}__rejects")

    @property
    def tombstones(self) -> TableRef:
        """The table of deleted keys, which only merges with ``delete_where`` have."""
        return self.target.sibling(f"{self.target.table}__tombstones")

    def merge_rule(self, columns: Sequence[TargetColumn]) -> MergeRule | None:
        """Return how rows of these columns are merged; None in the other write modes.

        :raises ConfigError: an option names a column that is missing or cannot serve.
        """
        options = self.options
        if options.write_mode != "merge":
            return None
        return make_merge_rule(columns, options.key, options.newest_by, options.delete_where, self.tombstones)


def ensure_tombstones(api: BigQueryApi, tables: TargetTables, columns: Sequence[TargetColumn]) -> None:
    """Make the table of deleted keys if merge needs it and it is missing."""
    merge = tables.merge_rule(columns)
    if merge is not None and merge.tombstones is not None:
        ensure_table(
            api,
            merge.tombstones,
            tombstone_fields(merge, columns),
            description=f"Keys that were deleted from {tables.target.id}, and the day that deleted them.",
        )


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
    """Make a table beside the target if it is missing: ledger, rejects or tombstones. It never expires.

    :param partition_by: a DATE column.
    :param later: columns that earlier versions did not make; a table that lacks no others gets them.
    :raises ConfigError: it is there, and lacks columns; or it is bound to expire.
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
    lacking = {one["name"] for one in _lacking(table, fields)}
    if lacking and lacking <= {*added_later}:
        table = _with_columns(api, table_ref, table, fields)
    elif lacking:
        raise ConfigError(
            f"table {table_ref.id} is in the way: it was not made by this sink, since it lacks the columns "
            f"{', '.join(sorted(lacking - {*added_later}))}. Rename it or drop it"
        )
    remove_expiration(api, table_ref, table)


def _lacking(table: Any, fields: Sequence[Field]) -> list[Field]:
    known = {one["name"].lower() for one in fields_of(table)}
    return [one for one in fields if one["name"].lower() not in known]


def _with_columns(api: BigQueryApi, place: TableRef, table: Any, fields: Sequence[Field]) -> Any:
    """Give a table that an earlier version made the columns that it lacks; return its metadata."""
    added = [one["name"] for one in _lacking(table, fields)]

    def add() -> Any:
        known = find_table(api, place) or table  # another job adds them, too
        return patch_schema(api, known, place, [*fields_of(known), *_lacking(known, fields)], added)

    return retry_if_stale(add, schema_change_failure(place))
