"""One real Airflow for the whole session, two stand-ins, and what tests need to look at all of them."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.equipment.airflow.editions import EVENTS, Editions
from tests.equipment.airflow.kafka_table import OnKafka
from tests.equipment.airflow.roles import AirflowWithRoles
from tests.equipment.airflow.shared import shared_airflow
from tests.equipment.airflow.tables import OnBigQuery, OnDelta, Table
from tests.standins.bigquery_emulator import BigQueryEmulator
from tests.standins.kafka_broker import KafkaBroker
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn

if TYPE_CHECKING:
    from tests.equipment.airflow.rationed import Rationed

pytest.register_assert_rewrite(
    "tests.equipment.airflow.backfills",
    "tests.equipment.airflow.caught_up",
    "tests.equipment.airflow.kills",
    "tests.equipment.airflow.races",
    "tests.equipment.airflow.many_days",
)

CATCHUP_DAYS = int(os.environ.get("CONNECT_CATCHUP_DAYS", "3"))
TRIGGERED = (
    "by_hand",
    "bigquery_by_hand",
    "kafka_by_hand",
    "editions",
    "editions_too",
    "editions_gated",
    "mapped",
)
PAUSED = ("catchup", "bigquery_catchup", "kafka_catchup", "forwards", "backwards", "reprocessed")
PASSWORD = 'it\'s "100%" {{ds}} c4nary-p4ssword $HOME'


@pytest.fixture(autouse=True)
def in_one_process() -> None:
    """Fail where pytest-xdist deals these tests out: several Airflows at once need more memory than there is."""
    assert "PYTEST_XDIST_WORKER" not in os.environ, "run tests/system by itself, without -n"


def wait_for(condition: Callable[[], Any], seconds: float, what: str, every: float = 1) -> Any:
    """Return what is found as soon as it is something.

    A run takes ten seconds, and each question costs the API server as much as a task's own.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(every)
    return found


@dataclass
class System:
    """A real Airflow with the test DAGs, and the tables they write.

    :param folder: holds all that Airflow, its tasks and the Delta tables write.
    :param written_by: the table that each DAG writes.
    """

    airflow: AirflowWithRoles
    folder: Path
    written_by: dict[str, Table]
    catchup: StandIn
    by_hand: StandIn
    editions: StandIn

    def trigger(self, days: str, run_id: str, dag_id: str = "by_hand") -> str:
        body = {"dag_run_id": run_id, "conf": {"days": days}, "logical_date": None}
        self.airflow.api("POST", f"dags/{dag_id}/dagRuns", json=body)
        return run_id

    def clear(self, run_id: str, dag_id: str = "by_hand") -> None:
        body = {"dag_run_id": run_id, "dry_run": False, "reset_dag_runs": True, "only_failed": False}
        self.airflow.api("POST", f"dags/{dag_id}/clearTaskInstances", json=body)

    def run(self, run_id: str, dag_id: str = "by_hand") -> dict[str, Any]:
        return dict(self.airflow.api("GET", f"dags/{dag_id}/dagRuns/{run_id}"))

    def wait_for_run(self, run_id: str, dag_id: str = "by_hand", seconds: float = 150) -> None:
        def ended() -> bool:
            found = self.run(run_id, dag_id)["state"]
            assert found in ("queued", "running", "success"), f"{run_id} is {found}:\n{self.log(run_id, dag_id)}"
            return bool(found == "success")

        wait_for(ended, seconds, f"success of {run_id}", every=0.5)

    def task(self, run_id: str, dag_id: str = "by_hand") -> dict[str, Any]:
        return dict(self.airflow.api("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/events"))

    def log(self, run_id: str, dag_id: str = "by_hand") -> str:
        files = self.airflow.home.glob(f"logs/dag_id={dag_id}/run_id={run_id}/**/*.log")
        return "\n".join(file.read_text() for file in sorted(files))

    def report(self, run_id: str, dag_id: str = "by_hand") -> dict[str, Any]:
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/events/xcomEntries/return_value"
        value = self.airflow.api("GET", path)["value"]
        return dict(json.loads(value) if isinstance(value, str) else value)

    def rows(self, dag_id: str) -> dict[str, Counter[str]]:
        return self.written_by[dag_id].rows()

    def offset(self, dag_id: str) -> dict[str, Any]:
        target = self.written_by[dag_id].target
        for variable in self.airflow.api("GET", "variables?limit=100&variable_key_pattern=connect_offset%25")[
            "variables"
        ]:
            value = json.loads(variable["value"])
            if variable["key"].startswith("connect_offset/") and value["target"] == target:
                return dict(value)
        raise AssertionError(f"no offset of {target}")


