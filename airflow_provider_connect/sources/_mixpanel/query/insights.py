"""The stream ``insights``: a saved report, as its page in Mixpanel shows it.

https://developer.mixpanel.com/reference/insights-query (2026-11). Saved reports of funnels and of retention come in
this shape too: https://github.com/jaredmcfarland/mixpanel_data/blob/main/context/research/bookmarks-api-findings.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.columns import Column
from airflow_provider_connect.sources._mixpanel.asking import Asking
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.query.answers import member
from airflow_provider_connect.sources._mixpanel.query.documents import Row, documents
from airflow_provider_connect.sources._mixpanel.query.fields import document, instant, number, text
from airflow_provider_connect.sources._mixpanel.query.series import points
from airflow_provider_connect.sources._mixpanel.stream import RECORD_KEY, Stream


def _rows(there: Asking) -> Iterator[Row]:
    bookmark = there.options.bookmark_id
    about = f"saved report {bookmark} (option bookmark_id)"
    call = Call("/api/query/insights", params={"bookmark_id": str(bookmark)}, about=about)
    report = member(there, call, kind=dict)
    headers, series = report.get("headers"), report.get("series")
    if not isinstance(headers, list) or not isinstance(series, dict):
        raise RetriableError(f"saved report {bookmark}: Mixpanel's answer has no headers or no series")
    computed = instant(report.get("computed_at"))
    same = {"bookmark_id": bookmark, "headers": document(headers), "computed_at": computed}
    for point in points(series):
        value = number(point.value)
        if value is None and point.value is not None:
            there.tally.counts["value_unreadable"] += 1
        yield same | {
            "metric": text(point.path[0]) if point.path else None,
            "path": document(point.path),
            "date": point.date,
            "time": point.time,
            "value": value,
        }


def _problems(options: MixpanelOptions) -> list[str]:
    if options.bookmark_id is not None:
        return []
    return ["bookmark_id: required by stream 'insights': the number after 'report-' in the URL of the saved report"]


def _report(options: MixpanelOptions) -> str:
    return str(options.bookmark_id or "")


INSIGHTS = Stream(
    name="insights",
    kind="snapshot",
    api="query",
    about="a value of a saved report",
    columns={
        "bookmark_id": Column("bigint", "Id of the saved report.", required=True),
        "headers": Column(
            "json", "What the levels of path are, a JSON array, as Mixpanel names them.", required=True, few_values=True
        ),
        "metric": Column("string", "The first name of path.", few_values=True),
        "path": Column(
            "json",
            "The names above the value, a JSON array: metric, then segments; numbers are places in a list. null stands "
            "where the time was, if names come after it.",
            required=True,
            few_values=True,
        ),
        "date": Column("date", "The day of time in the project's zone; null if the report has no times."),
        "time": Column("timestamp", "Begin of the day, hour, week or month of the value; null as date."),
        "value": Column("double", "The value; null if it is missing or not a number."),
        "computed_at": Column("timestamp", "When Mixpanel computed the report."),
        "record_key": RECORD_KEY,
    },
    key=("bookmark_id", "path", "time"),
    options=frozenset({"bookmark_id"}),
    variant=_report,
    problems=_problems,
    counts={"value_unreadable": "values that are neither a number nor null; the row has null"},
    read=documents(_rows),
)
