"""Names, creation, reuse and sweep of staging tables.

Other programs may write to the stage: a table to reuse must have the attempt's name.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from airflow_provider_connect.clients.bigquery.errors import MissingError
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.tables import create_table, drop_table, find_table
from airflow_provider_connect.sinks._bigquery.names import legal_table_suffix
from airflow_provider_connect.stage.manifest import attempt_folder
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.sink import Publish
    from airflow_provider_connect.sinks._bigquery.columns.types import Field, TargetColumn

STAGING_LIFE = dt.timedelta(days=1)
_STAGING_MARK = "__stage_"
REJECTS_SUFFIX = "_rejects"
_LABEL = {"connect": "staging"}


class FilledStaging(Wire):
    """Note about a staging table that an earlier attempt has filled completely."""

    table: str
    rejects_table: str | None
    digest: str
    rejects: int
    streams: int


@dataclass(frozen=True)
class TableChange:
    """Template table that a publish changes."""

    name: str
    filter_column: str | None
    had_rows: bool
    has_rows: bool
    is_partitioned_by_day: bool = False


@dataclass(frozen=True)
class StagingLayout:
    """Staging tables of one attempt and their columns.

    :param staged_columns: columns of the staging table. With load jobs, these include columns that the target lacks.
    :param position_column: a row's position in the day.
    :param table_column: name of a row's table.
    :param filled: note, if an earlier attempt has sent all rows.
    """

    table: TableRef
    rejects: TableRef | None
    columns: list[TargetColumn]
    staged_columns: list[TargetColumn]
    load_method: Literal["storage_write", "load_job"]
    discarded_sources: tuple[str, ...] = ()
    position_column: str | None = None
    table_column: str | None = None
    filter_column: str | None = None
    table_changes: tuple[TableChange, ...] | None = None
    has_delete_marks: bool = False
    filled: FilledStaging | None = None

    @property
    def fields(self) -> list[Field]:
        fields = [column.staging for column in self.staged_columns]
        if self.position_column:
            fields.append({"name": self.position_column, "type": "INTEGER", "mode": "NULLABLE"})
        if self.table_column:
            fields.append({"name": self.table_column, "type": "STRING", "mode": "NULLABLE"})
        return fields


def staging_prefix(target: TableRef, dataset: str | None = None) -> TableRef:
    """Return the common name prefix of a target's staging tables."""
    if dataset is None:
        return target.sibling(f"{target.table}{_STAGING_MARK}")
    return TableRef.parse(f"{dataset}.{legal_table_suffix(target.id)}{_STAGING_MARK}", target.project)


def staging_table_for(prefix: TableRef, attempt: str) -> TableRef:
    """Return an attempt's staging table. The name for its rejects adds :data:`REJECTS_SUFFIX`."""
    return prefix.sibling(f"{prefix.table}{legal_table_suffix(attempt)}")


def new_staging_table(prefix: TableRef, attempt: str) -> TableRef:
    """Return a staging table of an attempt, with a new name at each call."""
    return staging_table_for(prefix, f"{attempt}-{uuid.uuid4().hex[:12]}")


def is_staging_table_of(staging_table: TableRef, attempt: str, table_name: str) -> bool:
    """Return True if :func:`new_staging_table` can return this name for the attempt and target."""
    name = re.escape(staging_table_for(prefix_of(staging_table), f"{attempt}-").table)
    return re.fullmatch(f"{name}[0-9a-f]{{12}}", table_name) is not None


def prefix_of(staging_table: TableRef) -> TableRef:
    """Return the :func:`staging_prefix` of a staging table."""
    return staging_table.sibling("".join(staging_table.table.rpartition(_STAGING_MARK)[:2]))


def is_staging(table: Any) -> bool:
    """Return True if a table or listing entry has the label of staging tables."""
    return bool(_LABEL.items() <= table.labels.items())


