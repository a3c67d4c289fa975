"""``airflow connect ledger``: what the sink's own ledger says of a day."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from airflow_provider_connect.cli.tasks import Pipeline, connect_tasks
from airflow_provider_connect.cli.terminal import PROBLEMS, command, note, show, show_one
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.window import Day


@command
def show_day(args: Namespace) -> int:
    """Print the newest publish of a day, for each task; end with :data:`.PROBLEMS` if a sink has none."""
    rows, missing = [], 0
    for task in connect_tasks(args.dag_id, args.task_id, args.bundle_name):
        day = task.day(args.day)
        pipeline = task.rendered(day)
        with pipeline.publisher() as publisher:
            found = publisher.ledger.row(day.date)
        if found is None:
            note(f"{task.name}: {pipeline.sink.target} has nothing of {day}")
            missing += 1
        else:
            rows.append(_line(pipeline, day, found))
    if len(rows) == 1:
        show_one(rows[0], args.output)
    elif rows or args.output in ("json", "yaml"):
        show(rows, args.output)
    return PROBLEMS if missing else 0


def _line(pipeline: Pipeline, day: Day, row: LedgerRow) -> dict[str, Any]:
    return {
        "task": pipeline.task.name,
        "target": pipeline.sink.target,
        "day": day,
        "generation": row.generation,
        "checks": row.checks,
        "rows": row.rows,
        "run": row.run,
        "clear_number": row.clear_number,
        "polled_at": row.polled_at,
        "published_at": row.published_at,
        "counts": dict(row.counts),
        "digest": row.digest,
        "attempt": row.attempt,
        "reference": row.reference,
        "link": row.link,
    }
