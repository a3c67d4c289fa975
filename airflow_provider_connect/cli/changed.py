"""``airflow connect plan --changed``: days that were loaded with other options, and the backfill for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_connect.cli.accept import present_definition
from airflow_provider_connect.cli.printing import note
from airflow_provider_connect.cli.tasks import Task
from airflow_provider_connect.definition import days_loaded_otherwise
from airflow_provider_connect.stage.notes import definitions_in
from airflow_provider_connect.window import Day, DaySet, parse_days, reloadable_days, zone


def changed_days(task: Task, text: str) -> Iterator[dict[str, Any]]:
    """Yield a line for each range of days that were loaded with options other than the DAG's present ones."""
    days = parse_days(text, task.zone)
    pipeline = task.rendered(days[0])
    connections = pipeline.connections()
    with pipeline.publisher(connections) as publisher:
        replaces_whole = pipeline.sink.replaces_whole(pipeline.source.kind)
        reloadable = reloadable_days(publisher.ledger.days(), replaces_whole=replaces_whole)
        rows = [row for row in publisher.ledger.between(days[0].date, days[-1].date) if row.day in reloadable]
        definitions = definitions_in(publisher.ledger.notes())
    unknown = sum(row.definition is None for row in rows)
    if unknown:
        note(f"{task.name}: {unknown:,} published days have no definition, so their options cannot be compared")
    changed = DaySet.of(days_loaded_otherwise(rows, definitions, present_definition(pipeline, connections)))
    for first, last in changed.ranges:
        ends = Day(date=first, zone=task.zone), Day(date=last, zone=task.zone)
        yield {
            "task": task.name,
            "from": first,
            "to": last,
            "days": (last - first).days + 1,
            "load_again": f"airflow backfill create --dag-id {task.dag.dag_id} --from-date {_midnight(ends[0])} "
            f"--to-date {_midnight(ends[1])} --reprocess-behavior completed",
        }


def _midnight(day: Day) -> str:
    return day.start.astimezone(zone(day.zone)).isoformat()
