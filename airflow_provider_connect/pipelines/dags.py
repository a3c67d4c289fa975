"""Builds a DAG from each pipeline file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.pipelines.pipeline import DEFAULT_TASK_ID, Pipeline, in_zone, load_pipeline
from airflow_provider_connect.pipelines.yaml_files import read_yaml


def dags_from(pattern: str) -> dict[str, DAG]:
    """Build a DAG with one task from each YAML file. Returns the DAGs by name.

    If one file is wrong, no DAG is built.

    :param pattern: such as ``pipelines/*.yaml``, relative to the calling file.
    :raises ConfigError: with every problem of all files.
    """
    folder = Path(sys._getframe(1).f_code.co_filename).parent
    if Path(pattern).is_absolute():
        raise ConfigError(f"pattern {pattern!r} must be relative to the file that calls dags_from, in {str(folder)!r}")
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise ConfigError(f"no file matches {pattern!r} in folder {str(folder)!r}")
    pipelines = [load_pipeline(read_yaml(path, str(path.relative_to(folder)))) for path in paths]
    _add_duplicate_names(pipelines)
    _refuse_problems(pipelines)
    # Only the operator can check arguments that must fit each other.
    dags = {pipeline.name: _dag(pipeline) for pipeline in pipelines}
    _refuse_problems(pipelines)
    return {name: dag for name, dag in dags.items() if dag is not None}


def _dag(pipeline: Pipeline) -> DAG | None:
    dag_options: dict[str, Any] = dict(pipeline.dag_options)
    for name in ("start_date", "end_date"):
        if dag_options.get(name) is not None:
            dag_options[name] = in_zone(dag_options[name], pipeline.zone)
    arguments: dict[str, Any] = {"task_id": DEFAULT_TASK_ID, "name": pipeline.name} | pipeline.operator_arguments
    timetable = pipeline.schedule.timetable() if pipeline.schedule is not None else None
    try:
        # Airflow registers the DAG at the end of the block.
        with DAG(pipeline.name, schedule=timetable, **dag_options) as dag:
            ConnectOperator(**arguments)
    except Exception as error:  # noqa: BLE001  # Airflow's own classes check their arguments in many ways
        text = str(error).removeprefix(f"{ConnectOperator.__name__} {arguments['task_id']!r}: ")
        pipeline.file.add_problem((), text if isinstance(error, ConfigError) else f"{type(error).__name__}: {text}")
        return None
    return dag


def _add_duplicate_names(pipelines: Sequence[Pipeline]) -> None:
    first_files: dict[str, str] = {}
    for pipeline in pipelines:
        if pipeline.name and first_files.setdefault(pipeline.name, pipeline.file.name) != pipeline.file.name:
            pipeline.file.add_problem(("name",), f"{first_files[pipeline.name]} has the same name {pipeline.name!r}")


def _refuse_problems(pipelines: Sequence[Pipeline]) -> None:
    problems = sorted(problem for pipeline in pipelines for problem in pipeline.file.problems)
    if problems:
        wrong_files = len({problem.file for problem in problems})
        verb = "is" if wrong_files == 1 else "are"
        head = f"{wrong_files} of {len(pipelines)} pipelines {verb} wrong, and none is loaded:"
        raise ConfigError("\n".join([head, *map(str, problems)]))
