"""Intent of a task instance, which retries keep and a clear changes.

Only ``dag_run.clear_number`` changes with each clear, and with nothing else. It restarts at 0 when a run is deleted and
created again, unlike ``dag_run.start_date`` (both measured on Airflow 3.3.2).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import secrets
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sink import Intent

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol, RuntimeTaskInstanceProtocol

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def intent_of(run: DagRunProtocol, task: RuntimeTaskInstanceProtocol) -> Intent:
    """Return the intent of a task instance.

    :raises RetriableError: Airflow has not set the run's start date yet.
    """
    if run.start_date is None:
        raise RetriableError(f"run {run.run_id!r} has no start date yet")
    started_us = (run.start_date - _EPOCH) // dt.timedelta(microseconds=1)
    clears = run.clear_number or 0
    index = -1 if task.map_index is None else task.map_index
    parts = [run.dag_id, run.run_id, task.task_id, index, started_us, clears]
    label = f"{run.dag_id}/{run.run_id}/{task.task_id}" + (f"[{index}]" if index >= 0 else "")
    return Intent(token=hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32], run=label, clear_number=clears)


def new_attempt(intent: Intent) -> str:
    """Return a unique name for one try. It starts with the intent's token."""
    return f"{intent.token[:16]}-{secrets.token_hex(4)}"
