"""Runs that share a small quota in a real Airflow: those without room wait deferred, and none fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.demo.local_airflow import ROLES, LocalAirflow
from tests.equipment.airflow.tables import OnDelta
from tests.standins.mixpanel.access import Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn

pytestmark = pytest.mark.slow

LIMIT, HOUR = 2, 100.0
RUNS = {"run-1": "2026-09-01", "window": "2026-09-02..2026-09-03"}


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    limits = Limits(queries_per_hour=LIMIT, hour_seconds=HOUR)
    with StandIn(Project(seed=11, events_per_day=200), limits=limits) as server:
        yield server


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, standin: StandIn) -> Iterator[LocalAirflow]:
    folder = tmp_path_factory.mktemp("quota")
    (folder / "tmp").mkdir()
    settings = {
        "CONNECT_TEST_TABLES": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "16",
    }
    dags = Path(__file__).parent / "quota_dags"
    roles = (*ROLES, "triggerer")
    airflow = LocalAirflow(folder / "airflow", dags, parallelism=2, settings=settings, roles=roles)
    extra = {
        "project_id": str(standin.account.project_id),
        "limits": {"export": {"requests": LIMIT, "seconds": HOUR}},
    }
    mixpanel = {
        "connection_id": "mixpanel_default",
        "conn_type": "mixpanel",
        "host": "http://127.0.0.1",
        "port": standin.port,
        "login": standin.account.username,
        "password": standin.account.secret,
        "extra": json.dumps(extra),
    }
    try:
        airflow.start()
        airflow.api("POST", "connections", json=mixpanel)
        spark = {"connection_id": "spark_one", "conn_type": "spark", "host": "local[1]"}
        airflow.api("POST", "connections", json=spark)
        airflow.wait_for_dag("rationed")
        airflow.api("PATCH", "dags/rationed?update_mask=is_paused", json={"is_paused": False})
        yield airflow
    finally:
        airflow.stop()


def task(airflow: LocalAirflow, run_id: str) -> dict[str, Any]:
    return dict(airflow.api("GET", f"dags/rationed/dagRuns/{run_id}/taskInstances/events"))


def test_runs_without_room_wait_deferred_and_none_fails(airflow: LocalAirflow, standin: StandIn) -> None:
    for run_id, days in RUNS.items():
        body = {"dag_run_id": run_id, "conf": {"days": days}, "logical_date": None}
        airflow.api("POST", "dags/rationed/dagRuns", json=body)
    seen: set[str] = set()
    deadline = time.monotonic() + 600
    while True:
        states = {run_id: task(airflow, run_id)["state"] for run_id in RUNS}
        seen |= {str(state) for state in states.values()}
        log = "\n".join(path.read_text() for path in airflow.home.glob("logs/dag_id=rationed/**/*.log"))
        assert "failed" not in seen, log
        if set(states.values()) == {"success"}:
            break
        assert time.monotonic() < deadline, f"{states}\n{log}"
        time.sleep(0.5)
    assert "deferred" in seen
    assert "Waits for requests" in log
    assert [task(airflow, run_id)["try_number"] for run_id in RUNS] == [1] * len(RUNS)
    rows = OnDelta(str(airflow.home.parent / "rationed")).rows()
    assert sorted(rows) == [f"2026-09-0{day}" for day in range(1, 4)]
    assert task(airflow, "window")["rendered_fields"]["days"] == "2026-09-02..2026-09-03"
    answers: dict[str, int] = {}
    for by_status in standin.stats["requests"].values():
        for status, count in by_status.items():
            answers[status] = answers.get(status, 0) + count
    assert answers == {"200": 3}, "the limit was passed"
