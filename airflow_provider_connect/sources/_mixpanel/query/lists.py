"""Streams ``annotations`` and ``cohorts``: lists of a project.

https://developer.mixpanel.com/reference/list-all-annotations-for-project, /reference/cohorts-list (2026-11).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.client import form_body
from airflow_provider_connect.polling.columns import RowColumn
from airflow_provider_connect.sources._mixpanel.query.answers import (
    RowValues,
    batch_reader,
    fetch_entries,
    same_named_columns,
    to_json_text,
)
from airflow_provider_connect.sources._mixpanel.stream_definition import RECORD_KEY, MixpanelStream

if TYPE_CHECKING:
    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient

_ANNOTATIONS = Call("/api/app/projects/{project_id}/annotations", about="annotations")


def _annotations(client: MixpanelClient) -> Iterator[RowValues]:
    for entry in fetch_entries(client, _ANNOTATIONS, "results", entry_name="annotations"):
        user = entry.get("user")
        user = user if isinstance(user, dict) else {}
        flat_entry = entry | {f"user_{name}": user.get(name) for name in ("id", "first_name", "last_name")}
        yield same_named_columns(ANNOTATIONS, flat_entry) | {
            "annotation_id": entry["id"],
            "tags": _tags(entry.get("tags")),
        }


def _tags(tags: Any) -> str:
    return to_json_text(tags if isinstance(tags, list) else [])


ANNOTATIONS = MixpanelStream(
    name="annotations",
    kind="snapshot",
    api="app",
    summary="notes on the project's charts",
    columns={
        "annotation_id": RowColumn("bigint", "The annotation's id.", required=True),
        "date": RowColumn("wall", "Its time in the charts, in the project's zone, as Mixpanel writes it."),
        "description": RowColumn("string", "Its text."),
        "user_id": RowColumn("bigint", "Id of its author."),
        "user_first_name": RowColumn("string", "First name of its author."),
        "user_last_name": RowColumn("string", "Last name of its author."),
        "tags": RowColumn("json", "Its tags, a JSON array of objects with id and name.", required=True),
        "record_key": RECORD_KEY,
    },
    key=("annotation_id",),
    cost_text="none that counts",
    read_batches=batch_reader(_annotations),
)


_COHORTS = Call("/api/query/cohorts/list", body=form_body({}))


def fetch_cohorts(client: MixpanelClient) -> list[dict[str, Any]]:
    """Request the project's cohorts. Each has an ``id``."""
    return fetch_entries(client, _COHORTS, entry_name="cohorts")


def _cohorts(client: MixpanelClient) -> Iterator[RowValues]:
    for cohort in fetch_cohorts(client):
        yield same_named_columns(COHORTS, cohort) | {"cohort_id": cohort["id"]}


COHORTS = MixpanelStream(
    name="cohorts",
    kind="snapshot",
    api="query",
    summary="the project's cohorts",
    columns={
        "cohort_id": RowColumn("bigint", "The cohort's id.", required=True),
        "name": RowColumn("string", "Its name."),
        "description": RowColumn("string", "Its description."),
        "count": RowColumn("bigint", "Number of members according to Mixpanel."),
        "created": RowColumn("wall", "Time of its creation, as Mixpanel writes it, without a zone."),
        "is_visible": RowColumn("boolean", "True if Mixpanel shows it."),
        "project_id": RowColumn("bigint", "The project it belongs to."),
        "record_key": RECORD_KEY,
    },
    key=("cohort_id",),
    read_batches=batch_reader(_cohorts),
)
