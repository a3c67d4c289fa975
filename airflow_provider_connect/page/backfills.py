"""A backfill that is under way: how far it is, and when it may end."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable
from typing import Any

from airflow_provider_connect.page.asking import path_of
from airflow_provider_connect.page.facts.reports import instant
from airflow_provider_connect.page.facts.runs import nearest_day
from airflow_provider_connect.page.facts.stream import Stream
from airflow_provider_connect.page.places import dag_url
from airflow_provider_connect.page.telling import text
from airflow_provider_connect.page.viewing import Viewer
from airflow_provider_connect.window import zone

LEAST_ENDS = 3


def estimated_end(
    began: dt.datetime, newest_ends: Iterable[dt.datetime], done: int, left: int, now: dt.datetime
) -> dt.datetime | None:
    """Return when the last run will end if the rest go on as the newest did; None if fewer than three have ended.

    :param began: when the backfill was started.
    :param newest_ends: when its runs ended, in any order; of many the newest alone.
    :param done: how many runs have ended.
    :param left: how many have not.
    """
    known = sorted(end for end in newest_ends if began <= end <= now)
    if len(known) < LEAST_ENDS or left <= 0:
        return None
    # The pace counts up to now, and not to the last end: that of a backfill that hangs becomes slower and slower.
    is_all = done <= len(known)
    since, count = (began, len(known)) if is_all else (known[0], len(known) - 1)
    return now + (now - since) / count * left


_ENDED = ["success", "failed"]
_OPEN = ["queued", "running"]


async def backfill_json(viewer: Viewer, stream: Stream) -> dict[str, Any] | None:
    """Return the backfill of a stream's DAG that has not ended; None if there is none, or the viewer may not know."""
    dag_id = stream.dag["dag_id"]
    newest = await viewer.airflow.may_rows("backfills", "backfills", {"dag_id": dag_id, "order_by": "-id"}, most=1)
    if not newest or newest[0]["completed_at"] is not None:
        return None
    backfill = newest[0]
    began, first, last = (instant(backfill[name]) for name in ("created_at", "from_date", "to_date"))
    if began is None or first is None or last is None:
        return None
    runs = path_of("dags", dag_id, "dagRuns")
    span = {
        "run_type": "backfill",
        "logical_date_gte": first.isoformat(),
        "logical_date_lte": last.isoformat(),
    }
    ended, waiting = await asyncio.gather(
        viewer.airflow.may_get(
            runs,
            span | {"state": _ENDED, "start_date_gte": began.isoformat(), "order_by": "-end_date", "limit": 100},
        ),
        viewer.airflow.may_get(runs, span | {"state": _OPEN, "limit": 1}),
    )
    if ended is None or waiting is None:
        return None
    done, left = ended["total_entries"], waiting["total_entries"]
    ends = [end for run in ended["dag_runs"] if (end := instant(run["end_date"])) is not None]
    estimate = None if backfill["is_paused"] else estimated_end(began, ends, done, left, viewer.now)
    return {
        "id": backfill["id"],
        "from": text(_day(first, stream.pipeline.timezone)),
        "to": text(_day(last, stream.pipeline.timezone)),
        "done": done,
        "total": done + left,
        "estimated_end": text(estimate),
        "url": f"{dag_url(dag_id)}/backfills",
    }


def _day(moment: dt.datetime, zone_name: str | None) -> dt.date:
    if zone_name is None:
        return nearest_day(moment)
    return moment.astimezone(zone(zone_name)).date()
