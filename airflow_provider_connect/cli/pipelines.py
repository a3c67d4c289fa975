"""Finds the ConnectOperator tasks of a DAG."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow.exceptions import AirflowException  # type: ignore[attr-defined]
from airflow.utils.cli import get_bagged_dag

from airflow_provider_connect.config import nearest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sink import Sink, StreamKey
from airflow_provider_connect.source import Source


@dataclass(frozen=True)
class Pipeline:
    """One task: from a source into a sink."""

    dag_id: str
    task: ConnectOperator

    @property
    def source(self) -> Source:
        """Where its rows come from."""
        return self.task.source

    @property
    def sink(self) -> Sink:
        """Where they go."""
        return self.task.sink

    @property
    def name(self) -> str:
        """``dag_id/task_id``."""
        return f"{self.dag_id}/{self.task.task_id}"

    @property
    def key(self) -> StreamKey:
        """The stream, as ledgers know it."""
        return StreamKey(connector=self.source.name, stream=self.source.stream_key)


def asked_for(asked: argparse.Namespace) -> list[Pipeline]:
    """Return the pipelines that a command's arguments name.

    :raises ConfigError: there is no such DAG or task, or only a run could tell what its options are.
    """
    return pipelines(asked.dag_id, asked.task_id, asked.bundle_name)


def only_one(asked: argparse.Namespace) -> Pipeline:
    """Return the one pipeline that a command's arguments name.

    :raises ConfigError: they name several, or as :func:`asked_for`.
    """
    chosen = asked_for(asked)
    if len(chosen) > 1:
        tasks = ", ".join(repr(each.task.task_id) for each in chosen)
        raise ConfigError(f"DAG {asked.dag_id!r} has several ConnectOperator tasks: name one of {tasks}")
    return chosen[0]


def pipelines(dag_id: str, task_id: str | None = None, bundles: Sequence[str] | None = None) -> list[Pipeline]:
    """Return the pipelines of a DAG, or one of them; see :func:`asked_for`."""
    try:
        dag = get_bagged_dag(list(bundles) if bundles else None, dag_id)
    except AirflowException:
        raise ConfigError(
            f"there is no DAG {dag_id!r}: 'airflow dags list' knows all, and 'airflow dags list-import-errors' whose "
            "file is broken"
        ) from None
    return _of(dag, task_id)


def _of(dag: Any, task_id: str | None) -> list[Pipeline]:
    tasks = {task.task_id: task for task in dag.tasks if _is_ours(task)}
    if not tasks:
        raise ConfigError(f"DAG {dag.dag_id!r} has no ConnectOperator task")
    if task_id is not None and task_id not in tasks:
        raise ConfigError(f"DAG {dag.dag_id!r} has no ConnectOperator task {task_id!r}; {nearest(task_id, tasks)}")
    chosen = list(tasks.values()) if task_id is None else [tasks[task_id]]
    problems = [problem for task in chosen if (problem := _unknown(task))]
    if problems:
        raise ConfigError("\n".join(problems))
    return [Pipeline(dag.dag_id, task) for task in chosen]


def _is_ours(task: Any) -> bool:
    made = getattr(task, "operator_class", None) or type(task)
    return isinstance(made, type) and issubclass(made, ConnectOperator)


def _unknown(task: Any) -> str | None:
    """Say why a task's options are not known before it runs; None if they are."""
    if not isinstance(task, ConnectOperator):
        return f"task {task.task_id!r} is mapped: only its run knows what it loads. Name another task"
    templates = [f"{side}.{name}" for side in ("source", "sink") for name in sorted(getattr(task, side).templates)]
    if templates:
        return f"task {task.task_id!r}: {', '.join(templates)} hold templates, which only its run can render"
    return None
