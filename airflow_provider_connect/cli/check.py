"""``airflow connect check``: checks a pipeline, and creates nothing in the sink."""

from __future__ import annotations

import datetime as dt
import secrets
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from airflow_provider_connect.capabilities.poller import ReadBySpark
from airflow_provider_connect.capabilities.publisher import InspectsTarget
from airflow_provider_connect.capabilities.source import Inspects, ListsStreams, require_lister
from airflow_provider_connect.cli.check_functions import describe_function_days, function_tasks
from airflow_provider_connect.cli.check_schedule import describe_next_days
from airflow_provider_connect.cli.check_spark import describe_spark
from airflow_provider_connect.cli.dag_files import read_dag_files
from airflow_provider_connect.cli.preview import first_rows
from airflow_provider_connect.cli.tasks import (
    DeclaredTask,
    RenderedTask,
    choose_tasks,
    open_source,
    parse_day,
    require_dag,
    source_of_arguments,
    tasks_of_dag,
)
from airflow_provider_connect.cli.terminal import EXIT_PROBLEMS, command, print_note, print_rows
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, Failure, RetriableError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.polling.findings import Level, passed
from airflow_provider_connect.polling.quota.limits import QuotaClaim
from airflow_provider_connect.polling.quota.turns import Turns
from airflow_provider_connect.registry import column_names, quota_of, requests_for
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.source import ListedStream, Source
from airflow_provider_connect.stage.transform import parse_transform, transform_problem
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_Result = TypeVar("_Result")
FINE, NOTE, PROBLEM, TRY_LATER, UNKNOWN = "ok", "note", "problem", "try later", "not checked"
STATES: dict[Level, str] = {"ok": FINE, "note": NOTE, "problem": PROBLEM, "later": TRY_LATER, "unknown": UNKNOWN}

_STATES_ON_TOP = {PROBLEM: 0, TRY_LATER: 1}


Depth = Literal["offline", "login", "poll"]
"""``offline``: nothing leaves this machine. ``login``: also asks source and sink. ``poll``: also polls the first rows.
"""


@command
def check(args: Namespace) -> int:
    """Print a line for each check."""
    depth = _depth(args)
    if args.all:
        lines = _check_all(args, depth)
    elif (source := source_of_arguments(args)) is not None:
        report = CheckReport(f"{source.name}/{source.stream_key}")
        check_source(source, args.day, report, depth)
        lines = report.lines
    else:
        lines = _check_dag(require_dag(args.dag_id, args.bundle_name), args, depth)
    states = {line["state"] for line in lines}
    lines.sort(key=lambda line: _STATES_ON_TOP.get(line["state"], len(_STATES_ON_TOP)))
    tasks = {line["task"] for line in lines}
    if args.output == "table" and len(tasks) == 1:
        print_note(f"{tasks.pop()}:")
        lines = [{name: value for name, value in line.items() if name != "task"} for line in lines]
    print_rows(lines, args.output)
    if PROBLEM in states:
        return EXIT_PROBLEMS
    return RetriableError.exit_code if TRY_LATER in states else 0


def _depth(args: Namespace) -> Depth:
    if args.offline and args.poll:
        raise ConfigError("--offline and --poll exclude each other")
    return "offline" if args.offline else "poll" if args.poll else "login"


def _check_all(args: Namespace, depth: Depth) -> list[dict[str, Any]]:
    if args.dag_id is not None or args.source is not None:
        raise ConfigError("--all checks every DAG. Leave out the DAG and --source")
    files = read_dag_files(args.bundle_name or ())
    lines = []
    for file, error in sorted(files.import_errors.items()):
        report = CheckReport(file)
        report.add("import", PROBLEM, error)
        lines += report.lines
    for _, dag in sorted(files.dags.items()):
        lines += _check_tasks(list(tasks_of_dag(dag).values()), args.day, depth)
        lines += _check_functions(dag, function_tasks(dag))
    return lines


def _check_dag(dag: Any, args: Namespace, depth: Depth) -> list[dict[str, Any]]:
    functions = [task_id for task_id in function_tasks(dag) if args.task_id in (None, task_id)]
    if functions and (args.task_id is not None or not tasks_of_dag(dag)):
        return _check_functions(dag, functions)
    return _check_tasks(choose_tasks(dag, args.task_id), args.day, depth) + _check_functions(dag, functions)


def _check_functions(dag: Any, task_ids: Sequence[str]) -> list[dict[str, Any]]:
    lines = []
    for task_id in task_ids:
        report = CheckReport(f"{dag.dag_id}.{task_id}")
        report.add("source, sink", UNKNOWN, "@task.connect: only a run calls the function that returns them")
        problem = describe_function_days(dag, task_id)
        report.add("days", UNKNOWN if problem is None else NOTE, problem or "only a run knows its days")
        lines += report.lines
    return lines


def _check_tasks(tasks: Sequence[DeclaredTask], day: str | None, depth: Depth) -> list[dict[str, Any]]:
    lines = []
    for task in tasks:
        report = CheckReport(task.name)
        report.run_step("options", partial(check_task, task, day, report, depth))
        lines += report.lines
    return lines


