"""Stream ``insights``: values of a saved report, as shown in Mixpanel.

https://developer.mixpanel.com/reference/insights-query (2026-11). Reports of Funnels and Retention have this shape too:
https://github.com/jaredmcfarland/mixpanel_data/blob/main/context/research/bookmarks-api-findings.md.

Dates are the innermost names in Insights reports, stand above lists in Retention reports, and are absent in Funnels
reports.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.columns import RowColumn
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.query.answers import (
    RowValues,
    batch_reader,
    fetch_member,
    float_or_none,
    instant_or_none,
    text_or_none,
    to_json_text,
)
from airflow_provider_connect.sources._mixpanel.stream_definition import RECORD_KEY, MixpanelStream

if TYPE_CHECKING:
    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient

_WITH_OFFSET = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,}(?:Z|[+-][0-9]{2}:[0-9]{2})")

PathName = str | int | None
"""Text, or a position in a list, above a value. None replaces a time between other names."""


class SeriesValue(NamedTuple):
    """Value of a series.

    :param path: names above the value, without the time.
    :param date: in the time's own offset.
    :param time: in UTC.
    """

    path: tuple[PathName, ...]
    date: dt.date | None
    time: dt.datetime | None
    value: Any


def series_values(series: Any) -> Iterator[SeriesValue]:
    """Yield every value of a report's series, in order."""
    for names, value in walk_leaves(series):
        time_index = max((index for index, name in enumerate(names) if _time(name) is not None), default=None)
        if time_index is None:
            yield SeriesValue(names, None, None, value)
            continue
        time_text = str(names[time_index])
        names_below = names[time_index + 1 :]
        path = (*names[:time_index], None, *names_below) if names_below else names[:time_index]
        yield SeriesValue(path, dt.date.fromisoformat(time_text[:10]), _time(time_text), value)


def walk_leaves(tree: Any) -> Iterator[tuple[tuple[PathName, ...], Any]]:
    """Yield each value of nested objects and lists, with the names above it."""
    pending: list[tuple[tuple[PathName, ...], Any]] = [((), tree)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, dict):
            pending += [((*path, name), child) for name, child in reversed(node.items())]
        elif isinstance(node, list):
            pending += [((*path, index), node[index]) for index in reversed(range(len(node)))]
        else:
            yield path, node


def _time(name: PathName) -> dt.datetime | None:
    return instant_or_none(name) if isinstance(name, str) and _WITH_OFFSET.fullmatch(name) else None


def _rows(client: MixpanelClient) -> Iterator[RowValues]:
    bookmark = client.options.bookmark_id
    subject = f"saved report {bookmark} (option bookmark_id)"
    call = Call("/api/query/insights", params={"bookmark_id": str(bookmark)}, about=subject)
    report = fetch_member(client, call, kind=dict)
    headers, series = report.get("headers"), report.get("series")
    if not isinstance(headers, list) or not isinstance(series, dict):
        raise RetriableError(f"saved report {bookmark}: Mixpanel's answer has no headers or no series")
    computed_at = instant_or_none(report.get("computed_at"))
    report_columns = {"bookmark_id": bookmark, "headers": to_json_text(headers), "computed_at": computed_at}
    for point in series_values(series):
        value = float_or_none(point.value)
        if value is None and point.value is not None:
            client.tally.counts["value_unreadable"] += 1
        yield report_columns | {
            "metric": text_or_none(point.path[0]) if point.path else None,
            "path": to_json_text(point.path),
            "date": point.date,
            "time": point.time,
            "value": value,
        }


def _problems(options: MixpanelOptions) -> list[str]:
    if options.bookmark_id is not None:
        return []
    return ["bookmark_id: stream 'insights' requires it. Set the number after 'report-' in the URL of the saved report"]


INSIGHTS = MixpanelStream(
    name="insights",
    kind="snapshot",
    api="query",
    summary="a value of a saved report",
    columns={
        "bookmark_id": RowColumn("bigint", "Id of the saved report.", required=True),
        "headers": RowColumn(
            "json", "Names of the levels of path in Mixpanel, a JSON array.", required=True, few_values=True
        ),
        "metric": RowColumn("string", "The first name of path.", few_values=True),
        "path": RowColumn(
            "json",
            "Names above the value, a JSON array: metric, then segments. Numbers are positions in a list. null "
            "replaces a time between other names.",
            required=True,
            few_values=True,
        ),
        "date": RowColumn("date", "Day of time in the project's zone. Null if the report has no times."),
        "time": RowColumn(
            "timestamp", "Start of the value's hour, day, week or month. Null if the report has no times."
        ),
        "value": RowColumn("double", "The value. Null if it is missing or not a number."),
        "computed_at": RowColumn("timestamp", "Time at which Mixpanel computed the report."),
        "record_key": RECORD_KEY,
    },
    key=("bookmark_id", "path", "time"),
    options=frozenset({"bookmark_id"}),
    variant=lambda options: str(options.bookmark_id or ""),
    problems=_problems,
    counts={"value_unreadable": "values that are neither a number nor null, null in the row"},
    read_batches=batch_reader(_rows),
)
