"""Runs our driver under a real spark-submit, without Airflow: the fixture ``submit``.

A start of Spark costs five seconds of a core. So what a test does before and after the step that it shows under Spark
is done by the same driver in this process: ``submit.here``.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import io
import itertools
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection, write_connections
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.stage.transform import Transform
from airflow_provider_connect.submit import launch
from airflow_provider_connect.window import Day
from tests.equipment.bigquery.publish_bench import bench, publish_api
from tests.equipment.kafka.secured import cluster
from tests.equipment.spark.here import drive
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn

__all__ = ["bench", "cluster", "publish_api"]

ATTEMPTS = itertools.count(1)


@dataclass
class Submitted:
    """One driver, running or ended."""

    process: subprocess.Popen[str]
    folder: Path
    lock: Any

    def wait(self, seconds: float = 120) -> Submitted:
        self.output, _ = self.process.communicate(timeout=seconds)
        self.lock.close()
        launch.finish(self.folder)
        return self

    def abandon(self) -> None:
        """Let go of the lock, as the kernel does when a task dies."""
        self.lock.close()

    @property
    def report(self) -> JobReport:
        return JobReport.model_validate_json((self.folder / "report.json").read_text())


@dataclass
class Driven:
    """A driver that ran in this process, to be looked at like one that was submitted."""

    folder: Path
    report: JobReport
    output: str


@dataclass
class Submitter:
    """Starts drivers for one table and one stand-in."""

    tmp: Path
    standin: StandIn
    master: str = "local[2]"
    conf: dict[str, str] = field(default_factory=dict)
    started: list[Submitted] = field(default_factory=list)
    source_name: str = "mixpanel"
    sink_name: str = "delta"
    sink_connections: dict[str, Connection] = field(default_factory=dict)
    transform: Transform | None = None

    def sink_options(self) -> dict[str, Any]:
        return {"path": str(self.table)}

    @property
    def staging(self) -> Path:
        return self.tmp / "staging"

    @property
    def table(self) -> Path:
        return self.tmp / "table"

    def connection(self, **changes: Any) -> Connection:
        account = self.standin.account
        fields: dict[str, Any] = {
            "conn_id": "mixpanel_default",
            "conn_type": "mixpanel",
            "host": "http://127.0.0.1",
            "port": self.standin.port,
            "login": account.username,
            "password": account.secret,
            "extra": {"project_id": str(account.project_id)},
        }
        return Connection(**fields | changes)

    def _job(
        self,
        days: list[str],
        *,
        token: str = "a" * 32,
        run: str = "dag/run/task",
        clear_number: int = 0,
        source: dict[str, Any] | None = None,
        sink: dict[str, Any] | None = None,
        connection: Connection | None = None,
        lookback: Sequence[str] = (),
        **more: Any,
    ) -> tuple[Path, JobConfig, dict[str, Connection]]:
        zone = (source or {}).get("zone", "UTC")
        folder = self.tmp / f"run-{next(ATTEMPTS)}"
        folder.mkdir(mode=0o700)
        options = {"conn_id": f"{self.source_name}_default", "retry_budget_seconds": 20, **(source or {})}
        job = JobConfig(
            source_name=self.source_name,
            source=options,
            sink_name=self.sink_name,
            sink={**self.sink_options(), **(sink or {})},
            days=tuple(Day(date=dt.date.fromisoformat(day), zone=zone) for day in days),
            lookback=tuple(Day(date=dt.date.fromisoformat(day), zone=zone) for day in lookback),
            intent=Intent(token=token, run=run, clear_number=clear_number),
            attempt=f"{token[:16]}-{next(ATTEMPTS):06x}",
            report=str(folder / "report.json"),
            staging=str(self.staging),
            progress_seconds=0.5,
            **more,
            transform=self.transform,
        )
        return folder, job, {options["conn_id"]: connection or self.connection(), **self.sink_connections}

    def start(self, days: list[str], *, env: dict[str, str] | None = None, **options: Any) -> Submitted:
        folder, job, connections = self._job(days, **options)
        (folder / "job.json").write_text(job.model_dump_json())
        write_connections(folder / "connections.json", connections)
        lock = (folder / "alive.lock").open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX)
        how = launch.prepare(master=self.master, deploy_mode="client", user_conf=self.conf, run_folder=folder)
        command = ["spark-submit", "--master", self.master]
        command += list(itertools.chain.from_iterable(("--conf", f"{k}={v}") for k, v in how.conf.items()))
        command += ["--py-files", how.py_files] if how.py_files else []
        process = subprocess.Popen(
            [*command, how.application, str(folder / "job.json")],
            env=os.environ | how.env_vars | (env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(Submitted(process, folder, lock))
        return self.started[-1]

    def run(self, days: list[str], **options: Any) -> Submitted:
        return self.start(days, **options).wait()

    def here(self, days: list[str], **options: Any) -> Driven:
        """Run the driver in this process: all of it is real, but for Spark."""
        folder, job, connections = self._job(days, **options)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            report = drive(job, connections)
        return Driven(folder, report, said.getvalue())

    def rows(self) -> dict[str, list[str]]:
        """Return the table's rows by day, as sorted JSON texts."""
        from deltalake import DeltaTable

        table = DeltaTable(str(self.table)).to_pyarrow_table(columns=["day", "event", "properties"])
        found: dict[str, list[str]] = {}
        for row in table.to_pylist():
            text = json.dumps([row["event"], json.loads(row["properties"])], sort_keys=True)
            found.setdefault(str(row["day"]), []).append(text)
        return {day: sorted(rows) for day, rows in found.items()}

    def served(self, days: list[str]) -> dict[str, list[str]]:
        """Return what the stand-in has for the days, duplicates dropped, in the form of :meth:`rows`."""
        return {
            day: sorted(
                json.dumps([row["event"], row["properties"]], sort_keys=True)
                for row in self.standin.project.expected_rows(dt.date.fromisoformat(day))
            )
            for day in days
        }


@pytest.fixture
def submit(tmp_path: Path) -> Iterator[Submitter]:
    project = Project(seed=3, events_per_day=2000, duplicates_per_day=50, missing_ids_per_day=5)
    with StandIn(project, now=lambda: dt.datetime(2026, 11, 20, tzinfo=dt.UTC)) as standin:
        submitter = Submitter(tmp_path, standin)
        yield submitter
        for started in submitter.started:
            if started.process.poll() is None:
                started.process.kill()
                started.wait()


@pytest.fixture(scope="session")
def bare_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything installed here but this package: what another machine of a cluster has."""
    folder = tmp_path_factory.mktemp("site")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "airflow_provider_connect" not in entry.name:
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture(scope="session")
def bare_python() -> str:
    """The interpreter below the environment's: it sees what PYTHONPATH names, and no ``.pth`` file there counts."""
    return os.path.realpath(sys.executable)
