"""``airflow connect run``: loads days without the scheduler, into the same ledger as a task."""

from __future__ import annotations

import datetime as dt
import os
import socket
import uuid
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import AirflowException, TaskDeferred

from airflow_provider_connect.cli.run_log import RunLog, print_run
from airflow_provider_connect.cli.tasks import DeclaredTask, whole_task
from airflow_provider_connect.cli.terminal import command, print_note, print_rows
from airflow_provider_connect.errors import ConnectError, RetriableError

_COLUMNS = ("day", "status", "rows_written", "duplicates", "rejected", "generation", "link")
_PROCESS_VARIABLE = "_AIRFLOW_PROCESS_CONTEXT"
"""Environment variable that makes Airflow's SDK read connections from the database."""


def _run_days(args: Namespace) -> None:
    task = whole_task(args.dag_id, args.task_id, args.bundle_name)
    days, log = days_to_move(task, args.days), RunLog()
    if not args.verbose:
        print_run(task.require_operator(), log)
    with log.signs_of_life():
        report = move_days(task, days)
    print_rows(list(_report_lines(report)), args.output)


run_days = command(_run_days, changes=True)


def _report_lines(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a line for each day. With many streams, it begins with the stream's name."""
    if "streams" not in report:
        yield from ({name: day.get(name) for name in _COLUMNS} for day in report["days"])
    for stream, stream_report in report.get("streams", {}).items():
        yield from ({"stream": stream, **line} for line in _report_lines(stream_report))


def days_to_move(task: DeclaredTask, days: str | None) -> str:
    """Return the command's ``--days``, else the task's ``days=``, else yesterday in the source's zone.

    :raises ConfigError: only a run can render the task's ``days=``.
    """
    declared = task.require_operator().days
    if days is None:
        return task.render_days() or str(task.parse_day(None))
    if declared:
        print_note(f"{task.name}: --days {days} takes precedence over the task's days={declared!r}")
    return days


def move_days(task: DeclaredTask, days: str) -> dict[str, Any]:
    """Do a task's work in this process and return its short report.

    The run's name, ``cli__<host>__<unique id>``, gives it its own intent. Templates are rendered for the first day.

    :raises ConnectError: the task failed or would have been deferred.
    """
    first = task.parse_day(days.partition("..")[0])
    operator = task.require_operator()
    pipeline = task.render(first) if task.stream is not None else task.render_whole(first)
    operator.declared_options = task.declared_options
    operator.source, operator.sink, operator.days = pipeline.source, pipeline.sink, days
    operator.shape, operator.staging = pipeline.chain.shapes, pipeline.staging
    operator.transform = pipeline.transform
    try:
        with database_connections():
            return operator.go_on(_context(task))
    except TaskDeferred as deferral:
        raise RetriableError(
            f"task {task.name} would be deferred now until the days are ready or the source's quota has room "
            f"({type(deferral.trigger).__name__})"
        ) from None
    except AirflowException as error:
        if isinstance(error.__context__, ConnectError):  # the operator converted it to Airflow's error
            raise error.__context__ from None
        raise


@contextmanager
def database_connections() -> Iterator[None]:
    """Let Airflow's Spark hook find connections that only the database has."""
    old_value = os.environ.get(_PROCESS_VARIABLE)
    os.environ[_PROCESS_VARIABLE] = "server"
    try:
        yield
    finally:
        if old_value is None:
            del os.environ[_PROCESS_VARIABLE]
        else:
            os.environ[_PROCESS_VARIABLE] = old_value


def _context(task: DeclaredTask) -> Any:
    run_id = f"cli__{socket.gethostname()}__{uuid.uuid4().hex}"
    run = SimpleNamespace(
        dag_id=task.dag.dag_id,
        run_id=run_id,
        run_type="manual",
        start_date=dt.datetime.now(dt.UTC),
        clear_number=0,
        data_interval_start=None,
        data_interval_end=None,
        logical_date=None,
        partition_key=None,
        conf={},
    )
    instance = SimpleNamespace(
        dag_id=task.dag.dag_id,
        run_id=run_id,
        task_id=task.task_id,
        map_index=-1,
        try_number=1,
        xcom_push=lambda key, value: None,
    )
    event = SimpleNamespace(
        key=None, extra={}, add_partitions=lambda keys: None, add=lambda asset, extra: None
    )  # emitted nowhere
    events: Any = defaultdict(lambda: event)
    return {"dag_run": run, "ti": instance, "dag": task.dag, "outlet_events": events}
