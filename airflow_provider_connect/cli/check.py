"""``airflow connect check``: everything that can be known of a pipeline before a row is moved, in one report.

It makes nothing in the sink: where only making something would tell, the report says that it was not looked at.
"""

from __future__ import annotations

import secrets
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_connect.capabilities.poller import ReadBySpark
from airflow_provider_connect.capabilities.publisher import InspectsTarget
from airflow_provider_connect.capabilities.source import Inspects
from airflow_provider_connect.cli.tasks import Pipeline, Task, connect_tasks, day_of, lone_source, opened
from airflow_provider_connect.cli.terminal import PROBLEMS, command, show
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, Failure, RetriableError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.polling.findings import Level, passed
from airflow_provider_connect.polling.quota.limits import Want
from airflow_provider_connect.polling.quota.turns import Turns
from airflow_provider_connect.registry import column_names, quota_of, requests_for
from airflow_provider_connect.shapes.chain import Shaping
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.source import Source
from airflow_provider_connect.stage.transform import of_text
from airflow_provider_connect.stage.transform import problem as transform_problem
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_Found = TypeVar("_Found")
FINE, NOTE, PROBLEM, AWAY, UNKNOWN = "ok", "note", "problem", "try later", "not checked"
STATES: dict[Level, str] = {"ok": FINE, "note": NOTE, "problem": PROBLEM, "later": AWAY, "unknown": UNKNOWN}


@command
def check(args: Namespace) -> int:
    """Print a line for each thing that was looked at, and end as the worst of them says."""
    source, found = lone_source(args), []
    if source is not None:
        report = Report(f"{source.name}/{source.stream_key}")
        look_at_source(source, args.day, report)
        found = report.lines
    else:
        for task in connect_tasks(args.dag_id, args.task_id, args.bundle_name):
            report = Report(task.name)
            look(task, args.day, report)
            found += report.lines
    show(found, args.output)
    states = {line["state"] for line in found}
    if PROBLEM in states:
        return PROBLEMS
    return RetriableError.exit_code if AWAY in states else 0


@dataclass
class Report:
    """What was found of one task."""

    task: str
    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, what: str, state: str, text: str) -> None:
        """Add a line."""
        self.lines.append({"task": self.task, "what": what, "state": state, "found": text})

    def of(self, what: str, step: Callable[[], _Found]) -> _Found | None:
        """Return what a step returns; None, with a line for each problem, if it raises one."""
        try:
            return step()
        except RetriableError as error:
            self.add(what, AWAY, str(error))
        except ConnectError as error:
            for text in str(error).splitlines():
                self.add(what, PROBLEM, text)
        except Exception as error:  # noqa: BLE001  # a foreign error's text may hold a secret
            self.add(what, PROBLEM, Failure.of(error).message)
        return None


def look(task: Task, text: str | None, report: Report) -> None:
    """Look at one task, as far as one step lets the next one look."""
    day = report.of("options", lambda: task.day(text))
    pipeline = None if day is None else report.of("options", lambda: task.rendered(day))
    if day is None or pipeline is None:
        return
    report.add("options", FINE, f"{pipeline.source.name}/{pipeline.source.stream_key} into {pipeline.sink.target}")
    connections = report.of("connections", pipeline.connections)
    if connections is None:
        return
    report.add("connections", FINE, ", ".join([*connections, task.declared()._conn_id]))
    schema = _source(pipeline.source, connections[pipeline.source.conn_id], day, report)
    if schema is not None:
        schema = _shaped(pipeline, connections, schema, report)
    if (transform := pipeline.transform) is not None:
        report.of("transform", lambda: _transform(transform, report))
    report.of("sink", lambda: _sink(pipeline, connections, schema, day, report))
    report.of("quota", lambda: _quota(pipeline.source, connections[pipeline.source.conn_id], day, report))


def look_at_source(source: Source, text: str | None, report: Report) -> None:
    """Look at a source that no task has."""
    day = report.of("options", lambda: day_of(text, source.timezone))
    connection = report.of("connections", lambda: credentials.resolve_source(source))
    if day is None or connection is None:
        return
    report.add("connections", FINE, source.conn_id)
    _source(source, connection, day, report)
    report.of("quota", lambda: _quota(source, connection, day, report))


