"""The stream ``cohorts``: the cohorts of a project.

https://developer.mixpanel.com/reference/cohorts-list (2026-11).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.client import form_body
from airflow_provider_connect.polling.columns import Column
from airflow_provider_connect.sources._mixpanel.asking import Asking
from airflow_provider_connect.sources._mixpanel.query import answers
from airflow_provider_connect.sources._mixpanel.query.documents import Row, documents
from airflow_provider_connect.sources._mixpanel.query.fields import flag, text, wall, whole
from airflow_provider_connect.sources._mixpanel.stream import RECORD_KEY, Stream

_LIST = Call("/api/query/cohorts/list", body=form_body({}))


def listed(there: Asking) -> list[dict[str, Any]]:
    """Return the project's cohorts as the API lists them, each with an ``id``."""
    return answers.listed(there, _LIST, what="cohorts")


def _rows(there: Asking) -> Iterator[Row]:
    for cohort in listed(there):
        yield {
            "cohort_id": cohort["id"],
            "name": text(cohort.get("name")),
            "description": text(cohort.get("description")),
            "count": whole(cohort.get("count")),
            "created": wall(cohort.get("created")),
            "is_visible": flag(cohort.get("is_visible")),
            "project_id": whole(cohort.get("project_id")),
        }


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
    read=documents(_rows),
)
