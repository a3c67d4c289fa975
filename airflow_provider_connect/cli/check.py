"""``airflow connect check``: everything that would stop a pipeline, found at once and without moving a row."""

from __future__ import annotations

import argparse
import datetime as dt
from typing import Any

from airflow_provider_connect import planning
from airflow_provider_connect.cli.pipelines import Pipeline, asked_for
from airflow_provider_connect.cli.reporting import FOUND, command, note, show
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.window import ONE_DAY, Day, zone


@command()
def check_command(asked: argparse.Namespace) -> int:
    """Show each step of the check with what is wrong; 1 if anything is."""
    rows = [{"task": each.name} | row for each in asked_for(asked) for row in findings(each)]
    show(rows, asked.output, "")
    return FOUND if any(row["problem"] for row in rows) else 0


def findings(pipeline: Pipeline) -> list[dict[str, Any]]:
    """Check one pipeline; each step that can be taken is taken, whatever the others have found.

    As a task does before its first day, the sink makes what is missing of its table or topic once nothing else is
    wrong. The source is asked for its columns alone.
    """
    try:
        connections = credentials.resolve_all(pipeline.source, pipeline.sink, pipeline.task._conn_id)
    except ConfigError as error:
        return [_row("options and connections", problem) for problem in str(error).splitlines()]
    rows = [_row("options and connections")]
    rows += _steps(pipeline, connections)
    return rows


def _steps(pipeline: Pipeline, connections: Connections) -> list[dict[str, Any]]:
    source, sink = pipeline.source, pipeline.sink
    day = yesterday(source.timezone)
    try:
        with closing_quietly(source.open(connections[source.conn_id]), note) as poller:
            schema = poller.schema()
        rows = [_row(f"{type(source).__name__} has {len(schema)} columns")]
    except ConnectError as error:
        return [_row(f"columns of {type(source).__name__}", str(error))]
    rows.append(_row(str(planning.plan(source, [day], connection=connections[source.conn_id]))))
    step = f"rights, columns and target of {type(sink).__name__}"
    try:
        with closing_quietly(sink.open(pipeline.key, connections), note) as publisher:
            problems = publisher.preflight(schema, [day], source.kind)
    except ConnectError as error:
        problems = [str(error)]
    return rows + ([_row(step, problem) for problem in problems] or [_row(step)])


def yesterday(name: str) -> Day:
    """Return the last day that is over in a zone."""
    return Day(date=dt.datetime.now(zone(name)).date() - ONE_DAY, zone=name)


def _row(step: str, problem: str = "") -> dict[str, Any]:
    return {"step": step, "result": "failed" if problem else "ok", "problem": problem}