@dataclass
class CheckReport:
    """Lines about the checks of one task."""

    task: str
    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, subject: str, state: str, text: str) -> None:
        """Add a line about one check, unless an earlier check found the same problem."""
        is_known = state == PROBLEM and any((line["state"], line["found"]) == (state, text) for line in self.lines)
        if not is_known:
            self.lines.append({"task": self.task, "what": subject, "state": state, "found": text})

    def run_step(self, subject: str, step: Callable[[], _Result]) -> _Result | None:
        """Return the result of a step. Turns its error into lines and returns None."""
        try:
            return step()
        except RetriableError as error:
            self.add(subject, TRY_LATER, str(error))
        except ConnectError as error:
            for text in str(error).splitlines():
                self.add(subject, PROBLEM, text)
        except Exception as error:  # noqa: BLE001  # a foreign error's text may contain a secret
            self.add(subject, PROBLEM, Failure.from_error(error).message)
        return None


def check_task(task: DeclaredTask, text: str | None, report: CheckReport, depth: Depth = "login") -> None:
    """Check a task step by step, until the next step needs a failed one's result."""
    day = report.run_step("options", lambda: task.parse_day(text))
    render = task.render_whole if task.stream is None else task.render
    pipeline = None if day is None else report.run_step("options", lambda: render(day))
    if day is None or pipeline is None:
        return
    report.add("options", FINE, f"{pipeline.source.name}/{pipeline.source.stream_key} into {pipeline.sink.target}")
    report.run_step("days", lambda: _check_days(task, report))
    connections = report.run_step("connections", pipeline.resolve_connections)
    if connections is None:
        return
    report.add("connections", FINE, ", ".join([*connections, task.require_operator()._conn_id]))
    if depth == "offline":
        report.add("source, sink, spark", UNKNOWN, "--offline: none of them was asked")
        return
    report.run_step("spark", lambda: report.add("spark", FINE, describe_spark(task.require_operator())))
    if pipeline.source.capability(ListsStreams) is None:
        _check_stream(pipeline, connections, day, report, depth)
    else:
        report.run_step("source", lambda: _check_streams(pipeline, connections, day, report, depth))


def _check_streams(
    pipeline: RenderedTask, connections: Connections, day: Day, report: CheckReport, depth: Depth
) -> None:
    """Check each stream of a task that has many. Checks without a problem are counted, not listed."""
    lister = require_lister(pipeline.source)
    listing = lister.list_streams(connections[pipeline.source.conn_id])
    for title, problem in listing.problems.items():
        report.add(title, PROBLEM, problem)
    fine_count = 0
    for stream in listing.streams:
        stream_report = CheckReport(report.task)
        pipeline_of_stream = stream_report.run_step("options", partial(_pipeline_of, pipeline, stream))
        if pipeline_of_stream is not None:
            _check_stream(pipeline_of_stream, connections, day, stream_report, depth)
        findings = [line for line in stream_report.lines if line["state"] not in (FINE, UNKNOWN)]
        for line in findings:
            report.add(f"{stream.title}: {line['what']}", line["state"], line["found"])
        fine_count += not findings
    report.add("streams", FINE, f"{fine_count} of {len(listing.streams)} have no problem")


def _pipeline_of(pipeline: RenderedTask, stream: ListedStream) -> RenderedTask:
    """Return source and sink of one stream of a task that has many."""
    source = require_lister(pipeline.source).stream_source(stream.choices[0])
    return replace(pipeline, source=source, sink=pipeline.sink.for_stream(stream.names))


def _check_stream(
    pipeline: RenderedTask, connections: Connections, day: Day, report: CheckReport, depth: Depth
) -> None:
    schema = _check_source_columns(pipeline.source, connections[pipeline.source.conn_id], day, report)
    if schema is not None:
        schema = _check_shapes(pipeline, connections, schema, report)
    if (transform := pipeline.transform) is not None:
        report.run_step("transform", lambda: _check_transform(transform, report))
    report.run_step("sink", lambda: _check_sink(pipeline, connections, schema, day, report))
    report.run_step("quota", lambda: _check_quota(pipeline.source, connections[pipeline.source.conn_id], day, report))
    if depth == "poll":
        report.run_step("poll", lambda: _check_poll(pipeline.source, pipeline.chain, connections, day, report))


def _check_days(task: DeclaredTask, report: CheckReport) -> None:
    text = describe_next_days(task, dt.datetime.now(dt.UTC))
    if text is None:
        report.add("days", UNKNOWN, "only a run knows its days")
    else:
        report.add("days", FINE, text)


def _check_poll(source: Source, chain: Chain, connections: Connections, day: Day, report: CheckReport) -> None:
    rows = first_rows(source, chain, connections, day, max_rows=1)
    report.add("poll", FINE if rows else NOTE, f"{day}: a row was polled" if rows else f"{day}: the source has no row")


