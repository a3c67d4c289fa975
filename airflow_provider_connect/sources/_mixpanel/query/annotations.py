"""The stream ``annotations``: what people noted on the project's charts.

https://developer.mixpanel.com/reference/list-all-annotations-for-project (2026-11).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.polling.columns import Column
from airflow_provider_connect.sources._mixpanel.asking import Asking
from airflow_provider_connect.sources._mixpanel.query.answers import listed
from airflow_provider_connect.sources._mixpanel.query.documents import Row, documents
from airflow_provider_connect.sources._mixpanel.query.fields import document, text, wall, whole
from airflow_provider_connect.sources._mixpanel.stream import RECORD_KEY, Stream

_LIST = Call("/api/app/projects/{project_id}/annotations", about="annotations")


def _rows(there: Asking) -> Iterator[Row]:
    for entry in listed(there, _LIST, "results", what="annotations"):
        user = entry.get("user")
        user = user if isinstance(user, dict) else {}
        yield {
            "annotation_id": entry["id"],
            "date": wall(entry.get("date")),
            "description": text(entry.get("description")),
            "user_id": whole(user.get("id")),
            "user_first_name": text(user.get("first_name")),
            "user_last_name": text(user.get("last_name")),
            "tags": document(_tags(entry.get("tags"))),
        }


def _tags(tags: Any) -> list[Any]:
    return tags if isinstance(tags, list) else []


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
    read=documents(_rows),
)
