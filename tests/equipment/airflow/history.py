"""A project as it looks at one moment: events come late, are deleted and change after their day is over.

What a day holds at a moment follows from the fields, the date and the moment alone, so that a test knows what each run
of a month must report.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.standins.mixpanel.events import Project, TimeUnit, Truth

ONE_DAY = dt.timedelta(days=1)
POLLED_AFTER = dt.timedelta(hours=1)
"""How long after a day's end its run asks."""


class Answer(NamedTuple):
    """What an export of a day says: its rows by key, and how many lines repeat one of them."""

    rows: dict[str, dict[str, Any]]
    duplicates: int


class Difference(NamedTuple):
    """How a later answer differs from an earlier one, in rows."""

    added: int
    changed: int
    vanished: int


@dataclass(frozen=True)
class History(Project):
    """A project at a moment.

    :param now: the moment; an event that Mixpanel got later is not there yet.
    :param shrinks: the date that loses most of its events two days after its end.
    """

    now: dt.datetime = field(default=dt.datetime.max.replace(tzinfo=dt.UTC), kw_only=True)
    shrinks: dt.date = field(default=dt.date.max, kw_only=True)

    def at(self, now: dt.datetime) -> History:
        """Return the same project at another moment."""
        return replace(self, now=now)

    def polled(self, date: dt.date) -> dt.datetime:
        """Return when the run of a date asks."""
        zone = ZoneInfo(self.timezone if self.regime == "project_local" else "UTC")
        return dt.datetime.combine(date + ONE_DAY, dt.time(), tzinfo=zone).astimezone(dt.UTC) + POLLED_AFTER

    def lines(self, date: dt.date, unit: TimeUnit = "s") -> Iterator[bytes]:
        age = self.now - self.polled(date)
        now_ms = self.now.timestamp() * 1000
        for line in super().lines(date, unit):
            event = json.loads(line)
            properties = event["properties"]
            if properties["mp_processing_time_ms"] > now_ms:
                continue
            lot = sum(properties.get("$insert_id", "").encode()) % 100
            if age >= 2 * ONE_DAY and lot < (70 if date == self.shrinks else date.day % 3 * 2):
                continue  # somebody asked to be deleted
            is_changed = age >= ONE_DAY and date.day % 4 == 1 and lot >= 90
            yield _reshuffled(event) if is_changed else line

    def truth(self, date: dt.date) -> Truth:
        rows, duplicates = self.answer(date)
        return Truth(len(rows) + duplicates, len(rows), duplicates, 0, 0)

    def answer(self, date: dt.date) -> Answer:
        """Return what an export says now; every event has its four key fields."""
        rows: dict[str, dict[str, Any]] = {}
        lines = [json.loads(line) for line in self.lines(date)]
        for line in lines:
            key = [line["event"], *(line["properties"][name] for name in ("distinct_id", "time", "$insert_id"))]
            rows.setdefault(json.dumps(key), line)
        return Answer(rows, len(lines) - len(rows))


def _reshuffled(event: dict[str, Any]) -> bytes:
    properties = event["properties"] | {"$is_reshuffled": True}
    return json.dumps(event | {"properties": properties}, separators=(",", ":")).encode() + b"\n"


def difference(earlier: Answer, later: Answer) -> Difference:
    """Compare two answers by their rows' keys."""
    both = earlier.rows.keys() & later.rows.keys()
    return Difference(
        added=len(later.rows) - len(both),
        changed=sum(earlier.rows[key] != later.rows[key] for key in both),
        vanished=len(earlier.rows) - len(both),
    )
