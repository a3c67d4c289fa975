"""Reads the declared fields of tasks that have not run yet, from the DAG as Airflow has serialized it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

ReadFields = Callable[[str, str], Awaitable[Mapping[str, Any]]]
"""Function of a DAG's and a task's id. It returns the task's templated fields, or {} if there are none."""

_FIELDS = ("source", "sink")


async def read_fields_by_airflow(dag_id: str, task_id: str) -> Mapping[str, Any]:
    """Return source and sink of a task as declared, with their templates. The caller has checked the viewer's rights.

    Airflow's API does not return them before the task's first run.
    """
    return await asyncio.to_thread(_read_fields, dag_id, task_id)


def _read_fields(dag_id: str, task_id: str) -> dict[str, Any]:
    from airflow.models.serialized_dag import SerializedDagModel  # noqa: PLC0415  # only the API server has a database

    row = SerializedDagModel.get(dag_id)
    return {} if row is None or row.data is None else fields_of_task(row.data, task_id)


def fields_of_task(data: Mapping[str, Any], task_id: str) -> dict[str, Any]:
    """Return source and sink of a task in a serialized DAG. {} for a mapped task, whose arguments are texts there."""
    tasks = (task.get("__var", task) for task in data.get("dag", {}).get("tasks", ()))
    task: Mapping[str, Any] = next((task for task in tasks if task.get("task_id") == task_id), {})
    return {name: task[name] for name in _FIELDS if name in task}
