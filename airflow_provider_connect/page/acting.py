"""What the page's buttons do: what Airflow does, through Airflow's own API and with the viewer's own rights."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_connect.page.asking import RefusedError, path_of
from airflow_provider_connect.page.detail import MOST_DAYS
from airflow_provider_connect.page.facts.runs import starts_of
from airflow_provider_connect.page.facts.stream import Stream, StreamName
from airflow_provider_connect.page.finding import tasks_in
from airflow_provider_connect.page.listing import one_stream, streams_of
from airflow_provider_connect.page.places import dag_url, run_url
from airflow_provider_connect.page.viewing import Viewer
from airflow_provider_connect.window import ONE_DAY, start_of

OWN_HEADER = "x-connect"


class Clear(BaseModel):
    """Which day to load again."""

    model_config = ConfigDict(extra="forbid")

    dag_id: str
    task_id: str
    day: dt.date
    map_index: int = Field(default=-1, ge=-1)


class Backfill(BaseModel):
    """Which days of a DAG to run, both ends included, and which of those that have run."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    dag_id: str
    first: dt.date = Field(alias="from")
    last: dt.date = Field(alias="to")
    reprocess: Literal["none", "completed", "failed"] = "none"


def require_own_page(headers: Mapping[str, str]) -> None:
    """Refuse what another site's page sends through the viewer's browser, which adds their cookie.

    No page of another origin can send our header, or JSON, without asking this server first, which never agrees.

    :raises RefusedError: if this may not come from our own page.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    site = headers.get("sec-fetch-site", "same-origin")
    if headers.get(OWN_HEADER) != "1" or kind != "application/json" or site != "same-origin":
        raise RefusedError(403, f"Only the page itself may do this: send JSON with the header {OWN_HEADER}: 1")


async def clear(viewer: Viewer, order: Clear) -> dict[str, Any]:
    """Clear the task of the run that a day belongs to, so that Airflow runs it again.

    :raises RefusedError: if there is no such run, or the viewer may not.
    """
    since = start_of(order.day, "UTC") - ONE_DAY
    name = StreamName(order.dag_id, order.task_id, order.map_index)
    stream = await one_stream(viewer, name, since)
    run_id = run_of(stream, order.day)
    if run_id is None:
        raise RefusedError(409, f"No run of DAG {order.dag_id!r} is known for {order.day}: start a backfill of it")
    body = {
        "dry_run": False,
        "dag_run_id": run_id,
        "task_ids": [order.task_id if order.map_index < 0 else [order.task_id, order.map_index]],
        "only_failed": False,
        "reset_dag_runs": True,
    }
    answer = await viewer.airflow.post(path_of("dags", order.dag_id, "clearTaskInstances"), body)
    if not answer["total_entries"]:
        raise RefusedError(409, f"Run {run_id!r} has no task {order.task_id!r} to clear")
    done = f"{order.day} is cleared: Airflow runs it again"
    return {"done": done, "url": run_url(order.dag_id, run_id)}


def run_of(stream: Stream, day: dt.date) -> str | None:
    """Return the run whose own day it is: that of the newest failure, else of the newest publish."""
    for run in (*stream.failed, *stream.active):
        if run.is_for(day):
            return run.run_id
    own = [each for each in stream.reports if each.day == day and each.own]
    return max(own, key=lambda each: each.at).run_id if own else None


async def backfill(viewer: Viewer, order: Backfill) -> dict[str, Any]:
    """Start a backfill of days in the zone of the DAG's streams; before their first run, it is not known.

    :raises RefusedError: if the days are none, Airflow has one under way, or the viewer may not.
    """
    if order.first > order.last or (order.last - order.first).days >= MOST_DAYS:
        raise RefusedError(422, f"{order.first} to {order.last} are no days, or more than {MOST_DAYS}")
    dag = await viewer.airflow.get(path_of("dags", order.dag_id))
    tasks = await tasks_in(viewer.airflow, viewer.memory, viewer.own, [order.dag_id])
    streams = await streams_of(viewer, {order.dag_id: dag}, tasks)
    if not streams:
        raise RefusedError(404, f"DAG {order.dag_id!r} has no stream")
    zone = next((each.pipeline.timezone for each in streams if each.pipeline.timezone is not None), None)
    begin, end = starts_of(order.first, order.last, zone)
    body = {
        "dag_id": order.dag_id,
        "from_date": begin.isoformat(),
        "to_date": end.isoformat(),
        "reprocess_behavior": order.reprocess,
        "max_active_runs": dag.get("max_active_runs") or 1,
    }
    await viewer.airflow.post("backfills", body)
    done = f"A backfill of {order.first} to {order.last} is started"
    return {"done": done, "url": f"{dag_url(order.dag_id)}/backfills"}