def check_source(source: Source, text: str | None, report: CheckReport, depth: Depth = "login") -> None:
    """Check a source that no task uses: connection, preflight, columns, quota, and with ``poll`` a row."""
    day = report.run_step("options", lambda: parse_day(text, source.timezone))
    connection = report.run_step("connections", lambda: credentials.resolve_source(source))
    if day is None or connection is None:
        return
    report.add("connections", FINE, source.conn_id)
    if depth == "offline":
        report.add("source", UNKNOWN, "--offline: it was not asked")
        return
    _check_source_columns(source, connection, day, report)
    report.run_step("quota", lambda: _check_quota(source, connection, day, report))
    if depth == "poll":
        connections = {source.conn_id: connection}
        report.run_step("poll", lambda: _check_poll(source, Chain.of(()), connections, day, report))


def _check_source_columns(source: Source, connection: Connection, day: Day, report: CheckReport) -> pa.Schema | None:
    if not _passes_preflight(source, connection, day, report) and column_names(source) is None:
        return None  # reading its schema would fail like the preflight
    return report.run_step("source", lambda: _read_schema(source, connection, report))


def _passes_preflight(source: Source, connection: Connection, day: Day, report: CheckReport) -> bool:
    inspects = source.capability(Inspects)
    if inspects is None:
        report.add(
            "source: preflight", UNKNOWN, f"source {source.name!r} has no preflight. 'airflow connect preview' tests it"
        )
        return True
    findings = report.run_step("source: preflight", lambda: inspects.inspect(connection, day, VariableStore()))
    for finding in findings or ():
        remedy = f". Remedy: {finding.todo}" if finding.todo else ""
        report.add(f"source: {finding.subject}", STATES[finding.level], f"{finding.result}{remedy}")
    return findings is not None and passed(findings)


def _read_schema(source: Source, connection: Connection, report: CheckReport) -> pa.Schema | None:
    with open_source(source, connection) as poller:
        if isinstance(poller, ReadBySpark):
            report.add("source", UNKNOWN, "its columns are known after Spark has read it in a run")
            return None
        schema = poller.schema()
    report.add("source", FINE, f"{len(schema)} columns")
    return schema


def _check_shapes(
    pipeline: RenderedTask, connections: Connections, schema: pa.Schema, report: CheckReport
) -> pa.Schema | None:
    if not pipeline.chain:
        return schema

    def shaped() -> pa.Schema:
        Shaping.of(pipeline.chain, connections).bind(schema)
        return pipeline.chain.result_schema(schema)

    shaped_schema = report.run_step("shapes", shaped)
    if shaped_schema is not None:
        report.add("shapes", FINE, f"{len(pipeline.chain.shapes)} shapes, {len(shaped_schema)} columns after them")
    return shaped_schema


def _fitted(pipeline: RenderedTask, schema: pa.Schema) -> pa.Schema:
    """Return the columns after the sink's own shapes, as in a job."""
    if pipeline.transform is not None:
        return schema
    return Chain.of(pipeline.sink.shapes_for(schema)).result_schema(schema)


def _check_transform(transform: str, report: CheckReport) -> None:
    if (problem := transform_problem(transform)) is not None:
        raise ConfigError(f"transform: {problem}")
    report.add("transform", UNKNOWN, f"{parse_transform(transform)} can be sent to Spark. A run starts by testing it")


def _check_sink(
    pipeline: RenderedTask, connections: Connections, schema: pa.Schema | None, day: Day, report: CheckReport
) -> None:
    with pipeline.open_publisher(connections) as publisher:
        if pipeline.transform is not None:
            report.add("sink", UNKNOWN, "the columns of the transform's result are known after Spark has tested it")
        elif schema is None:
            report.add("sink", UNKNOWN, "the columns of its rows are unknown")
        else:
            problems: list[str] = []
            if not isinstance(publisher, InspectsTarget):
                report.add("sink", UNKNOWN, f"sink {pipeline.sink.name!r} can check this only while it loads a day")
            elif not (problems := publisher.inspect(_fitted(pipeline, schema), [day], pipeline.source.kind)):
                report.add("sink", FINE, f"{pipeline.sink.target} accepts these columns")
            for problem in problems:
                report.add("sink", PROBLEM, problem)
        published_days = publisher.ledger.days()
        report.add(
            "ledger",
            FINE,
            f"{len(published_days):,} days are published" + (f", {day} too" if day.date in published_days else ""),
        )


def _check_quota(source: Source, connection: Connection, day: Day, report: CheckReport) -> None:
    quota = quota_of(source, connection)
    if quota is None:
        report.add("quota", FINE, "the source has none")
        return
    requests = requests_for(source, [day])
    cost = f"a day takes at least {requests:,} of {quota.describe()}"
    if requests > quota.requests:
        report.add("quota", PROBLEM, f"{cost}, so it can never be loaded")
        return
    want = QuotaClaim(asker=secrets.token_hex(8), requests=requests, least=requests)
    room = Turns(VariableStore(), quota).has_room(want)
    report.add("quota", FINE, f"{cost}. The quota has {'room' if room else 'no room now, so a task would wait'}")
