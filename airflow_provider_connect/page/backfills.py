"""Missing days of a stream, and progress of a running backfill."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable
from typing import Any

from airflow_provider_connect.page.airflow_api import quote_path
from airflow_provider_connect.page.airflow_links import dag_url
from airflow_provider_connect.page.answer_json import iso_text
from airflow_provider_connect.page.facts.backfill import missing_days
from airflow_provider_connect.page.facts.reports import parse_instant
from airflow_provider_connect.page.facts.runs import nearest_day
from airflow_provider_connect.page.facts.stream import Stream
from airflow_provider_connect.page.viewer import Viewer
from airflow_provider_connect.window import zone

MIN_ENDED_RUNS = 3


def estimate_end(
    started_at: dt.datetime,
    run_ends: Iterable[dt.datetime],
    ended_count: int,
    open_count: int,
    current_time: dt.datetime,
) -> dt.datetime | None:
    """Estimate a backfill's end from the pace of its newest runs, None before three have ended."""
    ends = sorted(end for end in run_ends if started_at <= end <= current_time)
    if len(ends) < MIN_ENDED_RUNS or open_count <= 0:
        return None
    # The pace counts up to now, not to the last end, so a hanging backfill becomes slower and slower.
    is_complete = ended_count <= len(ends)
    since, count = (started_at, len(ends)) if is_complete else (ends[0], len(ends) - 1)
    return current_time + (current_time - since) / count * open_count


_ENDED_STATES = ["success", "failed"]
_OPEN_STATES = ["queued", "running"]


async def backfill_json(viewer: Viewer, stream: Stream) -> dict[str, Any] | None:
    """Return the running backfill of a stream's DAG, if the viewer may read one."""
    dag_id = stream.dag["dag_id"]
    backfill = await load_running_backfill(viewer, dag_id)
    if backfill is None:
        return None
    started_at, first, last = (parse_instant(backfill[name]) for name in ("created_at", "from_date", "to_date"))
    if started_at is None or first is None or last is None:
        return None
    runs = quote_path("dags", dag_id, "dagRuns")
    query = {
        "run_type": "backfill",
        "logical_date_gte": first.isoformat(),
        "logical_date_lte": last.isoformat(),
    }
    ended_runs, open_runs = await asyncio.gather(
        viewer.airflow.get_if_allowed(
            runs,
            query
            | {"state": _ENDED_STATES, "start_date_gte": started_at.isoformat(), "order_by": "-end_date", "limit": 100},
        ),
        viewer.airflow.get_if_allowed(runs, query | {"state": _OPEN_STATES, "limit": 1}),
    )
    if ended_runs is None or open_runs is None:
        return None
    ended_count, open_count = ended_runs["total_entries"], open_runs["total_entries"]
    ends = [end for run in ended_runs["dag_runs"] if (end := parse_instant(run["end_date"])) is not None]
    estimate = (
        None if backfill["is_paused"] else estimate_end(started_at, ends, ended_count, open_count, viewer.requested_at)
    )
    return {
        "id": backfill["id"],
        "from": iso_text(_day(first, stream.connectors.timezone)),
        "to": iso_text(_day(last, stream.connectors.timezone)),
        "done": ended_count,
        "total": ended_count + open_count,
        "estimated_end": iso_text(estimate),
        "url": f"{dag_url(dag_id)}/backfills",
    }


async def load_running_backfill(viewer: Viewer, dag_id: str) -> Any:
    """Return Airflow's row of a DAG's running backfill, if the viewer may read one."""
    newest = await viewer.airflow.list_rows_if_allowed(
        "backfills", "backfills", {"dag_id": dag_id, "order_by": "-id"}, max_rows=1
    )
    return newest[0] if newest and newest[0]["completed_at"] is None else None


async def load_start(viewer: Viewer, dag_id: str) -> dt.datetime | None:
    """Return the start date of a DAG, else the earliest of its tasks, or None."""
    details = await viewer.airflow.get_if_allowed(quote_path("dags", dag_id, "details"))
    starts_at = parse_instant((details or {}).get("start_date"))
    if starts_at is not None:
        return starts_at
    answer = await viewer.airflow.get_if_allowed(quote_path("dags", dag_id, "tasks"))
    starts = (parse_instant(task.get("start_date")) for task in (answer or {}).get("tasks", ()))
    return min((start for start in starts if start is not None), default=None)


async def missing_json(viewer: Viewer, stream: Stream) -> list[dict[str, Any]]:
    """Return the ranges of a stream's missing days, oldest first."""
    if not stream.missing_days.ranges:
        return []
    days = missing_days(stream, await load_start(viewer, stream.dag["dag_id"]))
    return [
        {"from": iso_text(first), "to": iso_text(last), "days": (last - first).days + 1} for first, last in days.ranges
    ]


def _day(moment: dt.datetime, zone_name: str | None) -> dt.date:
    if zone_name is None:
        return nearest_day(moment)
    return moment.astimezone(zone(zone_name)).date()
