"""Preview of a backfill: Airflow's dry run, and requests and time of its runs."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from airflow_provider_connect.capabilities.source import HasQuota
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.page.airflow_api import RefusedError, quote_path
from airflow_provider_connect.page.answer_json import iso_text
from airflow_provider_connect.page.backfill_target import (
    BackfillRequest,
    BackfillTarget,
    load_target,
    plan_backfill,
    runs_before_start,
)
from airflow_provider_connect.page.backfills import load_running_backfill
from airflow_provider_connect.page.facts.backfill import (
    BackfillCost,
    PlannedRun,
    RequestCost,
    count_text,
    missing_days,
    seconds_per_run,
)
from airflow_provider_connect.page.facts.quota import public_connection
from airflow_provider_connect.page.viewer import Viewer
from airflow_provider_connect.planning import LoadPlan, plan_runs
from airflow_provider_connect.registry import requests_for
from airflow_provider_connect.source import Source
from airflow_provider_connect.window import Day, DaySet

_MEASURED_INSTANCES = 100
_RIGHTS = (401, 403)


async def preview_backfill(viewer: Viewer, request: BackfillRequest) -> dict[str, Any]:
    """Return cost and obstacles of a backfill. Starts nothing.

    :raises RefusedError: an empty or too long range, or no right.
    """
    request.require_range()
    target = await load_target(viewer, request.dag_id)
    answer = {
        "as_of": viewer.requested_at.isoformat(),
        "command": target.command(request),
        "first_day": iso_text(target.first_day),
    }
    try:
        runs = await plan_backfill(viewer, target, request)
    except RefusedError as error:
        if error.status in _RIGHTS:
            raise
        return answer | _cost_json(None, 0, [], error.message)
    requests, instances, running = await asyncio.gather(
        _load_request_cost(viewer, target, runs),
        _load_ended_instances(viewer, request.dag_id),
        load_running_backfill(viewer, request.dag_id),
    )
    cost = BackfillCost(
        runs, requests, seconds_per_run(instances), max_active_runs=target.dag.get("max_active_runs") or 1
    )
    problem = running and (
        f"DAG {request.dag_id!r} has a running backfill, and Airflow runs one at a time. Wait until it ends, or cancel "
        "it in Airflow"
    )
    return answer | _cost_json(cost, runs_before_start(target, runs), _notes(target, request, cost), problem or None)


def _cost_json(cost: BackfillCost | None, before_start: int, notes: list[str], problem: str | None) -> dict[str, Any]:
    return {
        "runs": cost and len(cost.runs),
        "requests": cost and cost.requests.requests,
        "seconds": cost and cost.seconds,
        "max_active_runs": cost and cost.max_active_runs,
        "before_start": before_start,
        "text": "" if cost is None else str(cost),
        "notes": notes,
        "problem": problem,
    }


def _notes(target: BackfillTarget, request: BackfillRequest, cost: BackfillCost) -> list[str]:
    notes = list(cost.requests.unknown)
    if cost.seconds_per_run is None:
        notes.append("The time of a run is unknown: no run has succeeded yet")
    if target.dag.get("is_paused"):
        notes.append("The DAG is paused. Its runs begin when you unpause it")
    return [*notes, *_note_repeated(target, cost.runs), *_note_left_out(target, request, cost.runs)]


def _note_repeated(target: BackfillTarget, runs: Sequence[PlannedRun]) -> list[str]:
    repeated_count = sum(_is_done(target, run) for run in runs)
    verb = "loads" if repeated_count == 1 else "load"
    return [f"{count_text(repeated_count, 'run')} of these {verb} days that are done"] if repeated_count else []


def _note_left_out(target: BackfillTarget, request: BackfillRequest, runs: Sequence[PlannedRun]) -> list[str]:
    run_days = DaySet.from_dates(day for run in runs for day in DaySet(ranges=(run.days,)))
    days = [day for day in _missing_days(target) if request.first <= day <= request.last and day not in run_days]
    if not days:
        return []
    subject = "1 missing day already has a run" if len(days) == 1 else f"{len(days):,} missing days already have runs"
    verb = "is" if len(days) == 1 else "are"
    return [
        f"{subject} and {verb} left out: {_ranges_text(DaySet.from_dates(days))}. Choose 'All days, including loaded "
        "ones', or clear the runs"
    ]


def _ranges_text(days: DaySet) -> str:
    ranges = [str(first) if first == last else f"{first}..{last}" for first, last in days.ranges]
    return ", ".join(ranges[:3]) + (" and more" if len(ranges) > 3 else "")


def _is_done(target: BackfillTarget, run: PlannedRun) -> bool:
    if any(stream.offset is None for stream in target.streams):
        return False
    return all(day in stream.settled_days for stream in target.streams for day in DaySet(ranges=(run.days,)))


def _missing_days(target: BackfillTarget) -> DaySet:
    return DaySet.from_dates(day for stream in target.streams for day in missing_days(stream, target.starts_at))


async def _load_ended_instances(viewer: Viewer, dag_id: str) -> list[Any]:
    path = quote_path("dags", dag_id, "dagRuns", "~", "taskInstances")
    params = {"state": ["success"], "order_by": "-end_date"}
    rows = await viewer.airflow.list_rows_if_allowed(path, "task_instances", params, max_rows=_MEASURED_INSTANCES)
    return rows or []


async def _load_request_cost(viewer: Viewer, target: BackfillTarget, runs: Sequence[PlannedRun]) -> RequestCost:
    sources = [stream.connectors.source for stream in target.streams]
    known_sources = [source for source in sources if source is not None]
    if len(known_sources) < len(sources):
        return RequestCost(unknown=("The number of requests is unknown before a run has shown the source",))
    limited_sources = [source for source in known_sources if source.capability(HasQuota) is not None]
    requests, unknown = [], []
    hours: defaultdict[str, float] = defaultdict(float)
    for source in limited_sources:
        days = [run.days_in(source.timezone) for run in runs]
        plan = await _plan_source(viewer, source, days)
        if plan is None:
            unknown.append(f"The quota of connection {source.conn_id!r} is unknown: the page cannot read it")
            requests.append(sum(requests_for(source, run_days) for run_days in days))
        elif plan.quota is not None:
            requests.append(plan.requests)
            hours[plan.quota.describe()] += plan.hours  # a DAG's streams share a vendor's quota
    slowest = max(hours, key=lambda name: hours[name], default="")
    return RequestCost(
        requests=sum(requests) if requests else None,
        hours=hours[slowest] if slowest else 0.0,
        slowest_quota=slowest,
        unknown=tuple(dict.fromkeys(unknown)),
    )


async def _plan_source(viewer: Viewer, source: Source, runs: Sequence[Sequence[Day]]) -> LoadPlan | None:
    connection = await viewer.airflow.get_if_allowed(quote_path("connections", source.conn_id))
    try:
        return None if connection is None else plan_runs(source, runs, connection=public_connection(connection))
    except ConnectError:
        return None
