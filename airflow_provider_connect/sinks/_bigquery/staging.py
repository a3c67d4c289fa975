"""Staging tables: their names, what one attempt has in its own, and the sweep of those that dead attempts left.

Rows that were staged whole, but not put in place, are published by the next attempt from where they are. A note beside
the day's manifest names the staging table and has a digest of how its rows were staged. An attempt that would stage
them differently, or finds no note, makes a table of its own. Others may write where the stage lies, and what a note
names is dropped at the end: so only names of this attempt's staging tables count, and only tables that carry their
label. The note goes with the manifest; the publish script counts the staged rows in any case.
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
"""When BigQuery itself drops a staging table that nobody has dropped."""
_MARK = "__stage_"
REJECTS_SUFFIX = "_rejects"
_LABEL = {"connect": "staging"}


class FilledStaging(Wire):
    """What an earlier attempt has staged whole.

    :param table: name of the staging table.
    :param rejects_table: name of that of the rejects.
    :param digest: of the way the rows were staged.
    :param rejects: rows of the day that were set aside.
    :param streams: how many write streams filled the table.
    """

    table: str
    rejects_table: str | None
    digest: str
    rejects: int
    streams: int


@dataclass(frozen=True)
class TableChange:
    """One of several tables that a day's rows go into.

    :param name: the table's name, which the staged rows carry.
    :param filter_column: the column that queries on it must name; None if none.
    :param had_rows: whether the publish that is replaced may have put rows there.
    :param has_rows: whether this one does.
    :param is_by_day: whether it has a partition for each day.
    """

    name: str
    filter_column: str | None
    had_rows: bool
    has_rows: bool
    is_by_day: bool = False


@dataclass(frozen=True)
class StagingLayout:
    """Where one attempt's rows go, and as what: made by ``begin``, carried to every ``put`` and to ``commit``.

    :param table: the staging table.
    :param rejects: the staging table of rejects; None where there can be none.
    :param columns: what is written to the target.
    :param staged: what the staging table has; more than ``columns`` only where files are loaded as they are.
    :param discarded: source columns that are left out.
    :param position_column: holds the row's place in the day; None where it is not needed.
    :param table_column: holds the name of the row's table; None where all rows go into one.
    :param parts: the tables that the day changes, where there are several.
    :param filter_column: the column that queries on the target must name; None if none.
    :param marked: whether the target has the columns of soft deletes.
    :param kept: what an earlier attempt has staged; nothing is sent then.
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
        """The staging table's fields."""
        fields = [column.staging for column in self.staged_columns]
        if self.position_column:
            fields.append({"name": self.position_column, "type": "INTEGER", "mode": "NULLABLE"})
        if self.table_column:
            fields.append({"name": self.table_column, "type": "STRING", "mode": "NULLABLE"})
        return fields


def staging_prefix(target: TableRef, dataset: str | None = None) -> TableRef:
    """Return where a target's staging tables lie, and what their names begin with.

    :param dataset: another dataset than the target's, ``[project.]dataset``: the name then tells whose they are.
    """
    if dataset is None:
        return target.sibling(f"{target.table}{_MARK}")
    return TableRef.parse(f"{dataset}.{legal_table_suffix(target.id)}{_MARK}", target.project)


def staging_table_for(prefix: TableRef, attempt: str) -> TableRef:
    """Return where an attempt stages its rows; its rejects are staged in the same name and :data:`REJECTS_SUFFIX`."""
    return prefix.sibling(f"{prefix.table}{legal_table_suffix(attempt)}")


def new_staging_table(prefix: TableRef, attempt: str) -> TableRef:
    """Return a place of its own for each time that an attempt begins to publish."""
    return staging_table_for(prefix, f"{attempt}-{uuid.uuid4().hex[:12]}")


def is_staging_table_of(staging_table: TableRef, attempt: str, table_name: str) -> bool:
    """Tell whether :func:`new_staging_table` could have named a table so, for this attempt and the target of ``stage``."""
    name = re.escape(staging_table_for(prefix_of(staging_table), f"{attempt}-").table)
    return re.fullmatch(f"{name}[0-9a-f]{{12}}", table_name) is not None


def prefix_of(staging_table: TableRef) -> TableRef:
    """Return what :func:`staging_prefix` gives for the target of a staging table."""
    return staging_table.sibling("".join(staging_table.table.rpartition(_MARK)[:2]))


