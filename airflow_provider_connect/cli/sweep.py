"""``airflow connect sweep``: what dead attempts left in a sink and in its stage, listed or deleted."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from airflow_provider_connect.capabilities.publisher import Sweeps
from airflow_provider_connect.cli.tasks import Pipeline, Task, connect_tasks
from airflow_provider_connect.cli.terminal import command, note, show
from airflow_provider_connect.operators.erase import stage_of
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import SILENT, left_behind, polled_root
from airflow_provider_connect.stage.temporary import sweep as sweep_stage


@partial(command, changes=True)
def sweep(args: Namespace) -> None:
    """Print what would be deleted, or how many files were."""
    tasks = connect_tasks(args.dag_id, args.task_id, args.bundle_name)
    if args.dry_run:
        show([{"task": task.name, "left_over": name} for task in tasks for name in _listed(task)], args.output)
    else:
        show([{"task": task.name, "deleted": _swept(task)} for task in tasks], args.output)


def _listed(task: Task) -> list[str]:
    pipeline = task.rendered(task.day(None))
    connections = pipeline.sink_connections()
    with pipeline.publisher(connections) as publisher:
        in_sink = publisher.leftovers() if isinstance(publisher, Sweeps) else []
    folders = _folders(pipeline, connections)
    staged = {folder.url: left_behind(folder, folder.now() - SILENT) for folder in folders}
    names = [f"{url}/{name}" for url, attempts in staged.items() for names in attempts.values() for name in names]
    return [*in_sink, *names]


def _swept(task: Task) -> int:
    pipeline = task.rendered(task.day(None))
    connections = pipeline.sink_connections()
    with pipeline.publisher(connections) as publisher:
        deleted = publisher.sweep() if isinstance(publisher, Sweeps) else 0
    return deleted + sum(sweep_stage(folder, folder.now() - SILENT) for folder in _folders(pipeline, connections))


def _folders(pipeline: Pipeline, connections: Connections) -> list[Folder]:
    """Return the folders outside the sink in which attempts leave files."""
    own, stage = pipeline.sink.stage_root(connections), _stage(pipeline, connections)
    root = stage if own is None else Folder(own)
    if root is None:
        return []
    polled = [polled_root(root)] if polled_root(root).files() else []
    return [*([] if stage is None else [stage]), *polled]


def _stage(pipeline: Pipeline, connections: Connections) -> Folder | None:
    if pipeline.staging is None and pipeline.sink.stage_root(connections) is None:
        note(f"{pipeline.task.name}: no staging= is set, so days wait on the worker. Only this machine was searched")
    return stage_of(pipeline.sink, pipeline.key, pipeline.staging, connections)
