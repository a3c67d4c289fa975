"""A task's messages to Airflow: its short report in XCom, the events of its asset, and its deferral."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import Asset
from airflow.sdk.definitions.asset import AssetUniqueKey
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_connect.errors import Failure
from airflow_provider_connect.operators.streams.report import TaskReport

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import Logger, OutletEventAccessorProtocol

    from airflow_provider_connect.job import JobReport
    from airflow_provider_connect.operators.arguments import AssetEvents

FAILED_REPORT_KEY = "report"
"""XCom key of a failed task's report."""
_NOT_WRITTEN = ("unchanged", "superseded", "overtaken")


def push_failed_report(context: Context, summary: Callable[[], dict[str, Any]], log: Logger) -> None:
    """Write a failed task's report into XCom. An error is only logged, since it must not hide the task's."""
    try:
        context["ti"].xcom_push(FAILED_REPORT_KEY, summary())
    except Exception as error:  # noqa: BLE001
        log.warning("Writing the report into XCom failed: %s", Failure.from_error(error).message)


def emit_event(event: OutletEventAccessorProtocol, asset_events: AssetEvents, report: JobReport | TaskReport) -> None:
    """Emit the event of a task's asset, or one for each day. Through an alias, emit one for each stream's asset."""
    if isinstance(report, TaskReport):
        if isinstance(event.key, AssetUniqueKey):
            event.extra.update(report.summary())
            return
        for outcome in report.outcomes:
            if outcome.sink is not None:
                event.add(Asset(uri=outcome.sink.asset_uri), extra=outcome.summary())
    elif asset_events == "task":
        event.extra.update(report.summary())
    else:
        event.extra.update(report.totals())
        event.add_partitions([str(day.day) for day in report.days if day.status not in _NOT_WRITTEN])


def defer_until(time: dt.datetime) -> NoReturn:
    """Defer the task. Airflow then calls its ``go_on``.

    :raises TaskDeferred: always.
    """
    from airflow.providers.standard.triggers.temporal import DateTimeTrigger  # noqa: PLC0415

    raise TaskDeferred(trigger=DateTimeTrigger(time), method_name="go_on")
