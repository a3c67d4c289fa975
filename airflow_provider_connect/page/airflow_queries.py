"""Gathers what is known of streams: one question for all of them where Airflow can answer that."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_connect import offsets
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.operators.connect import FAILED_REPORT_KEY
from airflow_provider_connect.page.airflow_api import AirflowApi, quote_path
from airflow_provider_connect.page.facts.connectors import ConnectorPair, connectors_of
from airflow_provider_connect.page.facts.reports import (
    RunDayReport,
    parse_instant,
    reports_of_event,
    reports_of_summary,
)
from airflow_provider_connect.page.facts.runs import OPEN_STATES, TaskRun
from airflow_provider_connect.page.viewer_cache import (
    FRESH_SECONDS,
    EventLog,
    TaskInfo,
    TaskName,
    TaskProfile,
    ViewerCache,
)

_NEWEST_EVENTS = 50
_NEWEST_RUNS = 20
_MOST_EVENTS = 8000
_MOST_NEWS = 1000
_MOST_OPEN = 4000
_MOST_WITHOUT_STATE = 100
_FEW_RUNS = 10
_OVERLAP = dt.timedelta(minutes=1)
"""Events are dated before they are committed: news begin so long before the last question."""

RunName = tuple[str, str]  # of a DAG, and of its run


async def read_variables(airflow: AirflowApi, prefix: str) -> dict[str, str] | None:
    """Return Variables by their keys; None if the viewer may not read them."""
    params = {"variable_key_prefix_pattern": prefix.rstrip("/"), "order_by": "key"}
    rows = await airflow.list_rows_if_allowed("variables", "variables", params)
    return None if rows is None else {row["key"]: row["value"] for row in rows if row["key"].startswith(prefix)}


async def read_offsets(airflow: AirflowApi) -> dict[str, Offset]:
    """Return the offsets that the viewer may read, by their Variables' keys."""
    found = {
        key: offsets.parse_offset(text) for key, text in (await read_variables(airflow, offsets.PREFIX) or {}).items()
    }
    return {key: offset for key, offset in found.items() if offset is not None}


async def list_open_runs(airflow: AirflowApi, tasks: Sequence[TaskInfo]) -> list[TaskRun]:
    """Return the task instances of tasks of ours that are not done with their days, the newest runs first."""
    if not tasks:
        return []
    kinds, names = {task.class_name for task in tasks}, {task.name for task in tasks}
    dag_ids = sorted({task.name.dag_id for task in tasks})
    path = quote_path("dags", dag_ids[0] if len(dag_ids) == 1 else "~", "dagRuns", "~", "taskInstances")
    params = {"operator": sorted(kinds), "order_by": "-run_after"}
    if len(names) == 1:
        params["task_id"] = tasks[0].name.task_id
    # Those without a state are apart: a backfill has one for each day, and they must not push out the others.
    found = await asyncio.gather(
        airflow.list_rows_if_allowed(
            path, "task_instances", {**params, "state": list(OPEN_STATES)}, max_rows=_MOST_OPEN
        ),
        airflow.list_rows_if_allowed(
            path,
            "task_instances",
            {**params, "state": ["none"]},
            max_rows=_MOST_OPEN if len(names) == 1 else _MOST_WITHOUT_STATE,
        ),
    )
    runs = (TaskRun.from_api(row) for rows in found for row in rows or ())
    return [run for run in runs if (run.dag_id, run.task_id) in names]


async def load_profiles(
    airflow: AirflowApi, cache: ViewerCache, tasks: Sequence[TaskInfo]
) -> dict[TaskName, TaskProfile]:
    """Return what tasks read and write. Airflow is asked where that is not known, or may have changed."""
    now = time.monotonic()
    found = {
        task.name: known
        for task in tasks
        if (known := cache.profiles.get(task.name)) is not None and now - known.fetched_at <= FRESH_SECONDS
    }
    asked = [task.name for task in tasks if task.name not in found]
    found |= dict(zip(asked, await asyncio.gather(*(_identity(airflow, name) for name in asked)), strict=True))
    cache.profiles |= found
    return found


