"""Staging tables: how they are called, and dropping those that dead attempts left.

One listing of the dataset's tables (a page for each 1,000), one look at each staging table of the target and one call
to drop it. What is missed BigQuery drops itself: every staging table expires.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.sinks._bigquery_errors import MissingError
from airflow_provider_connect.sinks._bigquery_names import legal_table_suffix
from airflow_provider_connect.sinks._bigquery_table import STAGING_LABEL, drop, find

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._bigquery_access import Api
    from airflow_provider_connect.sinks._bigquery_place import Place

_MARK = "__stage_"
REJECTS_END = "_rejects"


@dataclass(frozen=True)
class Stage:
    """A staging table that is there.

    :param touched: when it was last changed.
    """

    place: Place
    touched: dt.datetime


def stage_of(target: Place, attempt: str) -> Place:
    """Return where an attempt stages its rows; its rejects are staged in the same name and :data:`REJECTS_END`."""
    return target.sibling(f"{target.table}{_MARK}{legal_table_suffix(attempt)}")


def stages(api: Api, target: Place) -> list[Stage]:
    """Return the staging tables of a target."""
    beginning = f"{target.table}{_MARK}"
    name = f"{target.project}.{target.dataset}"
    doing = f"list the staging tables of {target.id}"
    try:
        found = api.call(doing, lambda **how: list(api.client.list_tables(name, page_size=1000, **how)))
    except MissingError:
        return []
    places = [target.sibling(item.table_id) for item in found if item.table_id.startswith(beginning)]
    tables = [(place, find(api, place)) for place in places]
    return [
        Stage(place, table.modified or table.created)
        for place, table in tables
        if table is not None and STAGING_LABEL.items() <= table.labels.items()
    ]


def sweep(api: Api, target: Place, older_than: dt.datetime) -> int:
    """Drop the target's staging tables that nobody has changed since ``older_than``; return how many.

    Rows that wait in a pending stream are no change yet: ``older_than`` has to be longer ago than a put may take.
    """
    old = [stage.place for stage in stages(api, target) if stage.touched < older_than]
    for place in old:
        drop(api, place)
    return len(old)