def _source(source: Source, connection: Connection, day: Day, report: Report) -> pa.Schema | None:
    """Return the columns of the source; None if it does not tell them."""
    if not _inspected(source, connection, day, report) and column_names(source) is None:
        return None  # its schema would fail as its preflight did
    return report.of("source", lambda: _schema(source, connection, report))


def _inspected(source: Source, connection: Connection, day: Day, report: Report) -> bool:
    """Return whether the source's preflight found nothing that stands in the way of a run."""
    inspects = source.capability(Inspects)
    if inspects is None:
        report.add("source: preflight", UNKNOWN, f"source {source.name!r} has no preflight; a preview tries it")
        return True
    findings = report.of("source: preflight", lambda: inspects.inspect(connection, day, VariableStore()))
    for finding in findings or ():
        remedy = f". To do: {finding.todo}" if finding.todo else ""
        report.add(f"source: {finding.about}", STATES[finding.level], f"{finding.found}{remedy}")
    return findings is not None and passed(findings)


def _schema(source: Source, connection: Connection, report: Report) -> pa.Schema | None:
    with opened(source, connection) as poller:
        if isinstance(poller, ReadBySpark):
            report.add("source", UNKNOWN, "its columns are known once Spark reads it, in a run")
            return None
        schema = poller.schema()
    report.add("source", FINE, f"{len(schema)} columns")
    return schema


def _shaped(pipeline: Pipeline, connections: Connections, schema: pa.Schema, report: Report) -> pa.Schema | None:
    """Return the columns behind the shapes; None if they do not fit the source's, or lack something."""
    if not pipeline.chain:
        return schema

    def shaped() -> pa.Schema:
        Shaping.of(pipeline.chain, connections).bind(schema)
        return pipeline.chain.schema(schema)

    after = report.of("shapes", shaped)
    if after is not None:
        report.add("shapes", FINE, f"{len(pipeline.chain.shapes)} shapes, {len(after)} columns behind them")
    return after


def _transform(transform: str, report: Report) -> None:
    if (problem := transform_problem(transform)) is not None:
        raise ConfigError(f"transform: {problem}")
    report.add("transform", UNKNOWN, f"{of_text(transform)} can be sent to Spark, which tries it first thing in a run")


def _sink(pipeline: Pipeline, connections: Connections, schema: pa.Schema | None, day: Day, report: Report) -> None:
    with pipeline.publisher(connections) as publisher:
        if pipeline.transform is not None:
            report.add("sink", UNKNOWN, "the columns of the transform's result are known once Spark has tried it")
        elif schema is None:
            report.add("sink", UNKNOWN, "the columns that it would get are not known")
        else:
            problems: list[str] = []
            if not isinstance(publisher, InspectsTarget):
                report.add("sink", UNKNOWN, f"sink {pipeline.sink.name!r} cannot tell before the first day is loaded")
            elif not (problems := publisher.inspect(schema, [day], pipeline.source.kind)):
                report.add("sink", FINE, f"{pipeline.sink.target} takes these columns")
            for problem in problems:
                report.add("sink", PROBLEM, problem)
        done = publisher.ledger.days()
        report.add("ledger", FINE, f"{len(done):,} days are published" + (f", {day} too" if day.date in done else ""))


def _quota(source: Source, connection: Connection, day: Day, report: Report) -> None:
    quota = quota_of(source, connection)
    if quota is None:
        report.add("quota", FINE, "the source has none")
        return
    needed = requests_for(source, [day])
    told = f"a day takes at least {needed:,} of {quota.describe()}"
    if needed > quota.requests:
        report.add("quota", PROBLEM, f"{told}: it can never be loaded")
        return
    want = Want(asker=secrets.token_hex(8), requests=needed, least=needed)
    room = Turns(VariableStore(), quota).has_room(want)
    report.add("quota", FINE, f"{told}; there is {'room' if room else 'no room now, so a task would wait'}")