def served(project: Project, dates: list[dt.date]) -> dict[str, Counter[str]]:
    """Return what a project has for whole UTC dates, duplicates dropped, in the form of :meth:`Table.rows`."""
    return {
        str(date): Counter(
            json.dumps([r["event"], r["properties"]], sort_keys=True) for r in project.expected_rows(date)
        )
        for date in dates
    }


def connection_of(standin: StandIn, name: str, **extra: Any) -> dict[str, Any]:
    """Return the connection ``mixpanel_<name>`` to a stand-in, as Airflow takes it, without limits to wait for."""
    many = {"export": {"requests": 100_000, "per_second": 1000, "at_once": 1000}}
    return {
        "connection_id": f"mixpanel_{name}",
        "conn_type": "mixpanel",
        "host": "http://127.0.0.1",
        "port": standin.port,
        "login": standin.account.username,
        "password": standin.account.secret,
        "extra": json.dumps({"project_id": str(standin.account.project_id), "limits": many, **extra}),
    }


@pytest.fixture(scope="session")
def system(
    tmp_path_factory: pytest.TempPathFactory, emulator: BigQueryEmulator, broker: KafkaBroker
) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("system")
    tables = folder / "tables"
    tables.mkdir()
    (folder / "tmp").mkdir()
    emulator.create_dataset("system")
    written_by: dict[str, Table] = {
        "catchup": OnDelta(str(tables / "catchup")),
        "by_hand": OnDelta(str(tables / "by_hand")),
        "bigquery_catchup": OnBigQuery(emulator, "system.catchup"),
        "bigquery_by_hand": OnBigQuery(emulator, "system.by_hand"),
        "kafka_catchup": OnKafka(broker, "catchup"),
        "kafka_by_hand": OnKafka(broker, "by_hand"),
    }
    small_tables = ("editions", "forwards", "backwards", "reprocessed", "mapped_first", "mapped_second")
    written_by |= {name: OnDelta(str(tables / name)) for name in small_tables}
    project = Project(seed=11, timezone="US/Pacific", events_per_day=400, duplicates_per_day=20, missing_ids_per_day=4)
    small = Project(seed=12, events_per_day=3000, duplicates_per_day=30)
    settings = {
        "CONNECT_TEST_TABLES": str(tables),
        "CONNECT_CATCHUP_DAYS": str(CATCHUP_DAYS),
        "TMPDIR": str(folder / "tmp"),
        # The defaults wait minutes for a dead task; the rules are the same.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "AIRFLOW__WORKERS__SOCKET_CLEANUP_TIMEOUT": "5",
        "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "16",
        # No DAG file changes: reading all of them again every half minute takes a tenth of a core.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(folder / "lineage.json"), "append": True}
        ),
        "AIRFLOW__OPENLINEAGE__SELECTIVE_ENABLE": "True",
    }
    editions = Editions(seed=13, events_per_day=EVENTS)
    from tests.standins.mixpanel.access import Account

    account = Account(secret=PASSWORD)
    with (
        StandIn(project, account=account) as catchup,
        StandIn(small, account=account) as by_hand,
        StandIn(editions, account=account) as edited,
        shared_airflow(folder / "airflow", Path(__file__).parent / "dags", settings) as airflow,
    ):
        for name, standin in (("catchup", catchup), ("by_hand", by_hand), ("editions", edited)):
            connection = connection_of(standin, name, timestamps="utc")
            airflow.api("POST", "connections", json=connection)
        spark = {"connection_id": "spark_one", "conn_type": "spark", "host": "local[1]"}
        google = {"connection_id": "google_cloud_default", "conn_type": "google_cloud_platform"}
        google["extra"] = json.dumps(emulator.connection_extra)
        kafka = {"connection_id": "kafka_default", "conn_type": "kafka"}
        kafka["extra"] = json.dumps(broker.connection_extra)
        for connection in (spark, google, kafka):
            airflow.api("POST", "connections", json=connection)
        airflow.api("POST", "pools", json={"name": "sparks", "slots": 3})
        for dag_id in (*TRIGGERED, *PAUSED):
            airflow.wait_for_dag(dag_id)
        for dag_id in TRIGGERED:
            airflow.api("PATCH", f"dags/{dag_id}?update_mask=is_paused", json={"is_paused": False})
        yield System(airflow, folder, written_by, catchup, by_hand, edited)


@pytest.fixture(scope="session", autouse=True)
def rationed(request: pytest.FixtureRequest) -> Iterator[Rationed | None]:
    """Start the runs of test_quota.py, if it is among the files that run, before all others."""
    if not any(item.path.stem == "test_quota" for item in request.session.items):
        yield None
        return
    from tests.equipment.airflow.rationed import rationed_runs

    with rationed_runs(request.getfixturevalue("system")) as runs:
        yield runs
