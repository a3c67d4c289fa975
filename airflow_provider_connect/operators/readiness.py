"""Defers a task until its days are ready, and leaves the moment where the page finds it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, NoReturn

from airflow_provider_connect.errors import Failure

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

READY_KEY = "ready_at"
"""XCom key of a waiting task: ``{"ready_at": "2026-11-20T10:00:00+00:00"}``. Airflow's API hides a trigger's moment."""


def defer_until(ready_at: dt.datetime, task: BaseOperator, context: Context) -> NoReturn:
    """Defer the task until its days may be polled. Airflow then calls its ``go_on``.

    :raises TaskDeferred: always.
    """
    from airflow.providers.standard.triggers.temporal import DateTimeTrigger  # noqa: PLC0415
    from airflow.sdk.exceptions import TaskDeferred  # noqa: PLC0415

    if task.do_xcom_push:
        try:
            context["ti"].xcom_push(READY_KEY, {READY_KEY: ready_at.isoformat()})
        except Exception as error:  # noqa: BLE001  # the wait does not depend on it
            task.log.warning("Writing the moment into XCom failed: %s", Failure.from_error(error).message)
    raise TaskDeferred(trigger=DateTimeTrigger(ready_at), method_name="go_on")
