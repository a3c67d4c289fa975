"""The DAG and days of a backfill, and the runs that Airflow would make for them."""

from __future__ import annotations

import asyncio
import datetime as dt
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_connect.page.airflow_api import RefusedError, quote_path
from airflow_provider_connect.page.backfills import load_start
from airflow_provider_connect.page.facts.backfill import PlannedRun, days_per_run, first_day, zone_name_of
from airflow_provider_connect.page.facts.runs import first_and_last_start
from airflow_provider_connect.page.facts.stream import Stream
from airflow_provider_connect.page.stream_detail import MAX_DAYS
from airflow_provider_connect.page.stream_list import load_streams
from airflow_provider_connect.page.task_discovery import find_tasks
from airflow_provider_connect.page.viewer import Viewer
from airflow_provider_connect.window import zone


class BackfillRequest(BaseModel):
    """Days of a DAG to run, both ends included."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    dag_id: str
    first: dt.date = Field(alias="from")
    last: dt.date = Field(alias="to")
    reprocess: Literal["none", "completed", "failed"] = "none"
    before_start: Literal["refuse", "run"] = "refuse"

    def require_range(self) -> None:
        """Raise RefusedError if the range is empty or too long."""
        if self.first > self.last:
            raise RefusedError(422, f"{self.first} is after {self.last}. Choose a first day that is not after the last")
        if (self.last - self.first).days >= MAX_DAYS:
            raise RefusedError(422, f"{self.first} to {self.last} are more than {MAX_DAYS} days. Choose fewer days")


@dataclass(frozen=True)
class BackfillTarget:
    """The DAG of a backfill with its streams."""

    dag: Mapping[str, Any]
    streams: Sequence[Stream]
    starts_at: dt.datetime | None

    @property
    def zone_name(self) -> str | None:
        """Zone of the streams' days. None before the first run."""
        return zone_name_of(self.streams)

    @property
    def first_day(self) -> dt.date | None:
        """First day that begins at the DAG's start or later. None if the start is unknown."""
        return None if self.starts_at is None else first_day(self.starts_at, self.zone_name)

    def body(self, request: BackfillRequest) -> dict[str, Any]:
        """Return the body of Airflow's request for a backfill or its dry run."""
        first_start, last_start = first_and_last_start(request.first, request.last, self.zone_name)
        return {
            "dag_id": request.dag_id,
            "from_date": first_start.isoformat(),
            "to_date": last_start.isoformat(),
            "reprocess_behavior": request.reprocess,
            "max_active_runs": self.dag.get("max_active_runs") or 1,
        }

    def command(self, request: BackfillRequest) -> str:
        """Return the command that starts the backfill."""
        body = self.body(request)
        local = zone(self.zone_name or "UTC")
        first, last = (dt.datetime.fromisoformat(body[name]).astimezone(local) for name in ("from_date", "to_date"))
        return (
            f"airflow backfill create --dag-id {shlex.quote(request.dag_id)} --from-date {first.isoformat()} "
            f"--to-date {last.isoformat()} --reprocess-behavior {request.reprocess} "
            f"--max-active-runs {body['max_active_runs']}"
        )


async def load_target(viewer: Viewer, dag_id: str) -> BackfillTarget:
    """Load the DAG of a backfill.

    :raises RefusedError: the DAG is hidden or has no stream.
    """
    tasks = await find_tasks(viewer.airflow, viewer.page_cache, viewer.cache, [dag_id])
    dag, starts_at = await asyncio.gather(viewer.airflow.get(quote_path("dags", dag_id)), load_start(viewer, dag_id))
    streams = await load_streams(viewer, {dag_id: dag}, tasks)
    if not streams:
        raise RefusedError(404, f"DAG {dag_id!r} has no stream")
    return BackfillTarget(dag, streams, starts_at)


async def plan_backfill(viewer: Viewer, target: BackfillTarget, request: BackfillRequest) -> list[PlannedRun]:
    """Return the runs that Airflow would make, from its dry run.

    :raises RefusedError: the backfill is refused, or has no run.
    """
    answer = await viewer.airflow.post("backfills/dry_run", target.body(request))
    length = days_per_run(target.dag, target.zone_name)
    planned = (PlannedRun.from_dry_run(row, target.zone_name, length) for row in answer["backfills"])
    runs = [run for run in planned if run is not None]
    if not runs:
        remedy = "Choose other days" if request.reprocess == "completed" else "Choose other days, or ended runs too"
        raise RefusedError(
            409,
            f"No run is left from {request.first} to {request.last}: each day has a run that is not chosen, or has "
            f"not ended. {remedy}",
        )
    return runs


def runs_before_start(target: BackfillTarget, runs: Sequence[PlannedRun]) -> int:
    """Return the number of runs before the DAG's start."""
    return sum(target.starts_at is not None and run.starts_at < target.starts_at for run in runs)