async def _identity(airflow: AirflowApi, name: TaskName) -> TaskProfile:
    path = quote_path("dags", name.dag_id, "dagRuns", "~", "taskInstances")
    params = {"task_id": name.task_id, "order_by": "-run_after"}
    rows = await airflow.list_rows_if_allowed(path, "task_instances", params, max_rows=_NEWEST_RUNS) or []
    runs = [TaskRun.from_api(row) for row in rows]
    pipelines: dict[int, ConnectorPair] = {}
    for run in runs:
        known = pipelines.get(run.map_index)
        if known is None or known.source is None or known.sink is None:
            pipelines[run.map_index] = connectors_of(run.fields)
    return TaskProfile(pipelines, [report for run in runs for report in _of_success(run)], bool(runs))


def _of_success(run: TaskRun) -> list[RunDayReport]:
    """Return what the success of a run tells of its days: that they are done."""
    if run.state != "success" or run.days is None or run.state_since is None:
        return []
    first, last = run.days
    days = (first + dt.timedelta(days=i) for i in range((last - first).days + 1))
    return [RunDayReport(day, "published", run.run_id, run.map_index, run.state_since) for day in days]


async def load_newest_events(
    airflow: AirflowApi, cache: ViewerCache, tasks: Sequence[TaskInfo], now: dt.datetime
) -> dict[TaskName, EventLog]:
    """Return the newest events of tasks: the news of all that are remembered take one question."""
    names = {task.name for task in tasks}
    found = {name: cache.logs[name] for name in names if name in cache.logs}
    if found and not await _news(airflow, found, now):
        found = {}
    missing = sorted(names - found.keys())
    found |= dict(
        zip(missing, await asyncio.gather(*(_log(airflow, name, None, now) for name in missing)), strict=True)
    )
    for name, log in found.items():
        cache.store_log(name, log)
    return found


async def load_events_since(
    airflow: AirflowApi, cache: ViewerCache, tasks: Sequence[TaskInfo], since: dt.datetime, now: dt.datetime
) -> dict[TaskName, EventLog]:
    """Return all events of tasks from a moment on."""
    found = {}
    for task in tasks:
        log = cache.logs.get(task.name)
        if log is None or not log.covers(since) or not await _news(airflow, {task.name: log}, now):
            log = await _log(airflow, task.name, since, now)
        found[task.name] = log
        cache.store_log(task.name, log)
    return found


async def _news(airflow: AirflowApi, logs: Mapping[TaskName, EventLog], now: dt.datetime) -> bool:
    """Add what came since the last question; tell whether that is all."""
    since = min(log.fetched_at for log in logs.values()) - _OVERLAP
    params: dict[str, Any] = {"timestamp_gte": since.isoformat(), "order_by": "timestamp"}
    if len(logs) == 1:
        (name,) = logs
        params |= {"source_dag_id": name.dag_id, "source_task_id": name.task_id}
    rows = await airflow.list_rows_if_allowed("assets/events", "asset_events", params, max_rows=_MOST_NEWS)
    if rows is None or len(rows) >= _MOST_NEWS:
        return False
    for row in rows:
        name = TaskName(row["source_dag_id"], row["source_task_id"])
        if name in logs:
            logs[name].reports[row["id"]] = reports_of_event(row)
    for log in logs.values():
        log.fetched_at = now
    return True


async def _log(airflow: AirflowApi, name: TaskName, since: dt.datetime | None, now: dt.datetime) -> EventLog:
    """Return the events of a task from a moment on; without one, the newest."""
    params = {"source_dag_id": name.dag_id, "source_task_id": name.task_id, "order_by": "-timestamp"}
    most = _NEWEST_EVENTS
    if since is not None:
        params["timestamp_gte"] = since.isoformat()
        most = _MOST_EVENTS
    rows = await airflow.list_rows_if_allowed("assets/events", "asset_events", params, max_rows=most) or []
    if since is None and len(rows) >= most:
        since = parse_instant(rows[-1]["timestamp"])
    return EventLog({row["id"]: reports_of_event(row) for row in rows}, since, now)


