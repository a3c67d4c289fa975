"""Reports that tasks left in XCom: of those that failed, and with all that there is no room for in a list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow_provider_connect.operators.connect import FAILED_REPORT
from airflow_provider_connect.page.asking import Airflow, path_of
from airflow_provider_connect.page.facts.reports import Report, of_summary
from airflow_provider_connect.page.facts.runs import TaskRun

_SUCCEEDED = "return_value"


class TaskAddress(NamedTuple):
    """Which task instance left something."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


async def summary_of(airflow: Airflow, run: TaskRun) -> Mapping[str, Any] | None:
    """Return the report that a run left; None if there is none, or the viewer may not read it."""
    key = FAILED_REPORT if run.standing == "failed" else _SUCCEEDED
    return await _left(airflow, TaskAddress(run.dag_id, run.run_id, run.task_id, run.map_index), key)


async def _left(airflow: Airflow, task: TaskAddress, key: str) -> Mapping[str, Any] | None:
    parts = ("dags", task.dag_id, "dagRuns", task.run_id, "taskInstances", task.task_id, "xcomEntries", key)
    answer = await airflow.may_get(path_of(*parts), {"map_index": task.map_index})
    value = (answer or {}).get("value")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


async def reports_of(airflow: Airflow, run: TaskRun) -> list[Report]:
    """Return what a run that failed told of its days."""
    at = run.at or run.run_after
    summary = await summary_of(airflow, run)
    return [] if summary is None or at is None else of_summary(summary, run.run_id, run.map_index, at)


async def with_figures(airflow: Airflow, dag_id: str, task_id: str, report: Report) -> Report:
    """Return a report with its figures, where its event had none: from what the run left in XCom."""
    if report.rows is not None:
        return report
    value = await _left(airflow, TaskAddress(dag_id, report.run_id, task_id, report.map_index), _SUCCEEDED)
    told = of_summary(value or {}, report.run_id, report.map_index, report.at)
    return next((each for each in told if each.day == report.day), report)


async def failure_message(airflow: Airflow, run: TaskRun) -> str | None:
    """Return why a run failed, in its own words."""
    failure = (await summary_of(airflow, run) or {}).get("failure")
    message = failure.get("message") if isinstance(failure, Mapping) else None
    return message if isinstance(message, str) else None
