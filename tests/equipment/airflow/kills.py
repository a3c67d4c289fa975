"""Kills one process of a running task, lets Airflow recover, and watches the table meanwhile."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import psutil

from tests.demo.local_airflow import marked
from tests.equipment.airflow.tables import Table
from tests.standins.mixpanel.faults import Fault
from tests.system.conftest import System, served, wait_for

VICTIMS = ("jvm", "worker", "driver", "task", "supervisor")
BROKER, ZOMBIE = "broker", "zombie"
"""Kill the server behind the table, or stop a whole run and let it continue after its retry has succeeded."""
ZOMBIE_HEAD_START_SECONDS = 3


class Reader(threading.Thread):
    """Reads the table again and again, and remembers every number of rows it saw of each day."""

    def __init__(self, table: Table) -> None:
        super().__init__(daemon=True)
        self._table = table
        self._end = threading.Event()
        self.seen: dict[str, set[int]] = {}
        self.reads = 0

    def run(self) -> None:
        while not self._end.wait(0.05):
            for day, rows in self._table.counts().items():
                self.seen.setdefault(day, set()).add(rows)
            self.reads += 1

    def end(self) -> None:
        self._end.set()
        self.join()


@dataclass(frozen=True)
class Kill:
    """One run of one day: which of its processes dies, and how long after the phase began.

    Polling takes some ten seconds, as the source is slow; a kill while publishing comes after a quick poll.
    """

    victim: str
    date: dt.date
    after_seconds: float
    dag_id: str = "by_hand"
    phase: Literal["polling", "publishing"] = "polling"

    @property
    def run_id(self) -> str:
        return f"kill-{self.victim}-{self.date}"

    @classmethod
    def seeded(cls, victim: str, date: dt.date, seed: int, **options: Any) -> Kill:
        return cls(victim, date, random.Random(seed).uniform(0, 4), **options)


def kill_and_recover(system: System, kills: list[Kill]) -> list[bool]:
    """Run the days at once, kill in each of them, and wait until Airflow has repaired all; return which died in time.

    A victim that has just ended by itself is not a failure; the result leaves it out.

    :param kills: all in runs of one DAG.
    """
    [dag_id] = {kill.dag_id for kill in kills}
    slow = [
        Fault("slow", date=kill.date, seconds=0.1, size_bytes=4096, times=1)
        for kill in kills
        if kill.phase == "polling"
    ]
    system.by_hand.faults.replace(slow)
    reader = Reader(system.written_by[dag_id])
    reader.start()
    try:
        for kill in kills:
            system.trigger(str(kill.date), kill.run_id, dag_id)
        with ThreadPoolExecutor(len(kills)) as pool:
            killed = list(pool.map(lambda kill: _kill(system, kill), kills))
        for kill in kills:
            system.wait_for_run(kill.run_id, dag_id, seconds=240)
    finally:
        reader.end()
    rows, ledger = system.rows(dag_id), system.written_by[dag_id].ledger()
    for kill in kills:
        day = str(kill.date)
        full = served(system.by_hand.project, [kill.date])[day]
        assert rows[day] == full, f"{kill}: the table differs from the source"
        assert ledger[day].rows == full.total(), f"{kill}: the ledger differs from the table"
        assert reader.seen[day] == {full.total()}, f"{kill}: a reader saw part of a day"
    return killed


def _kill(system: System, kill: Kill) -> bool:
    victim = kill.victim if kill.victim in VICTIMS else "worker"
    pid = wait_for(lambda: find(system, kill.run_id, victim), 120, f"a {victim} of {kill.run_id}", every=0.3)
    if kill.phase == "publishing":
        wait_for(
            lambda: ": publish" in system.log(kill.run_id, kill.dag_id), 120, f"{kill.run_id} publishes", every=0.1
        )
    time.sleep(kill.after_seconds)
    if kill.victim == BROKER:
        return system.written_by[kill.dag_id].bounce(kill.after_seconds % 3)
    if kill.victim == ZOMBIE:
        return _sleep_through_the_retry(system, kill)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _sleep_through_the_retry(system: System, kill: Kill) -> bool:
    """Stop all processes of a run at once; after another try succeeds, resume them, the writing ones first."""
    jvm = find(system, kill.run_id, "jvm")
    if jvm is None:
        return False
    writers = [psutil.Process(jvm)]
    watchers = writers[0].parents()[:2]  # the task, and its supervisor
    try:
        for process in watchers[::-1] + writers:
            process.suspend()
        for process in writers[0].children(recursive=True):
            process.suspend()
            writers.append(process)
        system.wait_for_run(kill.run_id, kill.dag_id, seconds=240)
        slept = system.task(kill.run_id, kill.dag_id)["try_number"] > 1
    finally:
        _resume(writers)
        time.sleep(ZOMBIE_HEAD_START_SECONDS)
        _resume(watchers)
    _, remaining = psutil.wait_procs(writers, timeout=60)
    assert remaining == [], f"{kill}: resumed processes never end"
    return slept


def _resume(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


def find(system: System, run: str, victim: str) -> int | None:
    """Return the process id of ``victim`` while ``run`` is polling."""
    mark = str(system.airflow.home.resolve())
    jvm = next((process for process in marked(mark) if _is_jvm_of(process, run)), None)
    if jvm is None:
        return None
    family = list(_family(jvm))
    try:
        task = jvm.parent()
        supervisor = task.parent() if task else None
    except psutil.Error:  # it has just ended: look again
        return None
    driver = next((process for process, command in family if any(p.endswith("job.py") for p in command)), None)
    workers = [process for process, command in family if any("daemon" in part for part in command)]
    if driver is None or not workers:
        return None
    processes = {"jvm": jvm, "driver": driver, "worker": workers[-1], "task": task, "supervisor": supervisor}[victim]
    return processes.pid if processes else None


def _family(jvm: psutil.Process) -> Iterator[tuple[psutil.Process, list[str]]]:
    """Yield a JVM's children, with their commands; an ended child is listed until it is reaped."""
    with contextlib.suppress(psutil.Error):
        for process in jvm.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                yield process, process.cmdline()


def _is_jvm_of(process: psutil.Process, run: str) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return "org.apache.spark.deploy.SparkSubmit" in command and run in command
