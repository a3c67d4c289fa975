from __future__ import annotations

import datetime as dt
import json
import os
import stat
import sys
import textwrap
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.api.datamodels._generated import DagRun
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import comms, task_runner
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_connect.operators.connect import ConnectOperator
from tests.equipment.airflow.connectors import TinyLedger, TinySink, TinySource


class Supervisor:
    """Stands where a task's supervisor stands: keeps Variables, answers the SDK's own messages."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.masked: list[str] = []

    def send(self, msg: Any) -> Any:
        match msg:
            case comms.GetVariable():
                if msg.key in self.variables:
                    return comms.VariableResult(key=msg.key, value=self.variables[msg.key])
                return comms.ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
            case comms.PutVariable():
                self.variables[msg.key] = msg.value
            case comms.DeleteVariable():
                self.variables.pop(msg.key, None)
            case comms.GetVariableKeys():
                found = sorted(key for key in self.variables if key.startswith(msg.prefix or ""))
                page = found[msg.offset : msg.offset + msg.limit]
                return comms.VariableKeysResult(keys=page, total_entries=len(found))
            case comms.GetConnection():
                return comms.ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)
            case comms.MaskSecret():
                self.masked.append(msg.value)
        return comms.OKResponse(ok=True)


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """A task's process, as far as connections and Variables go."""
    supervisor = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    return supervisor


@pytest.fixture
def ledger(tmp_path: Path) -> TinyLedger:
    return TinyLedger(tmp_path / "ledger")


def dag_run(**fields: Any) -> DagRun:
    """The run of 2026-10-05 (UTC), as a worker sees it."""
    midnight = dt.datetime(2026, 10, 5, tzinfo=dt.UTC)
    values: dict[str, Any] = {
        "dag_id": "dag",
        "run_id": "scheduled__2026-10-06",
        "logical_date": midnight,
        "data_interval_start": midnight,
        "data_interval_end": midnight + dt.timedelta(days=1),
        "run_after": midnight + dt.timedelta(days=1),
        "start_date": dt.datetime(2026, 10, 6, 0, 0, 1, 123456, tzinfo=dt.UTC),
        "end_date": None,
        "clear_number": 0,
        "run_type": "scheduled",
        "state": "running",
        "consumed_asset_events": [],
        "partition_key": None,
    }
    return DagRun(**(values | fields))


def task_instance(**fields: Any) -> Any:
    values = {"dag_id": "dag", "run_id": "scheduled__2026-10-06", "task_id": "events", "map_index": -1, "try_number": 1}
    return SimpleNamespace(**(values | fields))


class SparkSubmit:
    """A spark-submit of ours on the path: it does what ``script`` says with the job file it is given."""

    def __init__(self, folder: Path, ledger: TinyLedger) -> None:
        self.folder = folder
        self.ledger = ledger

    def does(self, script: str) -> None:
        """Set the Python lines to run; ``job``, ``report(days, **fields)`` and ``publish(day)`` are at hand."""
        head = f"""\
            #!{sys.executable}
            import json, os, pathlib, sys
            job_file = pathlib.Path(sys.argv[-1])
            job = json.loads(job_file.read_text())
            secrets = job_file.with_name("connections.json")
            sealed = job["sealed_connections"] and pathlib.Path(job["sealed_connections"]["url"].removeprefix("file://"))
            seen = {{"argv": sys.argv, "job": job, "mode": oct(job_file.stat().st_mode & 0o777),
                    "folder_mode": oct(job_file.parent.stat().st_mode & 0o777), "folder": str(job_file.parent),
                    "connections": json.loads(secrets.read_text()) if secrets.exists() else None,
                    "sealed": sealed and sealed.read_bytes().hex()}}
            pathlib.Path({str(self.folder / "seen.json")!r}).write_text(json.dumps(seen))
            def publish(day, generation=1):
                row = dict(day=day, generation=generation, token="t", rows=10)
                with open({str(self.ledger.path)!r}, "a") as file:
                    file.write(json.dumps(row) + "\\n")
            def report(*days, attempt=job["attempt"], **fields):
                pathlib.Path(job["report"]).write_text(json.dumps(dict(attempt=attempt, days=days, **fields)))
            """
        path = self.folder / "spark-submit"
        path.write_text(textwrap.dedent(head) + textwrap.dedent(script))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def seen(self) -> dict[str, Any]:
        return json.loads((self.folder / "seen.json").read_text())


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: TinyLedger) -> Iterator[SparkSubmit]:
    folder = tmp_path / "spark"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SPARK_HOME", str(folder))
    monkeypatch.setenv("JAVA_HOME", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    extra = {"api_key": SECRET[::-1], "region": "eu", "proxy": "http://me:proxy-pass@proxy:3128"}
    tiny = {"conn_type": "tiny", "login": "me", "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TINY_DEFAULT", json.dumps(tiny))
    return SparkSubmit(folder, ledger)


class Task:
    """One ConnectOperator in one DAG, and its context."""

    def __init__(self, ledger: TinyLedger, dag: Mapping[str, Any] = MappingProxyType({}), **options: Any) -> None:
        self.source = TinySource(conn_id="tiny_default")
        self.sink = TinySink(table=str(ledger.path))
        arguments = {"schedule": None, "start_date": dt.datetime(2026, 10, 5, tzinfo=dt.UTC)} | dict(dag)
        with DAG("dag", **arguments) as self.dag:
            self.operator = ConnectOperator(task_id="events", **({"source": self.source, "sink": self.sink} | options))
        self.context: Any = {
            "dag": self.dag,
            "dag_run": dag_run(),
            "ti": task_instance(),
            "outlet_events": OutletEventAccessors(),
        }

    def run(self) -> Any:
        return self.operator.execute(self.context)


@pytest.fixture
def task(supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger) -> Task:
    return Task(ledger)


def once(first: str, then: str) -> str:
    """Return a script that ends otherwise at its second run."""
    first, then = (text.strip().replace("\n", "\n    ") for text in (first, then))
    mark = '(pathlib.Path(sys.argv[0]).parent / "once")'
    return f"\nif {mark}.exists():\n    {then}\nelse:\n    {mark}.touch()\n    {first}\n"


SECRET = uuid.UUID(int=0x5EC12E7 << 90).hex + "'\"%{{"
DONE = 'publish("2026-10-05"); report(dict(day="2026-10-05", status="published", generation=1, rows_written=10))'
