"""Runs that share a quota too small for all of them, watched until they have ended.

A reservation is good for a quarter of the vendor's hour, and a busy machine takes half a minute to start Spark. So this
hour has five minutes, which pass beside all other tests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from tests.standins.mixpanel.access import Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn
from tests.system.conftest import System, connection_of

DAG = "rationed"
LIMIT, HOUR_SECONDS = 2, 300.0
RUNS = {"run-1": "2026-09-01", "window": "2026-09-02..2026-09-03"}
PATIENCE_SECONDS = 3 * HOUR_SECONDS
_LOOK_SECONDS = 2.0


@dataclass(frozen=True)
class Rationed:
    """The runs.

    :param states: which states their tasks were seen in, once all have succeeded or one has failed.
    """

    standin: StandIn
    states: Future[set[str]]


@contextmanager
def rationed_runs(system: System) -> Iterator[Rationed]:
    """Trigger them, and watch them from another thread."""
    limits = Limits(queries_per_hour=LIMIT, hour_seconds=HOUR_SECONDS)
    with StandIn(Project(seed=11, events_per_day=200), limits=limits) as standin, ThreadPoolExecutor(1) as pool:
        ours = {"export": {"requests": LIMIT, "seconds": HOUR_SECONDS}}
        system.airflow.api("POST", "connections", json=connection_of(standin, DAG, limits=ours))
        system.airflow.wait_for_dag(DAG)
        system.airflow.api("PATCH", f"dags/{DAG}?update_mask=is_paused", json={"is_paused": False})
        for run_id, days in RUNS.items():
            system.trigger(days, run_id, DAG)
        enough = threading.Event()
        try:
            yield Rationed(standin, pool.submit(_watch, system, enough))
        finally:
            enough.set()


def _watch(system: System, enough: threading.Event) -> set[str]:
    waiting: set[str] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and not enough.is_set():
        tasks = system.airflow.api("GET", f"dags/{DAG}/dagRuns/~/taskInstances")["task_instances"]
        states = {str(task["state"]) for task in tasks}
        waiting |= states
        if "failed" in states or states == {"success"}:
            break
        enough.wait(_LOOK_SECONDS)
    return waiting
