"""The stream ``insights``: a saved report, as its page in Mixpanel shows it.

https://developer.mixpanel.com/reference/insights-query (2026-11). Saved reports of funnels and of retention come in
this shape too: https://github.com/jaredmcfarland/mixpanel_data/blob/main/context/research/bookmarks-api-findings.md.

A report of Insights has its dates innermost: ``{"Sign up": {"DE": {"2026-03-01T00:00:00-08:00": 12}}}``. One of
retention has them in the middle, with lists below, and one of funnels has none.
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
"""A name on the way to a value: text, or a place in a list; None where the time stood between others."""


class SeriesValue(NamedTuple):
    """One value of a series.

    :param path: the names above the value, the time left out.
    :param date: the day of the time, in the offset that it is written in.
    :param time: the time, UTC; None if the series has none.
    """

    path: tuple[PathName, ...]
    date: dt.date | None
    time: dt.datetime | None
    value: Any


def series_values(series: Any) -> Iterator[SeriesValue]:
    """Yield every value of a series, in its order. No two have the same path and time text."""
    for names, value in walk_leaves(series):
        place = max((at for at, name in enumerate(names) if _time(name) is not None), default=None)
        if place is None:
            yield SeriesValue(names, None, None, value)
            continue
        written = str(names[place])
        below = names[place + 1 :]
        path = (*names[:place], None, *below) if below else names[:place]
        yield SeriesValue(path, dt.date.fromisoformat(written[:10]), _time(written), value)


def walk_leaves(tree: Any) -> Iterator[tuple[tuple[PathName, ...], Any]]:
    """Yield each value of a tree of objects and lists with the names above it; empty ones have none."""
    waiting: list[tuple[tuple[PathName, ...], Any]] = [((), tree)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, dict):
            waiting += [((*path, name), child) for name, child in reversed(node.items())]
        elif isinstance(node, list):
            waiting += [((*path, place), node[place]) for place in reversed(range(len(node)))]
        else:
            yield path, node


def _time(name: PathName) -> dt.datetime | None:
    return instant_or_none(name) if isinstance(name, str) and _WITH_OFFSET.fullmatch(name) else None


def _rows(there: MixpanelClient) -> Iterator[RowValues]:
    bookmark = there.options.bookmark_id
    about = f"saved report {bookmark} (option bookmark_id)"
    call = Call("/api/query/insights", params={"bookmark_id": str(bookmark)}, about=about)
    report = fetch_member(there, call, kind=dict)
    headers, series = report.get("headers"), report.get("series")
    if not isinstance(headers, list) or not isinstance(series, dict):
        raise RetriableError(f"saved report {bookmark}: Mixpanel's answer has no headers or no series")
    computed = instant_or_none(report.get("computed_at"))
    same = {"bookmark_id": bookmark, "headers": to_json_text(headers), "computed_at": computed}
    for point in series_values(series):
        value = float_or_none(point.value)
        if value is None and point.value is not None:
            there.tally.counts["value_unreadable"] += 1
        yield same | {
            "metric": text_or_none(point.path[0]) if point.path else None,
            "path": to_json_text(point.path),
            "date": point.date,
            "time": point.time,
            "value": value,
        }


def _problems(options: MixpanelOptions) -> list[str]:
    if options.bookmark_id is not None:
        return []
    return ["bookmark_id: required by stream 'insights': the number after 'report-' in the URL of the saved report"]


INSIGHTS = MixpanelStream(
    name="insights",
    kind="snapshot",
    api="query",
    summary="a value of a saved report",
    columns={
        "bookmark_id": RowColumn("bigint", "Id of the saved report.", required=True),
        "headers": RowColumn(
            "json", "What the levels of path are, a JSON array, as Mixpanel names them.", required=True, few_values=True
        ),
        "metric": RowColumn("string", "The first name of path.", few_values=True),
        "path": RowColumn(
            "json",
            "The names above the value, a JSON array: metric, then segments; numbers are places in a list. null stands "
            "where the time was, if names come after it.",
            required=True,
            few_values=True,
        ),
        "date": RowColumn("date", "The day of time in the project's zone; null if the report has no times."),
        "time": RowColumn("timestamp", "Begin of the day, hour, week or month of the value; null as date."),
        "value": RowColumn("double", "The value; null if it is missing or not a number."),
        "computed_at": RowColumn("timestamp", "When Mixpanel computed the report."),
        "record_key": RECORD_KEY,
    },
    key=("bookmark_id", "path", "time"),
    options=frozenset({"bookmark_id"}),
    variant=lambda options: str(options.bookmark_id or ""),
    problems=_problems,
    counts={"value_unreadable": "values that are neither a number nor null; the row has null"},
    read_batches=batch_reader(_rows),
)
