"""Catchup of thirty days at sixteen at once, over a change of clocks, with faults: nothing lost, nothing doubled."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter

import pytest

from airflow_provider_connect.demo.mixpanel_faults import seeded_schedule
from airflow_provider_connect.window import span

from .conftest import System, wait_for

pytestmark = pytest.mark.slow

FIRST, LAST = dt.date(2026, 10, 12), dt.date(2026, 11, 10)
ZONE = "US/Pacific"


def local_days(system: System) -> dict[str, Counter[str]]:
    """Sort the project's events, which it keeps by UTC dates, into the days of the zone."""
    rows = [
        row for i in range((LAST - FIRST).days + 2) for row in system.catchup.project.kept(FIRST + dt.timedelta(days=i))
    ]
    found = {}
    for day in span(FIRST, LAST, ZONE):
        begin, end = day.start.timestamp(), day.end.timestamp()
        mine = (row for row in rows if begin <= row["properties"]["time"] < end)
        found[str(day)] = Counter(json.dumps([r["event"], r["properties"]], sort_keys=True) for r in mine)
    return found


def test_thirty_days_sixteen_at_once(system: System):
    dates = [FIRST + dt.timedelta(days=i) for i in range(31)]
    system.catchup.faults.replace(seeded_schedule(20261101, dates, 0.5))
    system.airflow.api("PATCH", "dags/catchup?update_mask=is_paused", json={"is_paused": False})

    def all_done() -> bool:
        states = Counter(run["state"] for run in system.airflow.runs("catchup"))
        assert not states["failed"], [r["dag_run_id"] for r in system.airflow.runs("catchup") if r["state"] == "failed"]
        return states["success"] == 30

    wait_for(all_done, 400, "thirty successful runs")
    assert system.rows("catchup") == local_days(system)
    offset = system.offset("catchup")
    assert offset["days"] == [[str(FIRST), str(LAST)]]
    assert offset["position"] == str(LAST)
    assert sum(system.catchup.stats["faults"].values()) > 5, "the faults did not happen"
    runs = system.airflow.runs("catchup")
    assert len(runs) == 30
    hours = {run["data_interval_start"][:10]: _hours(run) for run in runs}
    assert hours["2026-11-01"] == 25
    tasks = [system.task(run["dag_run_id"], "catchup") for run in runs]
    assert {task["state"] for task in tasks} == {"success"}


def _hours(run: dict[str, str]) -> float:
    start, end = (dt.datetime.fromisoformat(run[f"data_interval_{name}"]) for name in ("start", "end"))
    return (end - start).total_seconds() / 3600
