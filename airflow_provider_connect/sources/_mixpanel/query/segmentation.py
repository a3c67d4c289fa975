"""The stream ``segmentation``: how often events happened on a day, by the segments of an expression.

https://developer.mixpanel.com/reference/segmentation-query (2026-11). :func:`events_of_day` counts without rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.columns import Column
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.query.answers import (
    Row,
    documents,
    member,
    of_the_day,
    require_count,
    text,
)
from airflow_provider_connect.sources._mixpanel.stream import OTHER_DAY, RECORD_KEY, Stream, told_apart_by

if TYPE_CHECKING:
    from airflow_provider_connect.sources._mixpanel.asking import Asking

MOST_SEGMENTS = 10_000
"""More than these Mixpanel does not return; without being asked for so many it returns 60."""

MOST_NAMES = 255
"""As many names of events as Mixpanel lists by default, and as seven queries count. It lists up to 5,000 if it is asked
to (https://github.com/jaredmcfarland/mixpanel_data, get_events, 2026-05)."""

_NAMES_AT_ONCE = 40  # in one URL


def events_of_day(there: Asking, names: Sequence[str], where: str | None = None) -> dict[str, int]:
    """Return Mixpanel's own count of the day's events by name; 0 for those that did not happen.

    Costs one query for forty names, or with ``where`` one for each. The day is one of the project's zone.

    :raises ConnectError: as :meth:`.Asking.whole`, or the answer is not for the day.
    """
    if where is not None:
        return {name: _total(there, name, _segments(there, name, where)) for name in names}
    found: dict[str, int] = {}
    for some, values in _some_at_once(there, names, "day"):
        found |= {name: _count(there, values.get(name, {}), f"event {name!r}") for name in some}
    return found


def hours_of_day(there: Asking, names: Sequence[str], where: str | None = None) -> Counter[str]:
    """Return Mixpanel's own count of the day's events of some names by hour, as the project's clock shows it.

    Costs as many queries as :func:`events_of_day`, and is written like ``2026-03-01 14:00:00``.

    :raises ConnectError: as :meth:`.Asking.whole`, or the answer is not for the day.
    """
    if where is None:
        answers: Iterable[Mapping[str, Any]] = (values for _, values in _some_at_once(there, names, "hour"))
    else:
        answers = (_segments(there, name, where, unit="hour") for name in names)
    found: Counter[str] = Counter()
    for by_hour in chain.from_iterable(values.values() for values in answers):
        if not isinstance(by_hour, dict):
            raise RetriableError("events by hour: in the answer of Mixpanel the hours are missing")
        hours = {hour: count for hour, count in by_hour.items() if hour[:10] == str(there.day)}
        if by_hour and not hours:
            raise RetriableError(f"events by hour: Mixpanel answered for other days than {there.day}")
        found.update({hour: require_count(count, "events by hour") for hour, count in hours.items()})
    return found


def _some_at_once(there: Asking, names: Sequence[str], unit: str) -> Iterator[tuple[Sequence[str], Mapping[str, Any]]]:
    """Ask for the counts of some names after the other; yield each with them."""
    for start in range(0, len(names), _NAMES_AT_ONCE):
        some = names[start : start + _NAMES_AT_ONCE]
        params = {"event": json.dumps(some, ensure_ascii=False), "type": "general"}
        yield some, _values(there, "/api/query/events", params, "events of these names", unit)


def frequent_events(there: Asking) -> list[str]:
    """Return the names of the project's most frequent events, those of the last 31 days. Costs one query.

    :raises ConnectError: as :meth:`.Asking.whole`.
    """
    asked = Call("/api/query/events/names", params={"type": "general", "limit": str(MOST_NAMES)}, about="event names")
    names: list[object] = member(there, asked, kind=list)
    return [name for name in names if isinstance(name, str)][:MOST_NAMES]


def queries_to_count(names: int, where: str | None) -> int:
    """Return how many queries it costs to count so many events of a day."""
    return names if where is not None else -(-names // _NAMES_AT_ONCE)


def _rows(there: Asking) -> Iterator[Row]:
    options = there.options
    for name in dict.fromkeys(options.event or ()):
        segments = _segments(there, name, options.where, options.on)
        row = {"date": there.day.date, "event": name}
        if options.on is None:
            yield row | {"count": _total(there, name, segments)}
            continue
        for segment, by_date in segments.items():
            yield row | {"segment": text(segment), "count": _count(there, by_date, f"event {name!r}")}


def _segments(
    there: Asking, name: str, where: str | None, on: str | None = None, unit: str = "day"
) -> Mapping[str, Any]:
    """Return the counts by date of each segment; without ``on`` there is one, and it is the event."""
    limit = None if on is None else str(MOST_SEGMENTS)
    chosen = {"event": name, "type": "general", "where": where, "on": on, "limit": limit}
    params = {key: value for key, value in chosen.items() if value is not None}
    segments = _values(there, "/api/query/segmentation", params, f"event {name!r} (options event, on and where)", unit)
    if len(segments) >= MOST_SEGMENTS:
        raise ConfigError(
            f"on: event {name!r} has {len(segments):,} segments or more on {there.day}, and Mixpanel returns no more "
            f"than {MOST_SEGMENTS:,}: narrow them with where, or use another expression"
        )
    return segments


def _total(there: Asking, name: str, segments: Mapping[str, Any]) -> int:
    return sum(_count(there, by_date, f"event {name!r}") for by_date in segments.values())


def _values(there: Asking, path: str, params: Mapping[str, str], what: str, unit: str) -> Mapping[str, Any]:
    """Ask for counts by name and date.

    :raises RetriableError: the day asked for is not among the days of the answer.
    """
    date = str(there.day)
    asked = Call(path, params={**params, "from_date": date, "to_date": date, "unit": unit}, about=what)
    data = member(there, asked, "data", kind=dict)
    series, values = data.get("series"), data.get("values")
    if not isinstance(series, list) or not isinstance(values, dict):
        raise RetriableError(f"{what}: Mixpanel's answer has no series or no values")
    if date not in (str(each)[:10] for each in series):
        raise RetriableError(f"{what}: Mixpanel answered for other days than {date}, which was asked for")
    return values


def _count(there: Asking, by_date: Any, what: str) -> int:
    count = of_the_day(there, by_date, what)
    return 0 if count is None else require_count(count, what)


def _problems(options: MixpanelOptions) -> list[str]:
    if options.event is not None:
        return []
    return ["event: required by stream 'segmentation': the names of the events to count, each of them one query"]


SEGMENTATION = Stream(
    name="segmentation",
    kind="day",
    api="query",
    about="how often an event happened on a day, by segment",
    columns={
        "date": Column("date", "The day, in the project's zone.", required=True),
        "event": Column("string", "Name of the event.", required=True, few_values=True),
        "segment": Column("string", "Value of the expression in the option on; null without it.", few_values=True),
        "count": Column("bigint", "How often it happened.", required=True),
        "record_key": RECORD_KEY,
    },
    key=("date", "event", "segment"),
    options=frozenset({"event", "on", "where"}),
    variant=told_apart_by("event", "on", "where"),
    problems=_problems,
    requests=lambda options: max(1, len(dict.fromkeys(options.event or ()))),
    cost="1 for each event",
    counts=OTHER_DAY,
    read=documents(_rows),
)
