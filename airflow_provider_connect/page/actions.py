"""Actions behind the page's buttons, with the viewer's rights."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_connect.page.airflow_api import RefusedError, quote_path
from airflow_provider_connect.page.airflow_links import dag_url, run_url
from airflow_provider_connect.page.backfill_target import (
    BackfillRequest,
    load_target,
    plan_backfill,
    runs_before_start,
)
from airflow_provider_connect.page.facts.stream import Stream, StreamName
from airflow_provider_connect.page.stream_list import load_stream
from airflow_provider_connect.page.viewer import Viewer
from airflow_provider_connect.window import ONE_DAY, start_of

PAGE_HEADER = "x-connect"


class ClearRequest(BaseModel):
    """Day of a task to load again."""

    model_config = ConfigDict(extra="forbid")

    dag_id: str
    task_id: str
    day: dt.date
    map_index: int = Field(default=-1, ge=-1)


def require_own_page(headers: Mapping[str, str]) -> None:
    """Refuse a request that another site's page sends with the viewer's cookie."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    site = headers.get("sec-fetch-site", "same-origin")
    if headers.get(PAGE_HEADER) != "1" or kind != "application/json" or site != "same-origin":
        raise RefusedError(403, f"Only the page itself may send this. Use JSON with the header {PAGE_HEADER}: 1")


async def clear_day(viewer: Viewer, request: ClearRequest) -> dict[str, Any]:
    """Clear the task in the day's own run, so that Airflow runs it again.

    :raises RefusedError: no such run, or no right.
    """
    since = start_of(request.day, "UTC") - ONE_DAY
    name = StreamName(request.dag_id, request.task_id, request.map_index)
    stream = await load_stream(viewer, name, since)
    run_id = run_to_clear(stream, request.day)
    if run_id is None:
        raise RefusedError(
            409, f"DAG {request.dag_id!r} has no known run for {request.day}. Start a backfill of this day"
        )
    body = {
        "dry_run": False,
        "dag_run_id": run_id,
        "task_ids": [request.task_id if request.map_index < 0 else [request.task_id, request.map_index]],
        "only_failed": False,
        "reset_dag_runs": True,
    }
    answer = await viewer.airflow.post(quote_path("dags", request.dag_id, "clearTaskInstances"), body)
    if not answer["total_entries"]:
        raise RefusedError(409, f"Run {run_id!r} has no task {request.task_id!r} to clear")
    sentence = f"{request.day} is cleared. Airflow runs it again"
    return {"done": sentence, "url": run_url(request.dag_id, run_id)}


def run_to_clear(stream: Stream, day: dt.date) -> str | None:
    """Return the id of a day's newest failed or active run, else of its newest report's run."""
    for run in (*stream.failed_runs, *stream.active_runs):
        if run.covers(day):
            return run.run_id
    own_reports = [report for report in stream.reports if report.day == day and report.is_own_day]
    return max(own_reports, key=lambda report: report.reported_at).run_id if own_reports else None


async def start_backfill(viewer: Viewer, request: BackfillRequest) -> dict[str, Any]:
    """Start a backfill of days in the streams' zone.

    :raises RefusedError: an empty or too long range, no run to make, or Airflow refuses.
    """
    request.require_range()
    target = await load_target(viewer, request.dag_id)
    runs = await plan_backfill(viewer, target, request)
    early_runs = runs_before_start(target, runs)
    if early_runs and request.before_start == "refuse":
        raise RefusedError(
            409,
            f"{early_runs:,} of {len(runs):,} runs are before the DAG's start. Begin on {target.first_day}, or send "
            '"before_start": "run" to run them too',
        )
    await viewer.airflow.post("backfills", target.body(request))
    sentence = f"A backfill of {request.first} to {request.last} is started"
    return {"done": sentence, "url": f"{dag_url(request.dag_id)}/backfills"}
