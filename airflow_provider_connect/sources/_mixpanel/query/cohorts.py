"""The stream ``cohorts``: the cohorts of a project.

https://developer.mixpanel.com/reference/cohorts-list (2026-11).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sources._mixpanel.asking import Asking, Request
from airflow_provider_connect.sources._mixpanel.columns import Column
from airflow_provider_connect.sources._mixpanel.query.documents import Row, documents
from airflow_provider_connect.sources._mixpanel.stream import RECORD_KEY, Stream

_LIST = Request("/api/query/cohorts/list", form={})


def listed(there: Asking) -> list[dict[str, Any]]:
    """Return the project's cohorts as the API lists them, each with an ``id``."""
    document = there.document(_LIST)
    if not isinstance(document, list):
        raise there.no_document(0)
    for cohort in document:
        if not isinstance(cohort, dict) or not _is_whole(cohort.get("id")):
            raise DataError("the list of cohorts has one without an id: report it to Mixpanel")
    return document


def _rows(there: Asking) -> Iterator[Row]:
    for cohort in listed(there):
        yield {
            "cohort_id": cohort["id"],
            "name": _text(cohort.get("name")),
            "description": _text(cohort.get("description")),
            "count": cohort.get("count") if _is_whole(cohort.get("count")) else None,
            "created": _clock(cohort.get("created")),
            "is_visible": _flag(cohort.get("is_visible")),
            "project_id": cohort.get("project_id") if _is_whole(cohort.get("project_id")) else None,
        }


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: Any) -> bool | None:
    return bool(value) if value in (0, 1) else None


def _clock(value: Any) -> dt.datetime | None:
    """Read ``2019-03-19 23:49:51``."""
    try:
        return dt.datetime.fromisoformat(value).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None


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
