"""Finds ConnectOperator tasks among all tasks that the viewer may see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_connect.page.airflow_api import AirflowApi, quote_path
from airflow_provider_connect.page.facts.reports import parse_instant
from airflow_provider_connect.page.viewer_cache import FRESH_SECONDS, PageCache, TaskInfo, TaskName, ViewerCache

_RECHECKS = 20
_COMMON_FIELDS = {"source", "sink", "days"}
_DISTINCTIVE_FIELDS = {"staging", "options"}  # the operator's, and the decorator's


async def visible_dags(airflow: AirflowApi) -> dict[str, Mapping[str, Any]]:
    """Return the DAGs that the viewer may see, by DAG id."""
    rows = await airflow.list_rows("dags", "dags", {"exclude_stale": "true", "order_by": "dag_id"})
    return {row["dag_id"]: row for row in rows}


async def find_tasks(
    airflow: AirflowApi, page_cache: PageCache, cache: ViewerCache, dag_ids: Sequence[str]
) -> list[TaskInfo]:
    """Return the ConnectOperator tasks of DAGs."""
    checked_at = time.monotonic()
    entries = {dag_id: entry for dag_id in dag_ids if (entry := cache.tasks.get(dag_id)) is not None}
    stale_ids = [dag_id for dag_id, (at, _) in entries.items() if checked_at - at > FRESH_SECONDS]
    foreign_dags = sorted(
        (at, dag_id) for dag_id in dag_ids if (at := page_cache.dags_without_tasks.get(dag_id)) is not None
    )
    rechecked_ids = [dag_id for at, dag_id in foreign_dags if checked_at - at > FRESH_SECONDS][:_RECHECKS]
    new_ids = [dag_id for dag_id in dag_ids if dag_id not in entries and dag_id not in page_cache.dags_without_tasks]
    to_query = [*stale_ids, *rechecked_ids, *new_ids]
    for dag_id, tasks in zip(
        to_query, await asyncio.gather(*(_query_tasks(airflow, queried_id) for queried_id in to_query)), strict=True
    ):
        cache.tasks.pop(dag_id, None)
        if tasks:
            cache.tasks[dag_id] = checked_at, tasks
            page_cache.dags_without_tasks.pop(dag_id, None)
        elif tasks is not None:
            page_cache.dags_without_tasks[dag_id] = checked_at
    return [task for dag_id in dag_ids for task in cache.tasks.get(dag_id, (0.0, ()))[1]]


async def _query_tasks(airflow: AirflowApi, dag_id: str) -> list[TaskInfo] | None:
    answer = await airflow.get_if_allowed(quote_path("dags", dag_id, "tasks"))
    return None if answer is None else [_task_info(dag_id, task) for task in answer["tasks"] if is_connect_task(task)]


def is_connect_task(task: Mapping[str, Any]) -> bool:
    """Return True if the templated fields are those of ConnectOperator, a subclass, or ``@task.connect``."""
    fields = set(task.get("template_fields") or ())
    return fields >= _COMMON_FIELDS and bool(fields & _DISTINCTIVE_FIELDS)


def _task_info(dag_id: str, task: Mapping[str, Any]) -> TaskInfo:
    name = TaskName(dag_id, task["task_id"])
    operator = (task.get("class_ref") or {}).get("class_name") or ""
    return TaskInfo(name, operator, parse_instant(task.get("end_date")))