async def add_days_of_dag_runs(
    airflow: AirflowApi, runs: Sequence[TaskRun], zone_names: Mapping[TaskName, str | None]
) -> list[TaskRun]:
    """Return task instances with the days that their DAG's runs say, where they do not show them themselves."""
    asked = {(run.dag_id, run.run_id) for run in runs if run.days is None or run.state == "none"}
    told = await _dag_runs(airflow, asked)
    found = []
    for run in runs:
        dag_run = told.get((run.dag_id, run.run_id))
        if dag_run is not None:
            found.append(run.with_dag_run(dag_run, zone_names[TaskName(run.dag_id, run.task_id)]))
        elif run.state != "none":
            found.append(run)
    return [run for run in found if run is not None]


async def _dag_runs(airflow: AirflowApi, asked: set[RunName]) -> dict[RunName, Mapping[str, Any]]:
    """Return runs of DAGs: a few one by one, many of one DAG as a listing."""
    by_dag = Counter(dag_id for dag_id, _ in asked)
    many = [dag_id for dag_id, count in by_dag.items() if count > _FEW_RUNS]
    few = sorted((dag_id, run_id) for dag_id, run_id in asked if dag_id not in many)
    params = {"state": ["queued", "running", "failed"], "order_by": "-run_after"}
    listed, single = await asyncio.gather(
        asyncio.gather(
            *(
                airflow.list_rows_if_allowed(
                    quote_path("dags", dag_id, "dagRuns"), "dag_runs", params, max_rows=_MOST_OPEN
                )
                for dag_id in many
            )
        ),
        asyncio.gather(
            *(airflow.get_if_allowed(quote_path("dags", dag_id, "dagRuns", run_id)) for dag_id, run_id in few)
        ),
    )
    rows = [row for rows in listed for row in rows or ()] + [row for row in single if row is not None]
    return {(row["dag_id"], row["dag_run_id"]): row for row in rows}


_SUCCEEDED = "return_value"


class TaskAddress(NamedTuple):
    """Which task instance left something."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


async def load_summary(airflow: AirflowApi, run: TaskRun) -> Mapping[str, Any] | None:
    """Return the report that a run left; None if there is none, or the viewer may not read it."""
    key = FAILED_REPORT_KEY if run.phase == "failed" else _SUCCEEDED
    return await _left(airflow, TaskAddress(run.dag_id, run.run_id, run.task_id, run.map_index), key)


async def _left(airflow: AirflowApi, task: TaskAddress, key: str) -> Mapping[str, Any] | None:
    parts = ("dags", task.dag_id, "dagRuns", task.run_id, "taskInstances", task.task_id, "xcomEntries", key)
    answer = await airflow.get_if_allowed(quote_path(*parts), {"map_index": task.map_index})
    value = (answer or {}).get("value")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


async def load_failed_reports(airflow: AirflowApi, run: TaskRun) -> list[RunDayReport]:
    """Return what a run that failed told of its days."""
    at = run.state_since or run.run_after
    summary = await load_summary(airflow, run)
    return [] if summary is None or at is None else reports_of_summary(summary, run.run_id, run.map_index, at)


async def add_figures(airflow: AirflowApi, dag_id: str, task_id: str, report: RunDayReport) -> RunDayReport:
    """Return a report with its figures, where its event had none: from what the run left in XCom."""
    if report.rows is not None:
        return report
    value = await _left(airflow, TaskAddress(dag_id, report.run_id, task_id, report.map_index), _SUCCEEDED)
    told = reports_of_summary(value or {}, report.run_id, report.map_index, report.reported_at)
    return next((each for each in told if each.day == report.day), report)


async def load_failure_message(airflow: AirflowApi, run: TaskRun) -> str | None:
    """Return why a run failed, in its own words."""
    failure = (await load_summary(airflow, run) or {}).get("failure")
    message = failure.get("message") if isinstance(failure, Mapping) else None
    return message if isinstance(message, str) else None
