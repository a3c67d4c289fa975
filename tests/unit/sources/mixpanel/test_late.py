"""Late events in both time regimes: as many as the stand-in itself has, by the days of the project's zone."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from airflow_provider_connect.capabilities.source import CountsLate
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.mixpanel import connection
from tests.standins.mixpanel.events import Project, Regime
from tests.standins.mixpanel.server import StandIn

PACIFIC = Day(date=dt.date(2026, 3, 6), zone="US/Pacific")  # the next day but one has 23 hours
UTC = Day(date=dt.date(2026, 3, 6))


def received(project: Project, day: Day, regime: Regime) -> list[dt.datetime]:
    """Return when each distinct event of a day reached the stand-in."""
    dates = [day.date] if regime == "project_local" else [day.date + ONE_DAY * i for i in range(2)]
    events: list[dict[str, Any]] = [event["properties"] for date in dates for event in project.expected_rows(date)]
    if regime == "utc":
        events = [event for event in events if day.start.timestamp() <= event["time"] < day.end.timestamp()]
    return [dt.datetime.fromtimestamp(event["mp_processing_time_ms"] / 1000, dt.UTC) for event in events]


@pytest.mark.parametrize(
    ("day", "regime"), [(PACIFIC, "project_local"), (PACIFIC, "utc"), (UTC, "utc")], ids=["local", "pacific", "utc"]
)
def test_late_events_are_counted_by_the_days_of_the_projects_zone(day: Day, regime: Regime) -> None:
    project = Project(regime=regime, timezone=day.zone, events_per_day=300, duplicates_per_day=20, late_per_day=200)
    there = received(project, day, regime)
    before = day.end + 3 * ONE_DAY
    ends = [Day(date=day.date + ONE_DAY * after, zone=day.zone).end for after in range(1, 11)]
    expected = {f"late_{n}_days": sum(at >= end for at in there) for n, end in enumerate(ends, start=1)}
    assert 100 < expected["late_1_days"] < 200
    assert expected["late_4_days"] > expected["late_5_days"] == 0
    tally = Tally([day], [before])
    source = MixpanelSource(timestamps=regime, zone=day.zone)
    with StandIn(project) as server, source.open(connection(server), PollContext()) as poller:
        (part,) = poller.plan([day])
        rows = sum(len(batch) for _, batch in poller.poll(part, tally))
    assert rows == len(there)
    found = {name: count for name, count in tally.counts.items() if name.startswith("late")}
    late = {"late": sum(at >= before for at in there)}
    assert found == {name: count for name, count in expected.items() if count} | late
    assert json.dumps(found)


def test_only_the_export_counts_late_rows() -> None:
    assert MixpanelSource().capability(CountsLate)
    assert MixpanelSource(stream="funnels").capability(CountsLate) is None
