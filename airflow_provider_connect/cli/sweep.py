"""``airflow connect sweep``: what dead attempts left in a sink, listed or deleted."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from airflow_provider_connect.cli.ending import command
from airflow_provider_connect.cli.printing import note, show
from airflow_provider_connect.cli.tasks import Task, connect_tasks


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
    with pipeline.publisher() as publisher:
        found = publisher.leftovers()
    if found is None:
        note(f"{task.name}: sink {pipeline.sink.name!r} cannot list what it would delete")
    return found or []


def _swept(task: Task) -> int:
    with task.rendered(task.day(None)).publisher() as publisher:
        return publisher.sweep()
