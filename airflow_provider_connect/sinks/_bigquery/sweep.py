"""Staging tables: how they are called, and dropping those that dead attempts left.

One listing of the dataset's tables (a page for each 1,000), one look at each staging table of the target and one call
to drop it. What is missed BigQuery drops itself: every staging table expires.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.errors import MissingError
from airflow_provider_connect.clients.bigquery.place import Place
from airflow_provider_connect.sinks._bigquery.names import legal_table_suffix
from airflow_provider_connect.sinks._bigquery.table import STAGING_LABEL, drop, find

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import Api

_MARK = "__stage_"
REJECTS_END = "_rejects"


@dataclass(frozen=True)
class Stage:
    """A staging table that is there.

    :param touched: when it was last changed.
    """

    place: Place
    touched: dt.datetime


def stage_of(target: Place, attempt: str, dataset: str | None = None) -> Place:
    """Return where an attempt stages its rows; its rejects are staged in the same name and :data:`REJECTS_END`.

    :param dataset: another dataset than the target's, ``[project.]dataset``: the name then tells whose it is.
    """
    beginning = _beginning(target, dataset)
    return beginning.sibling(f"{beginning.table}{legal_table_suffix(attempt)}")


def new_stage(target: Place, attempt: str, dataset: str | None = None) -> Place:
    """Return a place of its own for each time that an attempt begins to publish.

    :param attempt: whose manifest is published.
    :param dataset: as in :func:`stage_of`.
    """
    return stage_of(target, f"{attempt}-{uuid.uuid4().hex[:12]}", dataset)


def is_stage_of(target: Place, attempt: str, table: str, dataset: str | None = None) -> bool:
    """Tell whether :func:`new_stage` could have named a table so, for this attempt and target."""
    beginning = stage_of(target, f"{attempt}-", dataset).table
    return re.fullmatch(f"{re.escape(beginning)}[0-9a-f]{{12}}", table) is not None


def beginning_of(stage: Place) -> str:
    """Return what the names of all staging tables begin with that are of the same target as this one."""
    return "".join(stage.table.rpartition(_MARK)[:2])


def _beginning(target: Place, dataset: str | None) -> Place:
    """Return where a target's staging tables lie, and what their names begin with."""
    if dataset is None:
        return target.sibling(f"{target.table}{_MARK}")
    return Place.parse(f"{dataset}.{legal_table_suffix(target.id)}{_MARK}", target.project)


def stages(api: Api, target: Place, dataset: str | None = None) -> list[Stage]:
    """Return the staging tables of a target.

    :param dataset: as in :func:`stage_of`.
    """
    beginning = _beginning(target, dataset)
    name = f"{beginning.project}.{beginning.dataset}"
    doing = f"list the staging tables of {target.id}"
    try:
        found = api.call(doing, lambda **how: list(api.client.list_tables(name, page_size=1000, **how)))
    except MissingError:
        return []
    places = [beginning.sibling(item.table_id) for item in found if item.table_id.startswith(beginning.table)]
    tables = [(place, find(api, place)) for place in places]
    return [
        Stage(place, table.modified or table.created)
        for place, table in tables
        if table is not None and STAGING_LABEL.items() <= table.labels.items()
    ]


def sweep(api: Api, target: Place, older_than: dt.datetime, dataset: str | None = None) -> int:
    """Drop the target's staging tables that nobody has changed since ``older_than``; return how many.

    Rows that wait in a pending stream are no change yet: ``older_than`` has to be longer ago than a put may take.

    :param dataset: as in :func:`stage_of`.
    """
    old = [stage.place for stage in stages(api, target, dataset) if stage.touched < older_than]
    for place in old:
        drop(api, place)
    return len(old)
