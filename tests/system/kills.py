"""Kills one process of a running task, lets Airflow recover, and watches the table all along."""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import threading
import time
from collections import Counter

import psutil
from deltalake import DeltaTable

from airflow_provider_connect.demo.local_airflow import MARK
from airflow_provider_connect.demo.mixpanel_faults import Fault

from .conftest import System, served, wait_for

VICTIMS = ("jvm", "worker", "driver", "task", "supervisor")


class Reader(threading.Thread):
    """Reads the table again and again, and remembers every number of rows it saw of each day."""

    def __init__(self, system: System) -> None:
        super().__init__(daemon=True)
        self._root = str(system.tables / "by_hand")
        self._end = threading.Event()
        self.seen: dict[str, set[int]] = {}
        self.reads = 0

    def run(self) -> None:
        while not self._end.wait(0.05):
            if DeltaTable.is_deltatable(self._root):
                days = DeltaTable(self._root).to_pyarrow_table(columns=["day"]).column("day").to_pylist()
                for day, rows in Counter(days).items():
                    self.seen.setdefault(str(day), set()).add(rows)
                self.reads += 1

    def end(self) -> None:
        self._end.set()
        self.join()


def kill_once(system: System, victim: str, date: dt.date, seed: int) -> str:
    """Run one day, kill ``victim`` at a random moment of it, and return the run once Airflow has repaired it."""
    rng = random.Random(seed)
    system.by_hand.faults.replace([Fault("slow", date=date, seconds=0.05, size_bytes=8192, times=1)])
    reader = Reader(system)
    reader.start()
    run = system.trigger(str(date), f"kill-{victim}-{date}-{seed}")
    try:
        pid = wait_for(lambda: find(system, run, victim), 90, f"a {victim} of {run}")
        time.sleep(rng.uniform(0, 4))
        os.kill(pid, signal.SIGKILL)
        system.wait_for_run(run, seconds=180)
    finally:
        reader.end()
    full = served(system.by_hand.project, [date])[str(date)]
    assert system.rows("by_hand")[str(date)] == full, f"{run}: the table differs from the source"
    assert reader.seen[str(date)] == {full.total()}, f"{run}: a reader saw part of a day"
    return run


def find(system: System, run: str, victim: str) -> int | None:
    """Return the process id of ``victim`` while ``run`` is polling."""
    jvm = next((process for process in _processes(system) if _is_jvm(process)), None)
    if jvm is None:
        return None
    family = jvm.children(recursive=True)
    driver = next((p for p in family if any(part.endswith("job.py") for part in p.cmdline())), None)
    workers = [p for p in family if any("pyspark.daemon" in part for part in p.cmdline())]
    if driver is None or not workers:
        return None
    task = jvm.parent()
    supervisor = task.parent() if task else None
    found = {"jvm": jvm, "driver": driver, "worker": workers[-1], "task": task, "supervisor": supervisor}[victim]
    return found.pid if found else None


def _processes(system: System) -> list[psutil.Process]:
    mark = str(system.airflow.home.resolve())
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def _is_jvm(process: psutil.Process) -> bool:
    try:
        return "org.apache.spark.deploy.SparkSubmit" in process.cmdline()
    except psutil.Error:
        return False