def create_staging_table(
    api: BigQueryApi,
    table_ref: TableRef,
    fields: Sequence[Field],
    labels: Mapping[str, str] = MappingProxyType({}),
    cluster_by: Sequence[str] = (),
) -> None:
    """Create a staging table, which BigQuery drops after :data:`STAGING_LIFE`."""
    expires = dt.datetime.now(dt.UTC) + STAGING_LIFE
    create_table(api, table_ref, fields, labels={**labels, **_LABEL}, cluster_by=cluster_by, expires_at=expires)


def staging_tables(api: BigQueryApi, prefix: TableRef) -> dict[TableRef, dt.datetime]:
    """Return a target's staging tables, with the time of their last change.

    Takes one listing, and one read of each.
    """
    try:
        table_refs = list_staging_tables(api, prefix)
    except MissingError:
        return {}
    tables = [(table_ref, find_table(api, table_ref)) for table_ref in table_refs]
    return {table_ref: table.modified or table.created for table_ref, table in tables if table and is_staging(table)}


def list_staging_tables(api: BigQueryApi, prefix: TableRef) -> list[TableRef]:
    """Return the staging tables whose names begin with ``prefix``. Takes one listing."""
    name = f"{prefix.project}.{prefix.dataset}"
    action = f"list the staging tables {prefix.id}…"
    items = api.call(action, lambda **how: list(api.client.list_tables(name, page_size=1000, **how)))
    tables = [prefix.sibling(item.table_id) for item in items if is_staging(item)]
    return [table_ref for table_ref in tables if table_ref.table.startswith(prefix.table)]


def abandoned_tables(api: BigQueryApi, prefix: TableRef, older_than: dt.datetime) -> list[TableRef]:
    """Return the target's staging tables that have not changed since ``older_than``.

    Pending write streams do not change a table: ``older_than`` must lie before the start of any running put.
    """
    return [table_ref for table_ref, changed in staging_tables(api, prefix).items() if changed < older_than]


def drop_abandoned_tables(api: BigQueryApi, prefix: TableRef, older_than: dt.datetime) -> int:
    """Drop :func:`abandoned_tables`. Returns their number."""
    tables = abandoned_tables(api, prefix, older_than)
    for table_ref in tables:
        drop_table(api, table_ref)
    return len(tables)


def is_kept_for_retry(publish: Publish, layout: StagingLayout) -> bool:
    """Return True if a note keeps the staging table for the next attempt."""
    note = _read_note(publish)
    return note is not None and note.table == layout.table.table


def reuse_filled(api: BigQueryApi, publish: Publish, layout: StagingLayout) -> StagingLayout | None:
    """Return the layout of a staging table filled earlier from the same manifest."""
    note = _read_note(publish)
    if note is None or note.digest != layout_digest(layout):
        return None
    if not is_staging_table_of(layout.table, publish.manifest.attempt, note.table):
        return None
    if note.rejects_table not in (None, f"{note.table}{REJECTS_SUFFIX}"):
        return None
    table = layout.table.sibling(note.table)
    rejects = layout.table.sibling(note.rejects_table) if note.rejects_table else None
    if not all(_exists(api, table_ref) for table_ref in (table, rejects) if table_ref is not None):
        return None
    return replace(layout, table=table, rejects=rejects, filled=note)


def _exists(api: BigQueryApi, table_ref: TableRef) -> bool:
    table = find_table(api, table_ref)
    return table is not None and is_staging(table)


def layout_digest(layout: StagingLayout) -> str:
    """Return a digest of everything that decides the content of staging tables."""
    columns = [[column.name, column.expression, column.staging] for column in layout.columns]
    staged = [column.staging for column in layout.staged_columns]
    text = json.dumps([columns, staged, layout.position_column, layout.load_method, layout.rejects is not None])
    return hashlib.sha256(text.encode()).hexdigest()


def _read_note(publish: Publish) -> FilledStaging | None:
    try:
        return FilledStaging.model_validate_json(Folder(publish.stage).read(note_name(publish)))
    except (FileNotFoundError, ValidationError):
        return None


def note_name(publish: Publish) -> str:
    """Return the stage path of the note about a day's staging table."""
    return f"{attempt_folder(publish.manifest.attempt)}/bigquery.json"
