"""``airflow connect sweep``: lists or deletes the leftovers of dead attempts."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from airflow_provider_connect.capabilities.publisher import Sweeps
from airflow_provider_connect.cli.tasks import DeclaredTask, RenderedTask, connect_tasks
from airflow_provider_connect.cli.terminal import command, print_note, print_rows
from airflow_provider_connect.operators.erase import outer_stage
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import DEAD_AFTER, files_of_dead_attempts, polled_root, sweep_stage


@partial(command, changes=True)
def sweep(args: Namespace) -> None:
    """Delete the leftovers and print the number of files. With ``--dry-run``, only print the leftovers."""
    tasks = connect_tasks(args.dag_id, args.task_id, args.bundle_name)
    if args.dry_run:
        leftovers = [{"task": task.name, "left_over": name} for task in tasks for name in _list_leftovers(task)]
        print_rows(leftovers, args.output, empty="no leftovers of dead attempts")
    else:
        print_rows([{"task": task.name, "deleted": _delete_leftovers(task)} for task in tasks], args.output)


def _list_leftovers(task: DeclaredTask) -> list[str]:
    pipeline = task.render(task.parse_day(None))
    connections = pipeline.resolve_sink_connections()
    with pipeline.open_publisher(connections) as publisher:
        sink_leftovers = publisher.leftovers() if isinstance(publisher, Sweeps) else []
    folders = _outer_folders(pipeline, connections)
    stages = {folder.url: files_of_dead_attempts(folder, folder.storage_time() - DEAD_AFTER) for folder in folders}
    names = [f"{url}/{name}" for url, attempts in stages.items() for names in attempts.values() for name in names]
    return [*sink_leftovers, *names]


def _delete_leftovers(task: DeclaredTask) -> int:
    pipeline = task.render(task.parse_day(None))
    connections = pipeline.resolve_sink_connections()
    with pipeline.open_publisher(connections) as publisher:
        deleted_count = publisher.sweep() if isinstance(publisher, Sweeps) else 0
    return deleted_count + sum(
        sweep_stage(folder, folder.storage_time() - DEAD_AFTER) for folder in _outer_folders(pipeline, connections)
    )


def _outer_folders(pipeline: RenderedTask, connections: Connections) -> list[Folder]:
    sink_stage, stage = pipeline.sink.stage_root(connections), _operator_stage(pipeline, connections)
    root = stage if sink_stage is None else Folder(sink_stage)
    if root is None:
        return []
    stages = [polled_root(root)] if polled_root(root).files() else []
    return [*([] if stage is None else [stage]), *stages]


def _operator_stage(pipeline: RenderedTask, connections: Connections) -> Folder | None:
    if pipeline.staging is None and pipeline.sink.stage_root(connections) is None:
        print_note(
            f"{pipeline.task.name}: no staging= is set, so days wait on the worker. Only this machine was searched"
        )
    return outer_stage(pipeline.sink, pipeline.key, pipeline.staging, connections)
