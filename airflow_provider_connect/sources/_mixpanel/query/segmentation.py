"""The stream ``segmentation``: how often events happened on a day, by the segments of an expression.

https://developer.mixpanel.com/reference/segmentation-query (2026-11). :func:`count_events` counts without rows.
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
"""More than these Mixpanel does not return; without being asked for so many it returns 60."""

MAX_EVENT_NAMES = 255
"""As many names of events as Mixpanel lists by default, and as seven queries count. It lists up to 5,000 if it is asked
to (https://github.com/jaredmcfarland/mixpanel_data, get_events, 2026-05)."""

_NAMES_AT_ONCE = 40  # in one URL


def count_events(client: MixpanelClient, event_names: Sequence[str], expression: str | None = None) -> dict[str, int]:
    """Return Mixpanel's own count of the day's events by name; 0 for those that did not happen.

    Costs one query for forty names, or with ``where`` one for each. The day is one of the project's zone.

    :raises ConnectError: as :meth:`.MixpanelClient.fetch`, or the answer is not for the day.
    """
    if expression is not None:
        return {name: _total(client, name, _segments(client, name, expression)) for name in event_names}
    found: dict[str, int] = {}
    for some, values in _some_at_once(client, event_names, "day"):
        found |= {name: _count(client, values.get(name, {}), f"event {name!r}") for name in some}
    return found


def count_events_by_hour(
    client: MixpanelClient, event_names: Sequence[str], expression: str | None = None
) -> Counter[str]:
    """Return Mixpanel's own count of the day's events of some names by hour, as the project's clock shows it.

    Costs as many queries as :func:`count_events`, and is written like ``2026-03-01 14:00:00``.

    :raises ConnectError: as :meth:`.MixpanelClient.fetch`, or the answer is not for the day.
    """
    if expression is None:
        answers: Iterable[Mapping[str, Any]] = (values for _, values in _some_at_once(client, event_names, "hour"))
    else:
        answers = (_segments(client, name, expression, unit="hour") for name in event_names)
    found: Counter[str] = Counter()
    for by_hour in chain.from_iterable(values.values() for values in answers):
        if not isinstance(by_hour, dict):
            raise RetriableError("events by hour: in the answer of Mixpanel the hours are missing")
        hours = {hour: count for hour, count in by_hour.items() if hour[:10] == str(client.day)}
        if by_hour and not hours:
            raise RetriableError(f"events by hour: Mixpanel answered for other days than {client.day}")
        found.update({hour: require_count(count, "events by hour") for hour, count in hours.items()})
    return found


def _some_at_once(
    there: MixpanelClient, names: Sequence[str], unit: str
) -> Iterator[tuple[Sequence[str], Mapping[str, Any]]]:
    """Ask for the counts of some names after the other; yield each with them."""
    for start in range(0, len(names), _NAMES_AT_ONCE):
        some = names[start : start + _NAMES_AT_ONCE]
        params = {"event": json.dumps(some, ensure_ascii=False), "type": "general"}
        yield some, _values(there, "/api/query/events", params, "events of these names", unit)


def fetch_frequent_events(client: MixpanelClient) -> list[str]:
    """Return the names of the project's most frequent events, those of the last 31 days. Costs one query.

    :raises ConnectError: as :meth:`.MixpanelClient.fetch`.
    """
    asked = Call(
        "/api/query/events/names", params={"type": "general", "limit": str(MAX_EVENT_NAMES)}, about="event names"
    )
    names: list[object] = fetch_member(client, asked, kind=list)
    return [name for name in names if isinstance(name, str)][:MAX_EVENT_NAMES]


def queries_to_count(event_count: int, expression: str | None) -> int:
    """Return how many queries it costs to count so many events of a day."""
    return event_count if expression is not None else -(-event_count // _NAMES_AT_ONCE)


def _rows(there: MixpanelClient) -> Iterator[RowValues]:
    options = there.options
    for name in dict.fromkeys(options.event or ()):
        segments = _segments(there, name, options.where, options.on)
        row = {"date": there.day.date, "event": name}
        if options.on is None:
            yield row | {"count": _total(there, name, segments)}
            continue
        for segment, by_date in segments.items():
            yield row | {"segment": text_or_none(segment), "count": _count(there, by_date, f"event {name!r}")}


def _segments(
    there: MixpanelClient, name: str, where: str | None, on: str | None = None, unit: str = "day"
) -> Mapping[str, Any]:
    """Return the counts by date of each segment; without ``on`` there is one, and it is the event."""
    limit = None if on is None else str(MAX_SEGMENTS)
    chosen = {"event": name, "type": "general", "where": where, "on": on, "limit": limit}
    params = {key: value for key, value in chosen.items() if value is not None}
    segments = _values(there, "/api/query/segmentation", params, f"event {name!r} (options event, on and where)", unit)
    if len(segments) >= MAX_SEGMENTS:
        raise ConfigError(
            f"on: event {name!r} has {len(segments):,} segments or more on {there.day}, and Mixpanel returns no more "
            f"than {MAX_SEGMENTS:,}: narrow them with where, or use another expression"
        )
    return segments


def _total(there: MixpanelClient, name: str, segments: Mapping[str, Any]) -> int:
    return sum(_count(there, by_date, f"event {name!r}") for by_date in segments.values())


def _values(there: MixpanelClient, path: str, params: Mapping[str, str], what: str, unit: str) -> Mapping[str, Any]:
    """Ask for counts by name and date.

    :raises RetriableError: the day asked for is not among the days of the answer.
    """
    date = str(there.day)
    asked = Call(path, params={**params, "from_date": date, "to_date": date, "unit": unit}, about=what)
    data = fetch_member(there, asked, "data", kind=dict)
    series, values = data.get("series"), data.get("values")
    if not isinstance(series, list) or not isinstance(values, dict):
        raise RetriableError(f"{what}: Mixpanel's answer has no series or no values")
    if date not in (str(each)[:10] for each in series):
        raise RetriableError(f"{what}: Mixpanel answered for other days than {date}, which was asked for")
    return values


def _count(there: MixpanelClient, by_date: Any, what: str) -> int:
    count = value_of_day(there, by_date, what)
    return 0 if count is None else require_count(count, what)


def _problems(options: MixpanelOptions) -> list[str]:
    if options.event is not None:
        return []
    return ["event: required by stream 'segmentation': the names of the events to count, each of them one query"]


SEGMENTATION = MixpanelStream(
    name="segmentation",
    kind="day",
    api="query",
    summary="how often an event happened on a day, by segment",
    columns={
        "date": RowColumn("date", "The day, in the project's zone.", required=True),
        "event": RowColumn("string", "Name of the event.", required=True, few_values=True),
        "segment": RowColumn("string", "Value of the expression in the option on; null without it.", few_values=True),
        "count": RowColumn("bigint", "How often it happened.", required=True),
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
