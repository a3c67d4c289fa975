"""``airflow connect ledger``: what the sink itself has of days."""

from __future__ import annotations

import argparse
from typing import Any

from airflow_provider_connect.cli.pipelines import Pipeline, asked_for
from airflow_provider_connect.cli.reporting import FOUND, command, note, show
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.sink import Connections, LedgerRow, Publisher
from airflow_provider_connect.window import Day, parse_days


@command()
def ledger_command(asked: argparse.Namespace) -> int:
    """Show the newest publish of each day; 1 if a day has none."""
    rows = [row for pipeline in asked_for(asked) for row in rows_of(pipeline, asked.days)]
    show(rows, asked.output, "the ledger has none of these days")
    return FOUND if any(row["generation"] is None for row in rows) else 0


def rows_of(pipeline: Pipeline, days: str) -> list[dict[str, Any]]:
    """Ask a pipeline's sink about days.

    :raises ConnectError: why it cannot be asked.
    """
    wanted = parse_days(days, pipeline.source.timezone)
    with closing_quietly(opened(pipeline), note) as publisher:
        ledger = publisher.ledger
        return [{"task": pipeline.name} | told(day, ledger.row(day.date)) for day in wanted]


def opened(pipeline: Pipeline) -> Publisher:
    """Open a pipeline's sink with the sink's own connections alone."""
    connections: Connections = {name: credentials.resolve(name) for name in pipeline.sink.connection_ids}
    return pipeline.sink.open(pipeline.key, connections)


def told(day: Day, row: LedgerRow | None) -> dict[str, Any]:
    """Return what a table shows of a day's newest publish."""
    return {
        "day": day.date,
        "generation": row.generation if row else None,
        "checks": row.checks if row else None,
        "rows": row.rows if row else None,
        "rejected": row.counts.get("rejected", 0) if row else None,
        "run": row.run if row else None,
        "published": row.published_at.isoformat(timespec="seconds") if row and row.published_at else None,
        "link": row.link if row else None,
    }
