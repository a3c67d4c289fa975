"""Backfills in both directions with each of Airflow's reprocess behaviours: two dozen Sparks, so in the campaign.

`make test` has the one that replaces what is loaded, see :mod:`.test_reloads`.
"""

from __future__ import annotations

import datetime as dt

import pytest

from tests.equipment.airflow.backfills import Seen, backfill, catch_up, dates_run, seen
from tests.equipment.airflow.editions import edit
from tests.standins.mixpanel.faults import Fault
from tests.system.conftest import System

pytestmark = [pytest.mark.slow, pytest.mark.campaign]

BEFORE, FIRST, SECOND = (dt.date(2026, 7, day) for day in (1, 2, 3))
DIRECTIONS = ("forwards", "backwards")
Steps = dict[tuple[str, str], Seen]


@pytest.fixture(scope="module")
def steps(system: System) -> Steps:
    """Load two of three days by catchup, one of which fails; backfill all three; return what each step left."""
    system.editions.faults.replace([Fault("bad_line", date=SECOND, times=2)])
    catch_up(system, *DIRECTIONS, runs=2)
    found = {(dag_id, "catchup"): seen(system, dag_id) for dag_id in DIRECTIONS}
    for behavior in ("none", "failed", "completed"):
        edit(system.editions, BEFORE, FIRST, SECOND)
        backfill(system, *DIRECTIONS, dates=(BEFORE, SECOND), behavior=behavior, runs=3)
        found |= {(dag_id, behavior): seen(system, dag_id) for dag_id in DIRECTIONS}
    return found


@pytest.mark.parametrize("dag_id", DIRECTIONS)
def test_a_backfill_that_reprocesses_nothing_loads_only_days_without_a_run(steps: Steps, dag_id: str):
    assert steps[dag_id, "catchup"] == {FIRST: (1, 0)}
    assert steps[dag_id, "none"] == {BEFORE: (1, 1), FIRST: (1, 0)}


@pytest.mark.parametrize("dag_id", DIRECTIONS)
def test_a_backfill_that_reprocesses_what_failed_loads_it_and_nothing_else(steps: Steps, dag_id: str):
    assert steps[dag_id, "failed"] == {BEFORE: (1, 1), FIRST: (1, 0), SECOND: (1, 2)}


@pytest.mark.parametrize("dag_id", DIRECTIONS)
def test_a_backfill_that_reprocesses_all_replaces_every_day(system: System, steps: Steps, dag_id: str):
    assert steps[dag_id, "completed"] == {BEFORE: (2, 3), FIRST: (2, 3), SECOND: (2, 3)}
    dates = dates_run(system, dag_id)
    assert dates == sorted(dates, reverse=dag_id == "backwards")
    assert system.offset(dag_id)["days"] == [[str(BEFORE), str(SECOND)]]
