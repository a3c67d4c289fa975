"""``airflow connect plan``: what days would cost, before they are asked for."""

from __future__ import annotations

import argparse
from typing import Any

from airflow_provider_connect import planning
from airflow_provider_connect.cli.ledger import opened
from airflow_provider_connect.cli.pipelines import Pipeline, asked_for
from airflow_provider_connect.cli.reporting import command, note, show
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.window import ONE_DAY, Day, parse_days

_OVER_DAYS = 30
"""The rows of so many days before the plan's are its measure."""


@command()
def plan_command(asked: argparse.Namespace) -> None:
    """Show what days cost: requests, hours, and about how many rows."""
    show([row_of(pipeline, asked.days) for pipeline in asked_for(asked)], asked.output, "")


def row_of(pipeline: Pipeline, days: str) -> dict[str, Any]:
    """Return what a table shows of a pipeline's plan; its quota in words goes to the person alone."""
    wanted = parse_days(days, pipeline.source.timezone)
    made = planning.plan(pipeline.source, wanted)
    note(f"{pipeline.name}: {made}")
    mean = mean_rows(pipeline, wanted)
    return {
        "task": pipeline.name,
        "days": made.days,
        "requests": made.requests,
        "hours_by_quota": round(made.hours, 1) if made.quota else None,
        "rows_a_day": None if mean is None else round(mean),
        "rows": None if mean is None else round(mean * made.days),
    }


def mean_rows(pipeline: Pipeline, wanted: list[Day]) -> float | None:
    """Return the mean of the rows of the newest published days; None if there are none yet."""
    with closing_quietly(opened(pipeline), note) as publisher:
        ledger = publisher.ledger
        ranges = ledger.days().ranges
        if not ranges:
            return None
        last = ranges[-1][1]
        rows = [row.rows for row in ledger.between(last - ONE_DAY * (_OVER_DAYS - 1), last)]
        return sum(rows) / len(rows) if rows else None
