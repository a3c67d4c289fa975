"""``make demo``: an example DAG on this machine, with a stand-in for its source.

Starts the stand-in that ``--source`` names (an :class:`.Origin`) with seven days of data and a private Airflow under
``.demo/``, lets catchup load the days through Spark into the table that ``--sink`` names (a :class:`.Target`), and
compares the table with what the stand-in served. Airflow stays up for a look at its UI until ``make demo-stop``; an
interrupted or failed demo leaves nothing running.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

from tests.demo import report
from tests.demo.delta_target import DeltaTarget
from tests.demo.local_airflow import ALL_ROLES, MARK, LocalAirflow, stop_marked
from tests.demo.mixpanel_origin import TARGETS, MixpanelOrigin
from tests.demo.origin import Origin
from tests.demo.rest_origin import RestOrigin
from tests.demo.sql_origin import SqlOrigin
from tests.demo.target import Target
from tests.demo.x_origin import XOrigin

FOLDER = Path(".demo")
ORIGINS: dict[str, type[Origin]] = {origin.name: origin for origin in (MixpanelOrigin, RestOrigin, SqlOrigin, XOrigin)}
DAYS = 7
STANDIN_VARIABLE = "CONNECT_DEMO_SECRET"  # name of an environment variable
TIMEOUT_SECONDS = 900
SILENT_SECONDS = 5  # then a line says what it waits for
RETRY_SECONDS = 5  # with Airflow's default, 300, the demo would seem to hang
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Demo:
    """One run of the demo.

    :param dags: folder of the example DAGs.
    :param target: the table to fill.
    :param origin: the stand-in to read.
    """

    dags: Path
    target: Target
    origin: Origin = field(default_factory=MixpanelOrigin)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        today = dt.datetime.now(ZoneInfo(self.origin.zone)).date()
        self.dates = [today - dt.timedelta(days=back) for back in range(DAYS, 0, -1)]
        self.said, self.said_at = "", time.monotonic()
        self.secret = secrets.token_urlsafe(16)
        self.airflow = LocalAirflow(
            home=FOLDER.resolve() / "airflow",
            dags=self.dags.resolve(),
            roles=ALL_ROLES,
            settings={
                "CONNECT_DEMO_FIRST_DAY": str(self.dates[0]),
                "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": str(RETRY_SECONDS),
                **self.target.settings,
            },
        )

    def run(self) -> int:
        """Run to the end; return the exit code."""
        if stop():
            self._say("stopped the demo that was running in this folder")
        shutil.rmtree(FOLDER / "airflow", ignore_errors=True)
        FOLDER.mkdir(exist_ok=True)
        try:
            with self._signs_of_life():
                self._run()
            ok = report.print_all(self.airflow, self.target, self.origin, self.dates)
        except BaseException:
            _listen_no_more()
            try:
                self._say("stopping everything")
            finally:  # the reader of the output may be gone
                stop()
            raise
        self._say(
            f"{self.target.where_to_look(f'{self.airflow.url}/dags/{self.target.dag_id}')}; to stop it: make demo-stop"
        )
        return 0 if ok else 1

    def _run(self) -> None:
        self._say(self.target.start(self.airflow.environment()))
        self._say(f"starting the {self.origin.title} stand-in with {DAYS} days of made-up {self.origin.things}")
        port = self._start_standin()
        self._say(f"starting Airflow in {self.airflow.home} (API server, scheduler, DAG processor, triggerer)")
        self.airflow.start()
        for connection in [*self._connections(port), *self.target.connections]:
            self.airflow.api("POST", "connections", json=connection)
        dag_id = self.target.dag_id
        self.airflow.wait_for_dag(dag_id)
        self._say(f"Airflow is up at {self.airflow.url}; catchup loads {self.dates[0]} to {self.dates[-1]}")
        self.airflow.api("PATCH", f"dags/{dag_id}?update_mask=is_paused", json={"is_paused": False})
        self._wait()

    def _start_standin(self) -> int:
        port_file = FOLDER / "standin.port"
        port_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", self.origin.module, "--port-file", str(port_file)]
        command += self.origin.arguments(FOLDER, self.dates, STANDIN_VARIABLE)
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

    def _connections(self, port: int) -> list[dict[str, Any]]:
        spark = {"connection_id": "spark_default", "conn_type": "spark", "host": "local[1]"}
        return [self.origin.connection(port, self.secret), spark]

    def _wait(self) -> None:
        last = ""
        while True:
            self.airflow.check_alive()
            runs = self.airflow.runs(self.target.dag_id)
            states = [run["state"] for run in runs]
            line = f"{states.count('success')} of {DAYS} days done, {self.target.rows():,} rows so far"
            line += f", {states.count('running')} runs at work, {states.count('queued')} queued"
            log = f"{self.airflow.home}/logs/dag_id={self.target.dag_id}"
            waiting = self.airflow.waiting_for_retry(self.target.dag_id)
            if waiting:
                line += f"; {waiting} tasks failed and try again {RETRY_SECONDS} s later; for the reason see {log}"
            if "failed" in states:
                raise RuntimeError(f"a run failed; its log is under {log}")
            if line != last:
                self._say(line)
                last = line
            if states.count("success") >= DAYS:
                return
            if time.monotonic() - self.started > TIMEOUT_SECONDS:
                raise RuntimeError(f"not done within {TIMEOUT_SECONDS} s; see {self.airflow.home}")
            time.sleep(2)

    def _say(self, text: str) -> None:
        self.said, self.said_at = text, time.monotonic()
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)

    @contextmanager
    def _signs_of_life(self) -> Iterator[None]:
        """Repeat the last line while nothing else is printed."""
        ended = threading.Event()

        def repeat() -> None:
            while not ended.wait(0.5):
                if time.monotonic() - self.said_at >= SILENT_SECONDS:
                    self._say(self.said if self.said.startswith("still ") else f"still {self.said}")

        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def stop() -> int:
    """End what an earlier demo in this folder left running. Return the number of its processes."""
    return stop_marked(str((FOLDER / "airflow").resolve()))


def main(arguments: list[str]) -> int:
    """Run the demo, or with ``--stop`` end an earlier one; return the exit code."""
    options = _parser().parse_args(arguments)
    if options.stop:
        _listen_no_more()
        number = stop()
        print(f"{'The demo is stopped' if number else 'No demo was running'}. Its files stay in .demo/")
        return 0
    origin = ORIGINS[options.source]()
    if options.sink not in origin.targets:
        known = ", ".join(sorted(origin.targets))
        print(f"There is no example of {origin.name} with {options.sink}; known: {known}", file=sys.stderr)
        return 2
    dags, target = Path("dags"), origin.targets[options.sink](FOLDER.resolve())
    if not (dags / f"{target.dag_id}.py").exists():
        print(f"{dags / target.dag_id}.py does not exist: run the demo in a clone of the project", file=sys.stderr)
        return 2
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    try:
        return Demo(dags, target, origin).run()
    except KeyboardInterrupt:
        stop()  # again, in case it came while an error was handled
        return 130
    except RuntimeError as error:
        print(f"The demo failed: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="The example DAGs on this machine.")
    add = parser.add_argument
    add("--source", choices=sorted(ORIGINS), default=MixpanelOrigin.name, help="where the days come from")
    add("--sink", choices=sorted(TARGETS), default=DeltaTarget.name, help="what the days go into")
    add("--stop", action="store_true", help="end what an earlier demo in this folder left running")
    return parser


def _interrupt(_number: int, _frame: FrameType | None) -> Any:
    """End the demo at the first signal; later ones must not interrupt the clean-up."""
    _listen_no_more()
    raise KeyboardInterrupt


def _listen_no_more() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    assert MARK not in os.environ, "the demo does not start inside another local Airflow"
    sys.exit(main(sys.argv[1:]))
