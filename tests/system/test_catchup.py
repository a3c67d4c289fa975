"""Catchup of many days, up to sixteen at once, over a change of clocks, with faults: nothing lost, nothing doubled."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.equipment.airflow.many_days import catch_up
from tests.system.conftest import CATCHUP_DAYS, System

pytestmark = pytest.mark.slow


@pytest.mark.catchup
def test_many_days_at_once(system: System):
    catch_up(system, "catchup", fault_rate=0.5)
    runs = system.airflow.runs("catchup")
    assert len(runs) == CATCHUP_DAYS
    hours = {run["data_interval_start"][:10]: _hours(run) for run in runs}
    assert hours["2026-11-01"] == 25
    tasks = [system.task(run["dag_run_id"], "catchup") for run in runs]
    assert {task["state"] for task in tasks} == {"success"}


def _hours(run: dict[str, str]) -> float:
    start, end = (dt.datetime.fromisoformat(run[f"data_interval_{name}"]) for name in ("start", "end"))
    return (end - start).total_seconds() / 3600
