"""The streams ``annotations`` and ``cohorts``: lists of what a project has.

https://developer.mixpanel.com/reference/list-all-annotations-for-project, /reference/cohorts-list (2026-11).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.client import form_body
from airflow_provider_connect.polling.columns import Column
from airflow_provider_connect.sources._mixpanel.query.answers import Row, document, documents, listed, named
from airflow_provider_connect.sources._mixpanel.stream import RECORD_KEY, Stream

if TYPE_CHECKING:
    from airflow_provider_connect.sources._mixpanel.asking import Asking

_ANNOTATIONS = Call("/api/app/projects/{project_id}/annotations", about="annotations")


def _annotations(there: Asking) -> Iterator[Row]:
    for entry in listed(there, _ANNOTATIONS, "results", what="annotations"):
        user = entry.get("user")
        user = user if isinstance(user, dict) else {}
        sent = entry | {f"user_{name}": user.get(name) for name in ("id", "first_name", "last_name")}
        yield named(ANNOTATIONS, sent) | {"annotation_id": entry["id"], "tags": _tags(entry.get("tags"))}


def _tags(tags: Any) -> str:
    return document(tags if isinstance(tags, list) else [])


ANNOTATIONS = Stream(
    name="annotations",
    kind="snapshot",
    api="app",
    about="notes on the project's charts",
    columns={
        "annotation_id": Column("bigint", "The annotation's id.", required=True),
        "date": Column("wall", "When it stands in the charts, in the project's zone, as Mixpanel writes it."),
        "description": Column("string", "Its text."),
        "user_id": Column("bigint", "Id of the user who made it."),
        "user_first_name": Column("string", "First name of that user."),
        "user_last_name": Column("string", "Last name of that user."),
        "tags": Column("json", "Its tags, a JSON array of objects with id and name.", required=True),
        "record_key": RECORD_KEY,
    },
    key=("annotation_id",),
    cost="none that counts",
    read=documents(_annotations),
)


_COHORTS = Call("/api/query/cohorts/list", body=form_body({}))


def listed_cohorts(there: Asking) -> list[dict[str, Any]]:
    """Return the project's cohorts as the API lists them, each with an ``id``."""
    return listed(there, _COHORTS, what="cohorts")


def _cohorts(there: Asking) -> Iterator[Row]:
    for cohort in listed_cohorts(there):
        yield named(COHORTS, cohort) | {"cohort_id": cohort["id"]}


COHORTS = Stream(
    name="cohorts",
    kind="snapshot",
    api="query",
    about="the project's cohorts",
    columns={
        "cohort_id": Column("bigint", "The cohort's id.", required=True),
        "name": Column("string", "Its name."),
        "description": Column("string", "Its description."),
        "count": Column("bigint", "How many members Mixpanel says it has."),
        "created": Column("wall", "When it was made, as Mixpanel writes it, without a zone."),
        "is_visible": Column("boolean", "Whether it is shown in Mixpanel."),
        "project_id": Column("bigint", "The project it belongs to."),
        "record_key": RECORD_KEY,
    },
    key=("cohort_id",),
    read=documents(_cohorts),
)
