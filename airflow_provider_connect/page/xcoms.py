"""Reports that tasks left in XCom: of those that failed, and with all that there is no room for in a list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.operators.connect import FAILED_REPORT
from airflow_provider_connect.page.asking import Airflow, path_of
from airflow_provider_connect.page.runs import TaskRun

_SUCCEEDED = "return_value"


async def summary_of(airflow: Airflow, run: TaskRun) -> Mapping[str, Any] | None:
    """Return the report that a run left; None if there is none, or the viewer may not read it."""
    key = FAILED_REPORT if run.standing == "failed" else _SUCCEEDED
    parts = ("dags", run.dag_id, "dagRuns", run.run_id, "taskInstances", run.task_id, "xcomEntries", key)
    answer = await airflow.may_get(path_of(*parts), {"map_index": run.map_index})
    value = (answer or {}).get("value")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


async def failure_message(airflow: Airflow, run: TaskRun) -> str | None:
    """Return why a run failed, in its own words."""
    failure = (await summary_of(airflow, run) or {}).get("failure")
    message = failure.get("message") if isinstance(failure, Mapping) else None
    return message if isinstance(message, str) else None