def is_staging(table: Any) -> bool:
    """Tell by its label whether a table, or its line in a listing, is a staging table."""
    return bool(_LABEL.items() <= table.labels.items())


def create_staging_table(
    api: BigQueryApi,
    table_ref: TableRef,
    fields: Sequence[Field],
    labels: Mapping[str, str] = MappingProxyType({}),
    cluster_by: Sequence[str] = (),
) -> None:
    """Make a staging table, which BigQuery drops by itself after :data:`STAGING_LIFE`."""
    expires = dt.datetime.now(dt.UTC) + STAGING_LIFE
    create_table(api, table_ref, fields, labels={**labels, **_LABEL}, cluster_by=cluster_by, expires_at=expires)


def staging_tables(api: BigQueryApi, prefix: TableRef) -> dict[TableRef, dt.datetime]:
    """Return the staging tables of a target that are there, and when each was last changed.

    One listing (a page for each 1,000 tables of the dataset), and one look at each.
    """
    try:
        places = list_staging_tables(api, prefix)
    except MissingError:
        return {}
    tables = [(place, find_table(api, place)) for place in places]
    return {place: table.modified or table.created for place, table in tables if table and is_staging(table)}


def list_staging_tables(api: BigQueryApi, prefix: TableRef) -> list[TableRef]:
    """Return the staging tables whose names begin with that of ``beginning``, by one listing of its dataset."""
    name = f"{prefix.project}.{prefix.dataset}"
    doing = f"list the staging tables {prefix.id}…"
    found = api.call(doing, lambda **how: list(api.client.list_tables(name, page_size=1000, **how)))
    places = [prefix.sibling(item.table_id) for item in found if is_staging(item)]
    return [place for place in places if place.table.startswith(prefix.table)]


def abandoned_tables(api: BigQueryApi, prefix: TableRef, older_than: dt.datetime) -> list[TableRef]:
    """Return the target's staging tables that nobody has changed since ``older_than``.

    Rows that wait in a pending stream are no change yet: ``older_than`` has to be longer ago than a put may take.
    """
    return [place for place, changed in staging_tables(api, prefix).items() if changed < older_than]


def drop_abandoned_tables(api: BigQueryApi, prefix: TableRef, older_than: dt.datetime) -> int:
    """Drop :func:`abandoned_tables` staging tables; return how many. What is missed BigQuery drops itself."""
    old = abandoned_tables(api, prefix, older_than)
    for place in old:
        drop_table(api, place)
    return len(old)


def is_kept_for_retry(publish: Publish, layout: StagingLayout) -> bool:
    """Tell whether the note names this staging table."""
    kept = _read(publish)
    return kept is not None and kept.table == layout.table.table


def reuse_filled(api: BigQueryApi, publish: Publish, layout: StagingLayout) -> StagingLayout | None:
    """Return what an earlier attempt staged of this manifest, in the same way and still there; None if nothing.

    :param made: how this attempt would stage it; none of its tables need exist.
    """
    kept = _read(publish)
    if kept is None or kept.digest != layout_digest(layout):
        return None
    if not is_staging_table_of(layout.table, publish.manifest.attempt, kept.table):
        return None
    if kept.rejects_table not in (None, f"{kept.table}{REJECTS_SUFFIX}"):
        return None
    table = layout.table.sibling(kept.table)
    rejects = layout.table.sibling(kept.rejects_table) if kept.rejects_table else None
    if not all(_is_there(api, place) for place in (table, rejects) if place is not None):
        return None
    return replace(layout, table=table, rejects=rejects, filled=kept)


def _is_there(api: BigQueryApi, place: TableRef) -> bool:
    table = find_table(api, place)
    return table is not None and is_staging(table)


def layout_digest(layout: StagingLayout) -> str:
    """Return what tells two ways to stage rows apart."""
    columns = [[column.name, column.expression, column.staging] for column in layout.columns]
    staged = [column.staging for column in layout.staged_columns]
    text = json.dumps([columns, staged, layout.position_column, layout.load_method, layout.rejects is not None])
    return hashlib.sha256(text.encode()).hexdigest()


def _read(publish: Publish) -> FilledStaging | None:
    try:
        return FilledStaging.model_validate_json(Folder(publish.stage).read(note_name(publish)))
    except (FileNotFoundError, ValidationError):
        return None


def note_name(publish: Publish) -> str:
    """Return the name of the note about a day's staging table, in its stage."""
    return f"{attempt_folder(publish.manifest.attempt)}/bigquery.json"
