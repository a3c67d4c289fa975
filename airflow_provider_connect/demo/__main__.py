"""``make demo``: the example DAG on this machine, with a stand-in for Mixpanel and everything else real.

Starts the stand-in with seven days of events and an Airflow of its own under ``.demo/``, lets catchup load the
days into a Delta table through Spark, and compares the table with what the stand-in served. Airflow stays up
for a look at its UI until ``make demo-stop``; an interrupted or failed demo leaves nothing running.
"""

from __future__ import annotations

import datetime as dt
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

from airflow_provider_connect.demo import report
from airflow_provider_connect.demo.local_airflow import MARK, LocalAirflow, stop_marked
from airflow_provider_connect.demo.mixpanel_events import Project

FOLDER = Path(".demo")
DAG_ID = "mixpanel_daily"
ZONE = "US/Pacific"
DAYS = 7
STANDIN_VARIABLE = "CONNECT_DEMO_SECRET"  # name of an environment variable
PROJECT = Project(
    seed=7,
    regime="project_local",
    timezone=ZONE,
    events_per_day=20_000,
    duplicates_per_day=200,
    missing_ids_per_day=40,
    late_per_day=100,
)
TIMEOUT_SECONDS = 900


@dataclass
class Demo:
    """One run of the demo.

    :param dags: folder of the example DAGs.
    """

    dags: Path
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        today = dt.datetime.now(ZoneInfo(ZONE)).date()
        self.dates = [today - dt.timedelta(days=back) for back in range(DAYS, 0, -1)]
        self.secret = secrets.token_urlsafe(16)
        self.table = FOLDER.resolve() / "tables" / "mixpanel_events"
        self.airflow = LocalAirflow(
            home=FOLDER.resolve() / "airflow",
            dags=self.dags.resolve(),
            settings={
                "CONNECT_DEMO_FIRST_DAY": str(self.dates[0]),
                "CONNECT_DEMO_TABLE": str(self.table),
            },
        )

    def run(self) -> int:
        """Run to the end; return the exit code."""
        stop()
        for name in ("airflow", "tables"):
            shutil.rmtree(FOLDER / name, ignore_errors=True)
        FOLDER.mkdir(exist_ok=True)
        try:
            self._run()
            ok = report.print_all(self.airflow, DAG_ID, self.table, PROJECT, self.dates)
        except BaseException:
            try:
                self._say("stopping everything")
            finally:  # nobody may be there to read it any more
                stop()
            raise
        self._say(f"the UI is at {self.airflow.url}/dags/{DAG_ID}; stop it with: make demo-stop")
        return 0 if ok else 1

    def _run(self) -> None:
        self.table.parent.mkdir(parents=True)
        self._say(f"starting the Mixpanel stand-in with {DAYS} days of made-up events")
        port = self._start_standin()
        self._say(f"starting Airflow in {self.airflow.home} (API server, scheduler, DAG processor)")
        self.airflow.start()
        self._connect(port)
        self.airflow.wait_for_dag(DAG_ID)
        self._say(f"Airflow is up at {self.airflow.url}; catchup loads {self.dates[0]} to {self.dates[-1]}")
        self.airflow.api("PATCH", f"dags/{DAG_ID}?update_mask=is_paused", json={"is_paused": False})
        self._wait()

    def _start_standin(self) -> int:
        port_file = FOLDER / "standin.port"
        port_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "airflow_provider_connect.demo.mixpanel_server"]
        command += ["--port-file", str(port_file), "--cache", str(FOLDER / "standin-days")]
        command += ["--secret-env", STANDIN_VARIABLE]
        for name in ("seed", "regime", "timezone", "events_per_day", "duplicates_per_day"):
            command += [f"--{name.replace('_', '-')}", str(getattr(PROJECT, name))]
        for name in ("missing_ids_per_day", "late_per_day"):
            command += [f"--{name.replace('_', '-')}", str(getattr(PROJECT, name))]
        command += ["--prepare", *(str(date) for date in self.dates)]
        log = (FOLDER / "standin.log").open("wb")
        with log:
            process = subprocess.Popen(
                command,
                env=self.airflow.environment() | {STANDIN_VARIABLE: self.secret},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while not port_file.exists():
            if process.poll() is not None:
                raise RuntimeError(f"the stand-in ended with code {process.returncode}; see {log.name}")
            time.sleep(0.1)
        return int(port_file.read_text())

    def _connect(self, port: int) -> None:
        self.airflow.api(
            "POST",
            "connections",
            json={
                "connection_id": "mixpanel_default",
                "conn_type": "mixpanel",
                "host": "http://127.0.0.1",
                "port": port,
                "login": "demo.service-account",
                "password": self.secret,
                "extra": '{"project_id": "1234567", "timestamps": "project_local"}',
            },
        )
        self.airflow.api(
            "POST", "connections", json={"connection_id": "spark_default", "conn_type": "spark", "host": "local[1]"}
        )

    def _wait(self) -> None:
        last = ""
        while True:
            self.airflow.check_alive()
            runs = self.airflow.runs(DAG_ID)
            states = [run["state"] for run in runs]
            line = f"{states.count('success')} of {DAYS} days done, {report.rows(self.table):,} rows so far"
            if "failed" in states:
                raise RuntimeError(f"a run failed; its log is under {self.airflow.home}/logs/dag_id={DAG_ID}")
            if line != last:
                self._say(line)
                last = line
            if states.count("success") >= DAYS:
                return
            if time.monotonic() - self.started > TIMEOUT_SECONDS:
                raise RuntimeError(f"not done within {TIMEOUT_SECONDS} s; see {self.airflow.home}")
            time.sleep(2)

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)


def stop() -> None:
    """End whatever an earlier demo in this folder has left running."""
    stop_marked(str((FOLDER / "airflow").resolve()))


def main(arguments: list[str]) -> int:
    """Run the demo, or with ``--stop`` end an earlier one; return the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    if arguments == ["--stop"]:
        stop()
        print("The demo is stopped; what it wrote stays in .demo/")
        return 0
    dags = Path("dags")
    if arguments or not (dags / f"{DAG_ID}.py").exists():
        print(f"usage: python -m {__package__} [--stop], in a clone of the project", file=sys.stderr)
        return 2
    try:
        return Demo(dags).run()
    except KeyboardInterrupt:
        return 130
    except RuntimeError as error:
        print(f"The demo failed: {error}", file=sys.stderr)
        return 1


def _interrupt(_number: int, _frame: FrameType | None) -> Any:
    raise KeyboardInterrupt


if __name__ == "__main__":
    assert MARK not in os.environ, "the demo does not start inside another local Airflow"
    sys.exit(main(sys.argv[1:]))
