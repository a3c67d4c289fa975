"""``airflow connect plan``: cost of loading days."""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

from airflow_provider_connect.cli.answers import present_definition
from airflow_provider_connect.cli.run import days_to_move
from airflow_provider_connect.cli.tasks import DeclaredTask, RenderedTask, connect_tasks
from airflow_provider_connect.cli.terminal import command, print_note, print_rows
from airflow_provider_connect.definition import days_with_other_rows
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.planning import plan
from airflow_provider_connect.sink import Ledger, LedgerRow
from airflow_provider_connect.stage.notes import definitions_by_digest
from airflow_provider_connect.window import Day, DaySet, Settled, parse_days, reloadable_days, zone

_MEASURED_DAYS = 7


@command
def show_plan(args: Namespace) -> None:
    """Print the cost for each task or, with ``--changed``, days loaded with other options and their backfill."""
    tasks = connect_tasks(args.dag_id, args.task_id, args.bundle_name)
    if args.changed:
        rows = [line for task in tasks for line in changed_days(task, days_to_move(task, args.days))]
        print_rows(rows, args.output, empty="no published day of these was loaded with other options")
    else:
        print_rows([_plan_line(task, days_to_move(task, args.days)) for task in tasks], args.output)


def _plan_line(task: DeclaredTask, text: str) -> dict[str, Any]:
    days = parse_days(text, task.zone)
    pipeline = task.render(days[0])
    load_plan = plan(pipeline.source, days)
    fields: dict[str, Any] = {
        "task": task.name,
        "days": len(days),
        "requests": load_plan.requests,
        "quota": load_plan.quota.describe() if load_plan.quota else None,
        "hours_of_quota": round(load_plan.hours, 1) if load_plan.quota else None,
    }
    try:
        with pipeline.open_publisher() as publisher:
            return fields | _ledger_figures(pipeline, publisher.ledger, days)
    except ConnectError as error:  # the plan does not need the sink
        print_note(f"{task.name}: the duration of earlier days is unknown: {error}")
        return fields | dict.fromkeys(("published", "settled", "rows_a_day", "seconds_a_day", "hours_of_work"))


def _ledger_figures(pipeline: RenderedTask, ledger: Ledger, days: Sequence[Day]) -> dict[str, Any]:
    published_days = ledger.days()
    replaces_whole = pipeline.sink.replaces_whole(pipeline.source.kind)
    settled_days = Settled.from_published(published_days, days[0].date, replaces_whole=replaces_whole).days
    newest = sorted(published_days)[-_MEASURED_DAYS:]
    rows = [row for date in newest if (row := ledger.row(date)) is not None]
    seconds = median_seconds(rows)
    hours = None if seconds is None else len(days) * seconds / pipeline.source.parallel_days / 3600
    return {
        "published": sum(day.date in published_days for day in days),
        "settled": sum(day.date in settled_days for day in days),
        "rows_a_day": round(statistics.median(row.rows for row in rows)) if rows else None,
        "seconds_a_day": None if seconds is None else round(seconds, 1),
        "hours_of_work": None if hours is None else round(hours, 2),
    }


def median_seconds(rows: Sequence[LedgerRow]) -> float | None:
    """Return the median seconds from a day's poll to its publish, or None. Skips confirmed days."""
    durations = [
        (row.published_at - row.polled_at).total_seconds()
        for row in rows
        if row.polled_at is not None and row.published_at is not None and not row.checks
    ]
    return statistics.median(durations) if durations else None


def changed_days(task: DeclaredTask, text: str) -> Iterator[dict[str, Any]]:
    """Yield a line for each range of days with rows that the DAG's present options would change."""
    days = parse_days(text, task.zone)
    pipeline = task.render(days[0])
    connections = pipeline.resolve_connections()
    with pipeline.open_publisher(connections) as publisher:
        replaces_whole = pipeline.sink.replaces_whole(pipeline.source.kind)
        reloadable_dates = reloadable_days(publisher.ledger.days(), replaces_whole=replaces_whole)
        rows = [row for row in publisher.ledger.between(days[0].date, days[-1].date) if row.day in reloadable_dates]
        definitions = definitions_by_digest(publisher.ledger.notes())
    count = sum(row.definition is None for row in rows)
    if count:
        print_note(f"{task.name}: {count:,} published days have no definition, so their options cannot be compared")
    dates = DaySet.from_dates(days_with_other_rows(rows, definitions, present_definition(pipeline, connections)))
    for first, last in dates.ranges:
        bounds = Day(date=first, zone=task.zone), Day(date=last, zone=task.zone)
        yield {
            "task": task.name,
            "from": first,
            "to": last,
            "days": (last - first).days + 1,
            "load_again": f"airflow backfill create --dag-id {task.dag.dag_id} --from-date {_midnight(bounds[0])} "
            f"--to-date {_midnight(bounds[1])} --reprocess-behavior completed",
        }


def _midnight(day: Day) -> str:
    return day.start.astimezone(zone(day.zone)).isoformat()
