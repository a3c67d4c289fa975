"""Deterministic reports: what the stand-in's funnels, retention, saved reports and annotations say.

Shapes follow Mixpanel's specification (https://github.com/mixpanel/docs, openapi/query.openapi.yaml and
annotations.openapi.yaml, 2026-08); the values are made up. Counts of events are those of :mod:`.events`, so that they
agree with an export. Like that module this shares no code with the connector that reads it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.query import RefusedError, parse_where
from tests.standins.mixpanel.templates import rng

_ON = re.compile(r'properties\["([^"\\]+)"\]')


class Funnel(NamedTuple):
    """A saved funnel.

    :param events: of its steps; one that begins with ``$custom_event:`` is a custom event.
    :param days: how long users have to complete it.
    """

    id: int
    name: str
    events: tuple[str, ...]
    days: int = 7


FUNNELS = (
    Funnel(7509, "Signup & Söhne", ("Page View", "Button Clicked", "$custom_event:1166"), 7),
    Funnel(9070, "Checkout", ("Product Viewed", "Order Completed"), 30),
)

_OFFSET = "-07:00"
_WEEKS = ("2026-03-02T00:00:00", "2026-03-09T00:00:00", "2026-03-16T00:00:00")
_RANGE = {"from_date": f"{_WEEKS[0]}{_OFFSET}", "to_date": f"2026-03-22T23:59:59.999000{_OFFSET}"}


def _weekly(*counts: float | None) -> dict[str, float | None]:
    return {f"{week}{_OFFSET}": count for week, count in zip(_WEEKS, counts, strict=True)}


def _saved(headers: list[str], series: dict[str, Any]) -> dict[str, Any]:
    return {
        "computed_at": "2026-03-23T08:15:00.252314+00:00",
        "date_range": _RANGE,
        "headers": headers,
        "series": series,
    }


SAVED: dict[int, dict[str, Any]] = {
    3001: _saved(["$event"], {"Page View": _weekly(812, 790, 0), "Order Completed": _weekly(31, None, 28)}),
    3002: _saved(
        ["$metric", "$country"],
        {
            "Revenue [Sum]": {
                "$overall": _weekly(1200.5, 900.25, 77.0),
                "Österreich": _weekly(200.5, 100.25, 7.0),
                "undefined": {},
            }
        },
    ),
    3003: _saved(
        ["$retention", "segment"],
        {
            "Sign up and then Any event": {
                f"{week}{_OFFSET}": {"$overall": {"first": 40, "counts": [30, 20], "rates": [0.75, 0.5]}}
                for week in _WEEKS
            }
        },
    ),
    3004: _saved(["$funnel", "step"], {"count": {"1. Page View": {"all": 60}, "2. Order Completed": {"all": 12}}}),
}
"""Saved reports by bookmark_id: of events, by a segment, of retention, and of a funnel without dates."""

ANNOTATIONS: tuple[dict[str, Any], ...] = (
    {
        "id": 501,
        "date": "2026-02-15T12:00:00-08:00",  # as Airbyte has recorded one; the specification's have neither T nor zone
        "description": "Preise geändert — Größe L",
        "user": {"id": 7, "first_name": "Ada", "last_name": "Lovelace"},
        "tags": [{"id": 1, "name": "pricing"}, {"id": 2, "name": "Größe"}],
    },
    {"id": 502, "date": "2025-06-01 00:00:00", "description": "", "user": {"id": 7}, "tags": []},
    {"id": 503, "date": "2026-03-01 09:30:00", "description": None},
)


@dataclass(frozen=True)
class Reports:
    """The reports of a project; every number follows from these fields, the date and the time that has passed since.

    :param saved: by bookmark_id.
    :param unlisted: names that the list of frequent events leaves out.
    """

    seed: int = 0
    funnels: tuple[Funnel, ...] = FUNNELS
    saved: Mapping[int, Mapping[str, Any]] = field(default_factory=lambda: SAVED)
    annotations: tuple[Mapping[str, Any], ...] = ANNOTATIONS
    unlisted: frozenset[str] = frozenset()

    def steps(self, funnel: Funnel, date: dt.date, today: dt.date) -> list[dict[str, Any]]:
        """Return a funnel's steps for those who began on ``date``: more complete it until its length is over."""
        source = rng("funnel", self.seed, funnel.id, date)
        passed = min((today - date).days, funnel.days) / funnel.days
        count = start = source.randrange(500, 1000)
        steps: list[dict[str, Any]] = []
        for index, event in enumerate(funnel.events):
            previous_count = count
            if index:
                count = int(count * source.uniform(0.3, 0.6) * passed)
            step: dict[str, Any] = {
                "count": count,
                "avg_time": source.randrange(5, 900) if index else None,
                "avg_time_from_start": source.randrange(900, 1800) if index else None,
                "step_conv_ratio": count / previous_count if previous_count else 0,
                "goal": event,
                "overall_conv_ratio": count / start,
                "event": event,
            }
            if event.startswith("$custom_event:"):
                step |= {
                    "step_label": "Game Played",
                    "custom_event": True,
                    "custom_event_id": int(event.partition(":")[2]),
                }
            steps.append(step)
        return steps

    def retention(self, date: dt.date, today: dt.date, days: int, count: int) -> dict[str, Any]:
        """Return how many came back in each interval; in one that has not begun there are none."""
        source = rng("retention", self.seed, date)
        first = source.randrange(100, 200)
        counts = [int(first / (number + 2)) for number in range(count + 1)]
        begun = [(today - date).days >= number * days for number in range(count + 1)]
        return {
            "first": first,
            "counts": [count_of_interval if has else 0 for count_of_interval, has in zip(counts, begun, strict=True)],
        }


