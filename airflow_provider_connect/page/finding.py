"""Finds the tasks that are ours among all that the viewer may see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_connect.page.asking import Airflow, path_of
from airflow_provider_connect.page.facts.reports import instant
from airflow_provider_connect.page.memory import FRESH_SECONDS, Memory, Remembered, TaskKind, TaskName

_RECHECKS = 20
_OURS = {"source", "sink", "days"}
_EITHER = {"staging", "options"}  # of the operator, and of the decorator


async def dags_of(airflow: Airflow) -> dict[str, Mapping[str, Any]]:
    """Return the DAGs that the viewer may see, by their ids."""
    rows = await airflow.rows("dags", "dags", {"exclude_stale": "true", "order_by": "dag_id"})
    return {row["dag_id"]: row for row in rows}


async def tasks_in(airflow: Airflow, memory: Memory, own: Remembered, dag_ids: Sequence[str]) -> list[TaskKind]:
    """Return the tasks of ours in DAGs.

    Airflow tells for one DAG at a time. Of those that had none, some are asked again each time, so that a thousand DAGs
    of others do not make this slow.
    """
    now = time.monotonic()
    known = {dag_id: found for dag_id in dag_ids if (found := own.tasks.get(dag_id)) is not None}
    stale = [dag_id for dag_id, (at, _) in known.items() if now - at > FRESH_SECONDS]
    strangers = sorted((at, dag_id) for dag_id in dag_ids if (at := memory.without.get(dag_id)) is not None)
    again = [dag_id for at, dag_id in strangers if now - at > FRESH_SECONDS][:_RECHECKS]
    fresh = [dag_id for dag_id in dag_ids if dag_id not in known and dag_id not in memory.without]
    asked = [*stale, *again, *fresh]
    for dag_id, tasks in zip(asked, await asyncio.gather(*(_ask(airflow, each) for each in asked)), strict=True):
        own.tasks.pop(dag_id, None)
        if tasks:
            own.tasks[dag_id] = now, tasks
            memory.without.pop(dag_id, None)
        elif tasks is not None:
            memory.without[dag_id] = now
    return [task for dag_id in dag_ids for task in own.tasks.get(dag_id, (0.0, ()))[1]]


async def _ask(airflow: Airflow, dag_id: str) -> list[TaskKind] | None:
    """Return a DAG's tasks of ours; None if the viewer may not see them, or the DAG is gone."""
    answer = await airflow.may_get(path_of("dags", dag_id, "tasks"))
    return None if answer is None else [_kind(dag_id, task) for task in answer["tasks"] if is_ours(task)]


def is_ours(task: Mapping[str, Any]) -> bool:
    """Tell whether a task is a ConnectOperator, a class made of it, or ``@task.connect``: by its templated fields."""
    fields = set(task.get("template_fields") or ())
    return fields >= _OURS and bool(fields & _EITHER)


def _kind(dag_id: str, task: Mapping[str, Any]) -> TaskKind:
    name = TaskName(dag_id, task["task_id"])
    operator = (task.get("class_ref") or {}).get("class_name") or ""
    return TaskKind(name, operator, instant(task.get("end_date")))
