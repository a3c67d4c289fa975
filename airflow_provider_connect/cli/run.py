"""``airflow connect run``: moves days from here, without the scheduler, under the same ledger as a task."""

from __future__ import annotations

import argparse
import datetime as dt
import socket
import uuid
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

from airflow.exceptions import AirflowException  # type: ignore[attr-defined]
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_connect.cli.pipelines import Pipeline, only_one
from airflow_provider_connect.cli.reporting import command, show
from airflow_provider_connect.errors import ConnectError, RetriableError

_SHOWN = ("day", "status", "rows_written", "duplicates", "rejected", "generation", "link")


@command(is_quiet=False)
def run_command(asked: argparse.Namespace) -> None:
    """Move days of one pipeline, and show what became of each."""
    report = moved(only_one(asked), asked.days)
    rows = [{name: day.get(name) for name in _SHOWN} for day in report["days"]]
    show(rows, asked.output, "there was no day to move")


def moved(pipeline: Pipeline, days: str) -> dict[str, Any]:
    """Run the task's own work with an intent of its own: ``cli``, this host, and an id that no other run has.

    So it is a reload of days that are published, as a clear would be. The offset is recomputed from the ledger as
    after a task.

    :raises ConnectError: what a task would have failed with.
    """
    pipeline.task.days = days
    try:
        return pipeline.task.go_on(context(pipeline))
    except TaskDeferred as waits:
        raise RetriableError(
            f"{pipeline.name}: a task would wait now, until the days are ready or the source's quota has room "
            f"({type(waits.trigger).__name__}); try again later"
        ) from None
    except AirflowException as error:
        if isinstance(error.__context__, ConnectError):  # what the operator made Airflow's error of
            raise error.__context__ from None
        raise


def context(pipeline: Pipeline) -> Any:
    """Return what the operator takes from a task's context."""
    run_id = f"cli__{socket.gethostname()}__{uuid.uuid4().hex}"
    now = dt.datetime.now(dt.UTC)
    run = SimpleNamespace(
        dag_id=pipeline.dag_id,
        run_id=run_id,
        run_type="manual",
        start_date=now,
        clear_number=0,
        data_interval_start=None,
        data_interval_end=None,
        logical_date=None,
        partition_key=None,
        conf={},
    )
    task = SimpleNamespace(
        dag_id=pipeline.dag_id,
        run_id=run_id,
        task_id=pipeline.task.task_id,
        map_index=-1,
        try_number=1,
        xcom_push=lambda key, value: None,
    )
    events: Any = defaultdict(lambda: SimpleNamespace(extra={}, add_partitions=lambda keys: None))
    return {"dag_run": run, "ti": task, "dag": pipeline.task.dag, "outlet_events": events}