def count_events(
    project: Project, date: dt.date, *, on: str | None = None, expression: str | None = None
) -> dict[str, Counter[str]]:
    """Return the count of each event on a date of the project's zone, by segment.

    :param on: ``properties["name"]`` with the segments. Events without this property are in ``undefined``.
    :raises RefusedError: 400.
    """
    wants = parse_where(expression)
    match = _ON.fullmatch(on) if on is not None else None
    if on is not None and match is None:
        raise RefusedError(400, "on is not an expression this server understands")
    counts: dict[str, Counter[str]] = {}
    for row in _events(project, date):
        if wants is None or wants(row["properties"]):
            segment = _segment_text(row["properties"].get(match[1])) if match else str(row["event"])
            counts.setdefault(row["event"], Counter())[segment] += 1
    return counts


@lru_cache(maxsize=16)
def count_events_by_hour(project: Project, date: dt.date, *, expression: str | None = None) -> dict[str, Counter[str]]:
    """Return the count of each event in each hour of a date, on the project's clock.

    :raises RefusedError: 400.
    """
    wants = parse_where(expression)
    # Events of the old regime are timed by the project's clock.
    zone = ZoneInfo(project.timezone) if project.regime == "utc" else dt.UTC
    counts: dict[str, Counter[str]] = {}
    for row in _events(project, date):
        if wants is None or wants(row["properties"]):
            hour = dt.datetime.fromtimestamp(row["properties"]["time"], zone)
            counts.setdefault(row["event"], Counter())[f"{hour:%Y-%m-%d %H}:00:00"] += 1
    return counts


def _segment_text(value: Any) -> str:
    return value if isinstance(value, str) else "undefined"


def _events(project: Project, date: dt.date) -> Iterable[dict[str, Any]]:
    if project.regime == "project_local" or project.timezone == "UTC":
        return project.iter_expected_rows(date)
    return _of_zone(project, date)


def _of_zone(project: Project, date: dt.date) -> Iterator[dict[str, Any]]:
    zone = ZoneInfo(project.timezone)
    for shift in (-1, 0, 1):
        for row in project.iter_expected_rows(date + dt.timedelta(days=shift)):
            if dt.datetime.fromtimestamp(row["properties"]["time"], zone).date() == date:
                yield row
