"""Gathers what is known of streams: one question for all of them where Airflow can answer that."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_connect import offsets
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.page.asking import Airflow, path_of
from airflow_provider_connect.page.facts.connectors import Pipeline, pipeline_of
from airflow_provider_connect.page.facts.reports import Report, instant, of_event
from airflow_provider_connect.page.facts.runs import OPEN, TaskRun, days_of_run
from airflow_provider_connect.page.memory import FRESH_SECONDS, EventLog, Identity, Remembered, TaskKind, TaskName

_NEWEST_EVENTS = 50
_NEWEST_RUNS = 20
_MOST_EVENTS = 8000
_MOST_NEWS = 1000
_MOST_OPEN = 1000
_MOST_UNDATED = 60
_OVERLAP = dt.timedelta(minutes=1)
"""Events are dated before they are committed: news begin so long before the last question."""


async def variables(airflow: Airflow, prefix: str) -> dict[str, str] | None:
    """Return Variables by their keys; None if the viewer may not read them."""
    params = {"variable_key_prefix_pattern": prefix.rstrip("/"), "order_by": "key"}
    rows = await airflow.may_rows("variables", "variables", params)
    return None if rows is None else {row["key"]: row["value"] for row in rows if row["key"].startswith(prefix)}


async def stored_offsets(airflow: Airflow) -> dict[str, Offset]:
    """Return the offsets that the viewer may read, by their Variables' keys."""
    found = {key: offsets.parsed(text) for key, text in (await variables(airflow, offsets.PREFIX) or {}).items()}
    return {key: offset for key, offset in found.items() if offset is not None}


async def open_runs(airflow: Airflow, tasks: Sequence[TaskKind]) -> list[TaskRun]:
    """Return the task instances of tasks of ours that are not done with their days, the newest runs first."""
    if not tasks:
        return []
    kinds, names = {task.operator for task in tasks}, {task.name for task in tasks}
    dag_ids = {task.name.dag_id for task in tasks}
    path = path_of("dags", dag_ids.pop() if len(dag_ids) == 1 else "~", "dagRuns", "~", "taskInstances")
    params = {"operator": sorted(kinds), "state": list(OPEN), "order_by": "-run_after"}
    rows = await airflow.may_rows(path, "task_instances", params, most=_MOST_OPEN) or []
    return [TaskRun.of(row) for row in rows if (row["dag_id"], row["task_id"]) in names]


async def identities(airflow: Airflow, own: Remembered, tasks: Iterable[TaskKind]) -> None:
    """Find out what the tasks read and write, where that is not known or may have changed."""
    now = time.monotonic()
    asked = [
        task.name
        for task in tasks
        if (known := own.identities.get(task.name)) is None or now - known.at > FRESH_SECONDS
    ]
    for name, found in zip(asked, await asyncio.gather(*(_identity(airflow, name) for name in asked)), strict=True):
        own.identities[name] = found


async def _identity(airflow: Airflow, name: TaskName) -> Identity:
    path = path_of("dags", name.dag_id, "dagRuns", "~", "taskInstances")
    params = {"task_id": name.task_id, "order_by": "-run_after"}
    rows = await airflow.may_rows(path, "task_instances", params, most=_NEWEST_RUNS) or []
    runs = [TaskRun.of(row) for row in rows]
    pipelines: dict[int, Pipeline] = {}
    for run in runs:
        known = pipelines.get(run.map_index)
        if known is None or known.source is None or known.sink is None:
            pipelines[run.map_index] = pipeline_of(run.fields)
    return Identity(pipelines, [report for run in runs for report in _of_success(run)], bool(runs))


def _of_success(run: TaskRun) -> list[Report]:
    """Return what the success of a run tells of its days: that they are done."""
    if run.state != "success" or run.days is None or run.at is None:
        return []
    first, last = run.days
    days = (first + dt.timedelta(days=i) for i in range((last - first).days + 1))
    return [Report(day, "published", run.run_id, run.map_index, run.at) for day in days]


async def newest_events(airflow: Airflow, own: Remembered, tasks: Sequence[TaskKind], now: dt.datetime) -> None:
    """Bring the logs of tasks up to date: with one question for all that have one."""
    names = {task.name for task in tasks}
    known = {name: own.logs[name] for name in names if name in own.logs}
    if known and not await _news(airflow, known, now):
        known = {}
    missing = sorted(names - known.keys())
    logs = await asyncio.gather(*(_log(airflow, name, None, now) for name in missing))
    for name, log in zip(missing, logs, strict=True):
        own.keep(name, log)


async def events_since(
    airflow: Airflow, own: Remembered, tasks: Sequence[TaskKind], since: dt.datetime, now: dt.datetime
) -> None:
    """Bring the logs of tasks up to date, with all events from a moment on."""
    for task in tasks:
        log = own.logs.get(task.name)
        if log is None or not log.covers(since) or not await _news(airflow, {task.name: log}, now):
            log = await _log(airflow, task.name, since, now)
        own.keep(task.name, log)


async def _news(airflow: Airflow, logs: Mapping[TaskName, EventLog], now: dt.datetime) -> bool:
    """Add what came since the last question; tell whether that is all."""
    since = min(log.asked_at for log in logs.values()) - _OVERLAP
    params: dict[str, Any] = {"timestamp_gte": since.isoformat(), "order_by": "timestamp"}
    if len(logs) == 1:
        (name,) = logs
        params |= {"source_dag_id": name.dag_id, "source_task_id": name.task_id}
    rows = await airflow.may_rows("assets/events", "asset_events", params, most=_MOST_NEWS)
    if rows is None or len(rows) >= _MOST_NEWS:
        return False
    for row in rows:
        name = TaskName(row["source_dag_id"], row["source_task_id"])
        if name in logs:
            logs[name].reports[row["id"]] = of_event(row)
    for log in logs.values():
        log.asked_at = now
    return True


async def _log(airflow: Airflow, name: TaskName, since: dt.datetime | None, now: dt.datetime) -> EventLog:
    """Return the events of a task from a moment on; without one, the newest."""
    params = {"source_dag_id": name.dag_id, "source_task_id": name.task_id, "order_by": "-timestamp"}
    most = _NEWEST_EVENTS
    if since is not None:
        params["timestamp_gte"] = since.isoformat()
        most = _MOST_EVENTS
    rows = await airflow.may_rows("assets/events", "asset_events", params, most=most) or []
    if since is None and len(rows) >= most:
        since = instant(rows[-1]["timestamp"])
    return EventLog({row["id"]: of_event(row) for row in rows}, since, now)


async def dated(airflow: Airflow, runs: Sequence[TaskRun], zone_names: Mapping[TaskName, str]) -> list[TaskRun]:
    """Return task instances with the days that their DAG's runs say, where they do not show them themselves."""
    unknown = [run for run in runs if run.days is None][:_MOST_UNDATED]
    asked = sorted({(run.dag_id, run.run_id) for run in unknown})
    answers = await asyncio.gather(
        *(airflow.may_get(path_of("dags", dag_id, "dagRuns", run_id)) for dag_id, run_id in asked)
    )
    told = dict(zip(asked, answers, strict=True))
    return [_dated(run, told.get((run.dag_id, run.run_id)), zone_names) for run in runs]


def _dated(run: TaskRun, told: Mapping[str, Any] | None, zone_names: Mapping[TaskName, str]) -> TaskRun:
    if told is None or run.days is not None:
        return run
    zone_name = zone_names.get(TaskName(run.dag_id, run.task_id), "UTC")
    return run.on(days_of_run(told, zone_name))
