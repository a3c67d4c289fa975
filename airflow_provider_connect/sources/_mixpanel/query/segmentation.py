"""Stream ``segmentation``: number of events on a day, by segments of an expression.

https://developer.mixpanel.com/reference/segmentation-query (2026-11).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.columns import RowColumn
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.query.answers import (
    RowValues,
    batch_reader,
    fetch_member,
    require_count,
    text_or_none,
    value_of_day,
)
from airflow_provider_connect.sources._mixpanel.stream_definition import (
    OTHER_DAY_COUNT,
    RECORD_KEY,
    MixpanelStream,
    variant_by,
)

if TYPE_CHECKING:
    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient

MAX_SEGMENTS = 10_000
"""Most segments that Mixpanel returns. The default is 60."""

MAX_EVENT_NAMES = 255
"""Names that Mixpanel lists by default. On request it lists up to 5,000
(https://github.com/jaredmcfarland/mixpanel_data, get_events, 2026-05).
"""

_NAMES_IN_ONE_URL = 40  # in one URL


def count_events(client: MixpanelClient, event_names: Sequence[str], expression: str | None = None) -> dict[str, int]:
    """Return Mixpanel's count of each named event on the day, or 0.

    Costs one query for 40 names, or with ``expression`` one for each.

    :raises ConnectError: as :meth:`.MixpanelClient.fetch`, or the answer lacks the day.
    """
    if expression is not None:
        return {name: _total(client, name, _segments(client, name, expression)) for name in event_names}
    counts: dict[str, int] = {}
    for group, values in _counts_by_group(client, event_names, "day"):
        counts |= {name: _count(client, values.get(name, {}), f"event {name!r}") for name in group}
    return counts


def count_events_by_hour(
    client: MixpanelClient, event_names: Sequence[str], expression: str | None = None
) -> Counter[str]:
    """Return Mixpanel's count of the named events by hour of the project's clock (``2026-03-01 14:00:00``).

    Cost and errors as :func:`count_events`.
    """
    if expression is None:
        answers: Iterable[Mapping[str, Any]] = (values for _, values in _counts_by_group(client, event_names, "hour"))
    else:
        answers = (_segments(client, name, expression, unit="hour") for name in event_names)
    counts_by_hour: Counter[str] = Counter()
    for by_hour in chain.from_iterable(values.values() for values in answers):
        if not isinstance(by_hour, dict):
            raise RetriableError("events by hour: Mixpanel's answer has no hours")
        hours = {hour: count for hour, count in by_hour.items() if hour[:10] == str(client.day)}
        if by_hour and not hours:
            raise RetriableError(f"events by hour: Mixpanel answered for other days than {client.day}")
        counts_by_hour.update({hour: require_count(count, "events by hour") for hour, count in hours.items()})
    return counts_by_hour


def _counts_by_group(
    client: MixpanelClient, event_names: Sequence[str], unit: str
) -> Iterator[tuple[Sequence[str], Mapping[str, Any]]]:
    for start in range(0, len(event_names), _NAMES_IN_ONE_URL):
        group = event_names[start : start + _NAMES_IN_ONE_URL]
        params = {"event": json.dumps(group, ensure_ascii=False), "type": "general"}
        yield group, _values(client, "/api/query/events", params, "events of these names", unit)


def fetch_frequent_events(client: MixpanelClient) -> list[str]:
    """Request the most frequent event names of the last 31 days, with one query."""
    call = Call(
        "/api/query/events/names", params={"type": "general", "limit": str(MAX_EVENT_NAMES)}, about="event names"
    )
    names: list[object] = fetch_member(client, call, kind=list)
    return [name for name in names if isinstance(name, str)][:MAX_EVENT_NAMES]


def queries_to_count(event_count: int, expression: str | None) -> int:
    """Return the number of queries that count so many event names on a day."""
    return event_count if expression is not None else -(-event_count // _NAMES_IN_ONE_URL)


def _rows(client: MixpanelClient) -> Iterator[RowValues]:
    options = client.options
    for name in dict.fromkeys(options.event or ()):
        segments = _segments(client, name, options.where, options.on)
        row = {"date": client.day.date, "event": name}
        if options.on is None:
            yield row | {"count": _total(client, name, segments)}
            continue
        for segment, by_date in segments.items():
            yield row | {"segment": text_or_none(segment), "count": _count(client, by_date, f"event {name!r}")}


def _segments(
    client: MixpanelClient, name: str, expression: str | None, on: str | None = None, unit: str = "day"
) -> Mapping[str, Any]:
    limit = None if on is None else str(MAX_SEGMENTS)
    optional_params = {"event": name, "type": "general", "where": expression, "on": on, "limit": limit}
    params = {key: value for key, value in optional_params.items() if value is not None}
    segments = _values(client, "/api/query/segmentation", params, f"event {name!r} (options event, on and where)", unit)
    if len(segments) >= MAX_SEGMENTS:
        raise ConfigError(
            f"on: event {name!r} has at least {len(segments):,} segments on {client.day}, and Mixpanel returns at most "
            f"{MAX_SEGMENTS:,}. Narrow them with where, or use another expression"
        )
    return segments


def _total(client: MixpanelClient, name: str, segments: Mapping[str, Any]) -> int:
    return sum(_count(client, by_date, f"event {name!r}") for by_date in segments.values())


def _values(client: MixpanelClient, path: str, params: Mapping[str, str], subject: str, unit: str) -> Mapping[str, Any]:
    date = str(client.day)
    call = Call(path, params={**params, "from_date": date, "to_date": date, "unit": unit}, about=subject)
    data = fetch_member(client, call, "data", kind=dict)
    series, values = data.get("series"), data.get("values")
    if not isinstance(series, list) or not isinstance(values, dict):
        raise RetriableError(f"{subject}: Mixpanel's answer has no series or no values")
    if date not in (str(date_text)[:10] for date_text in series):
        raise RetriableError(f"{subject}: Mixpanel answered for other days than the requested {date}")
    return values


def _count(client: MixpanelClient, by_date: Any, subject: str) -> int:
    count = value_of_day(client, by_date, subject)
    return 0 if count is None else require_count(count, subject)


def _problems(options: MixpanelOptions) -> list[str]:
    if options.event is not None:
        return []
    return ["event: stream 'segmentation' requires it. List the names of the events to count. Each costs one query"]


SEGMENTATION = MixpanelStream(
    name="segmentation",
    kind="day",
    api="query",
    summary="how often an event happened on a day, by segment",
    columns={
        "date": RowColumn("date", "The day, in the project's zone.", required=True),
        "event": RowColumn("string", "Name of the event.", required=True, few_values=True),
        "segment": RowColumn("string", "Value of the expression in the option on. Null without it.", few_values=True),
        "count": RowColumn("bigint", "Number of events.", required=True),
        "record_key": RECORD_KEY,
    },
    key=("date", "event", "segment"),
    options=frozenset({"event", "on", "where"}),
    variant=variant_by("event", "on", "where"),
    problems=_problems,
    min_requests=lambda options: max(1, len(dict.fromkeys(options.event or ()))),
    cost_text="1 for each event",
    counts=OTHER_DAY_COUNT,
    read_batches=batch_reader(_rows),
)
