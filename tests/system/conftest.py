"""One real Airflow for the whole session, two stand-ins, and what tests need to look at both."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.demo.local_airflow import LocalAirflow
from airflow_provider_connect.demo.mixpanel_events import Project
from airflow_provider_connect.demo.mixpanel_server import StandIn

PASSWORD = 'it\'s "100%" {{ds}} c4nary-p4ssword $HOME'


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)
    return found


@dataclass
class System:
    """A real Airflow with the test DAGs, and the tables they write."""

    airflow: LocalAirflow
    tables: Path
    catchup: StandIn
    by_hand: StandIn

    def trigger(self, days: str, run_id: str) -> str:
        body = {"dag_run_id": run_id, "conf": {"days": days}, "logical_date": None}
        self.airflow.api("POST", "dags/by_hand/dagRuns", json=body)
        return run_id

    def run(self, run_id: str, dag_id: str = "by_hand") -> dict[str, Any]:
        return dict(self.airflow.api("GET", f"dags/{dag_id}/dagRuns/{run_id}"))

    def wait_for_run(self, run_id: str, state: str = "success", seconds: float = 150) -> None:
        def ended() -> bool:
            found = self.run(run_id)["state"]
            assert found in ("queued", "running", state), f"{run_id} is {found}:\n{self.log(run_id)}"
            return bool(found == state)

        wait_for(ended, seconds, f"{run_id} is {state}")

    def task(self, run_id: str, dag_id: str = "by_hand") -> dict[str, Any]:
        return dict(self.airflow.api("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/events"))

    def log(self, run_id: str, dag_id: str = "by_hand") -> str:
        files = self.airflow.home.glob(f"logs/dag_id={dag_id}/run_id={run_id}/**/*.log")
        return "\n".join(file.read_text() for file in sorted(files))

    def report(self, run_id: str, dag_id: str = "by_hand") -> dict[str, Any]:
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/events/xcomEntries/return_value"
        value = self.airflow.api("GET", path)["value"]
        return dict(json.loads(value) if isinstance(value, str) else value)

    def rows(self, table: str) -> dict[str, Counter[str]]:
        """Return a table's rows by day, as a multiset of JSON texts."""
        found: dict[str, Counter[str]] = {}
        root = self.tables / table
        for row in DeltaTable(str(root)).to_pyarrow_table(columns=["day", "event", "properties"]).to_pylist():
            text = json.dumps([row["event"], json.loads(row["properties"])], sort_keys=True)
            found.setdefault(str(row["day"]), Counter())[text] += 1
        return found

    def offset(self, table: str) -> dict[str, Any]:
        for variable in self.airflow.api("GET", "variables?limit=100")["variables"]:
            value = json.loads(variable["value"])
            if variable["key"].startswith("connect_offset/") and value["target"] == str(self.tables / table):
                return dict(value)
        raise AssertionError(f"no offset of {table}")


def served(project: Project, dates: list[dt.date]) -> dict[str, Counter[str]]:
    """Return what a project has for whole UTC dates, duplicates dropped, in the form of :meth:`System.rows`."""
    return {
        str(date): Counter(json.dumps([r["event"], r["properties"]], sort_keys=True) for r in project.kept(date))
        for date in dates
    }


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("system")
    tables = folder / "tables"
    tables.mkdir()
    project = Project(seed=11, timezone="US/Pacific", events_per_day=400, duplicates_per_day=20, missing_ids_per_day=4)
    small = Project(seed=12, events_per_day=3000, duplicates_per_day=30)
    settings = {
        "CONNECT_TEST_TABLES": str(tables),
        # The defaults wait minutes for a dead task; the rules are the same.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "AIRFLOW__WORKERS__SOCKET_CLEANUP_TIMEOUT": "5",
        "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "16",
    }
    airflow = LocalAirflow(folder / "airflow", Path(__file__).parent / "dags", parallelism=16, settings=settings)
    from airflow_provider_connect.demo.mixpanel_access import Account

    account = Account(secret=PASSWORD)
    try:
        with StandIn(project, account=account) as catchup, StandIn(small, account=account) as by_hand:
            airflow.start()
            for name, standin in (("catchup", catchup), ("by_hand", by_hand)):
                extra = {"project_id": str(account.project_id), "timestamps": "utc"}
                connection = {
                    "connection_id": f"mixpanel_{name}",
                    "conn_type": "mixpanel",
                    "host": "http://127.0.0.1",
                    "port": standin.port,
                    "login": account.username,
                    "password": account.secret,
                    "extra": json.dumps(extra),
                }
                airflow.api("POST", "connections", json=connection)
            spark = {"connection_id": "spark_one", "conn_type": "spark", "host": "local[1]"}
            airflow.api("POST", "connections", json=spark)
            for dag_id in ("catchup", "by_hand"):
                airflow.wait_for_dag(dag_id)
            airflow.api("PATCH", "dags/by_hand?update_mask=is_paused", json={"is_paused": False})
            yield System(airflow, tables, catchup, by_hand)
    finally:
        airflow.stop()
