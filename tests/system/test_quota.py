"""Runs that share a small quota in a real Airflow: those without room wait deferred, and none fails."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.equipment.airflow.tables import OnDelta
from tests.standins.mixpanel.access import Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn
from tests.system.conftest import System, connection_of

pytestmark = pytest.mark.slow

LIMIT, HOUR = 2, 60.0
RUNS = {"run-1": "2026-09-01", "window": "2026-09-02..2026-09-03"}


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    limits = Limits(queries_per_hour=LIMIT, hour_seconds=HOUR)
    with StandIn(Project(seed=11, events_per_day=200), limits=limits) as server:
        yield server


def task(system: System, run_id: str) -> dict[str, Any]:
    return system.task(run_id, "rationed")


def test_runs_without_room_wait_deferred_and_none_fails(system: System, standin: StandIn) -> None:
    limits = {"export": {"requests": LIMIT, "seconds": HOUR}}
    system.airflow.api("POST", "connections", json=connection_of(standin, "rationed", limits=limits))
    system.airflow.wait_for_dag("rationed")
    system.airflow.api("PATCH", "dags/rationed?update_mask=is_paused", json={"is_paused": False})
    for run_id, days in RUNS.items():
        system.trigger(days, run_id, "rationed")
    seen: set[str] = set()
    deadline = time.monotonic() + 600
    while True:
        states = {run_id: task(system, run_id)["state"] for run_id in RUNS}
        seen |= {str(state) for state in states.values()}
        log = "\n".join(system.log(run_id, "rationed") for run_id in RUNS)
        assert "failed" not in seen, log
        if set(states.values()) == {"success"}:
            break
        assert time.monotonic() < deadline, f"{states}\n{log}"
        time.sleep(0.5)
    assert "deferred" in seen
    assert "Waits for requests" in log
    assert [task(system, run_id)["try_number"] for run_id in RUNS] == [1] * len(RUNS)
    rows = OnDelta(str(system.folder / "tables" / "rationed")).rows()
    assert sorted(rows) == [f"2026-09-0{day}" for day in range(1, 4)]
    assert task(system, "window")["rendered_fields"]["days"] == "2026-09-02..2026-09-03"
    answers: dict[str, int] = {}
    for by_status in standin.stats["requests"].values():
        for status, count in by_status.items():
            answers[status] = answers.get(status, 0) + count
    assert answers == {"200": 3}, "the limit was passed"
