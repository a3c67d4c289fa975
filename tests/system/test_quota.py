"""Runs that share a small quota in a real Airflow: those without room wait deferred, and none fails."""

from __future__ import annotations

import pytest

from tests.equipment.airflow.rationed import DAG, PATIENCE_SECONDS, RUNS, Rationed
from tests.equipment.airflow.tables import OnDelta
from tests.system.conftest import System

pytestmark = pytest.mark.slow


@pytest.mark.timeout(PATIENCE_SECONDS + 60)
def test_runs_without_room_wait_deferred_and_none_fails(system: System, rationed: Rationed) -> None:
    seen = rationed.states.result()
    log = "\n".join(system.log(run_id, DAG) for run_id in RUNS)
    tasks = {run_id: system.task(run_id, DAG) for run_id in RUNS}
    assert "failed" not in seen, log
    assert {task["state"] for task in tasks.values()} == {"success"}, log
    assert "deferred" in seen
    assert "Waiting for requests" in log
    assert [task["try_number"] for task in tasks.values()] == [1] * len(RUNS)
    rows = OnDelta(str(system.folder / "tables" / DAG)).rows()
    assert sorted(rows) == [f"2026-09-0{day}" for day in range(1, 4)]
    assert tasks["window"]["rendered_fields"]["days"] == "2026-09-02..2026-09-03"
    answers: dict[str, int] = {}
    for by_status in rationed.standin.stats["requests"].values():
        for status, count in by_status.items():
            answers[status] = answers.get(status, 0) + count
    assert answers == {"200": 3}, "the limit was passed"
