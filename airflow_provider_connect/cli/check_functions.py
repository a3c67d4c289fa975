"""Checks the ``@task.connect`` tasks of a DAG."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_provider_connect.decorators.connect import ConnectDecoratedOperator
from airflow_provider_connect.operators.schedule import describe_missing_interval


def function_tasks(dag: Any) -> list[str]:
    """Return the ids of a DAG's ``@task.connect`` tasks."""
    return [task.task_id for task in dag.tasks if _is_function_task(task)]


def describe_function_days(dag: Any, task_id: str) -> str | None:
    """Describe why the runs of the task's DAG name no day, None if they do."""
    task = dag.get_task(task_id)
    options = task.partial_kwargs if isinstance(task, MappedOperator) else task.options
    problem = None if options.get("days") else describe_missing_interval(dag)
    if problem is None:
        return None
    return (
        f"schedule of DAG {dag.dag_id!r}: {problem}. Set schedule=daily(…) with the source's zone from "
        "airflow_provider_connect.timetables, or let the function return days="
    )


def _is_function_task(task: Any) -> bool:
    kind = task.operator_class if isinstance(task, MappedOperator) else type(task)
    return isinstance(kind, type) and issubclass(kind, ConnectDecoratedOperator)
