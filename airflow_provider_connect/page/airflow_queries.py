"""Queries of Airflow's API for the page."""

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
from airflow_provider_connect.operators.reporting import FAILED_REPORT_KEY
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
_MAX_EVENTS = 8000
_MAX_NEW_EVENTS = 1000
_MAX_OPEN_RUNS = 4000
_MAX_WITHOUT_STATE = 100
_FEW_RUNS = 10
_OVERLAP = dt.timedelta(minutes=1)

RunName = tuple[str, str]  # of a DAG, and of its run


async def read_variables(airflow: AirflowApi, prefix: str) -> dict[str, str] | None:
    """Return the Variables with a key prefix, None without the right."""
    params = {"variable_key_prefix_pattern": prefix.rstrip("/"), "order_by": "key"}
    rows = await airflow.list_rows_if_allowed("variables", "variables", params)
    return None if rows is None else {row["key"]: row["value"] for row in rows if row["key"].startswith(prefix)}


async def read_offsets(airflow: AirflowApi) -> dict[str, Offset]:
    """Return the offsets that the viewer may read, by their Variables' keys."""
    parsed = {
        key: offsets.parse_offset(text) for key, text in (await read_variables(airflow, offsets.PREFIX) or {}).items()
    }
    return {key: offset for key, offset in parsed.items() if offset is not None}


async def list_open_runs(airflow: AirflowApi, tasks: Sequence[TaskInfo]) -> list[TaskRun]:
    """Return the tasks' unfinished instances, newest runs first."""
    if not tasks:
        return []
    class_names, names = {task.class_name for task in tasks}, {task.name for task in tasks}
    dag_ids = sorted({task.name.dag_id for task in tasks})
    path = quote_path("dags", dag_ids[0] if len(dag_ids) == 1 else "~", "dagRuns", "~", "taskInstances")
    params = {"operator": sorted(class_names), "order_by": "-run_after"}
    if len(names) == 1:
        params["task_id"] = tasks[0].name.task_id
    # Instances without a state are queried separately: a backfill has one for each day, which would push out others.
    answers = await asyncio.gather(
        airflow.list_rows_if_allowed(
            path, "task_instances", {**params, "state": list(OPEN_STATES)}, max_rows=_MAX_OPEN_RUNS
        ),
        airflow.list_rows_if_allowed(
            path,
            "task_instances",
            {**params, "state": ["none"]},
            max_rows=_MAX_OPEN_RUNS if len(names) == 1 else _MAX_WITHOUT_STATE,
        ),
    )
    runs = (TaskRun.from_api(row) for rows in answers for row in rows or ())
    return [run for run in runs if (run.dag_id, run.task_id) in names]


async def load_profiles(
    airflow: AirflowApi, cache: ViewerCache, tasks: Sequence[TaskInfo]
) -> dict[TaskName, TaskProfile]:
    """Return connectors and newest reports of tasks, from the cache if younger than a minute."""
    read_at = time.monotonic()
    profiles = {
        task.name: profile
        for task in tasks
        if (profile := cache.profiles.get(task.name)) is not None and read_at - profile.fetched_at <= FRESH_SECONDS
    }
    missing_names = [task.name for task in tasks if task.name not in profiles]
    profiles |= dict(
        zip(missing_names, await asyncio.gather(*(_load_profile(airflow, name) for name in missing_names)), strict=True)
    )
    cache.profiles |= profiles
    return profiles


async def _load_profile(airflow: AirflowApi, name: TaskName) -> TaskProfile:
    path = quote_path("dags", name.dag_id, "dagRuns", "~", "taskInstances")
    params = {"task_id": name.task_id, "order_by": "-run_after"}
    rows = await airflow.list_rows_if_allowed(path, "task_instances", params, max_rows=_NEWEST_RUNS) or []
    runs = [TaskRun.from_api(row) for row in rows]
    connectors_by_index: dict[int, ConnectorPair] = {}
    for run in runs:
        connectors = connectors_by_index.get(run.map_index)
        if connectors is None or connectors.source is None or connectors.sink is None:
            connectors_by_index[run.map_index] = connectors_of(run.fields)
    return TaskProfile(connectors_by_index, [report for run in runs for report in _reports_of_success(run)], bool(runs))


def _reports_of_success(run: TaskRun) -> list[RunDayReport]:
    if run.state != "success" or run.days is None or run.state_since is None:
        return []
    first, last = run.days
    days = (first + dt.timedelta(days=i) for i in range((last - first).days + 1))
    return [RunDayReport(day, "published", run.run_id, run.map_index, run.state_since) for day in days]


async def load_newest_events(
    airflow: AirflowApi, cache: ViewerCache, tasks: Sequence[TaskInfo], current_time: dt.datetime
) -> dict[TaskName, EventLog]:
    """Return the newest events of tasks."""
    names = {task.name for task in tasks}
    logs = {name: cache.logs[name] for name in names if name in cache.logs}
    if logs and not await _add_new_events(airflow, logs, current_time):
        logs = {}
    missing_names = sorted(names - logs.keys())
    logs |= dict(
        zip(
            missing_names,
            await asyncio.gather(*(_load_log(airflow, name, None, current_time) for name in missing_names)),
            strict=True,
        )
    )
    for name, log in logs.items():
        cache.store_log(name, log)
    return logs


async def load_events_since(
    airflow: AirflowApi, cache: ViewerCache, tasks: Sequence[TaskInfo], since: dt.datetime, current_time: dt.datetime
) -> dict[TaskName, EventLog]:
    """Return the events of tasks from ``since`` on, cached where possible."""
    logs = {}
    for task in tasks:
        log = cache.logs.get(task.name)
        if log is None or not log.covers(since) or not await _add_new_events(airflow, {task.name: log}, current_time):
            log = await _load_log(airflow, task.name, since, current_time)
        logs[task.name] = log
        cache.store_log(task.name, log)
    return logs


async def _add_new_events(airflow: AirflowApi, logs: Mapping[TaskName, EventLog], current_time: dt.datetime) -> bool:
    since = min(log.fetched_at for log in logs.values()) - _OVERLAP
    params: dict[str, Any] = {"timestamp_gte": since.isoformat(), "order_by": "timestamp"}
    if len(logs) == 1:
        (name,) = logs
        params |= {"source_dag_id": name.dag_id, "source_task_id": name.task_id}
    rows = await airflow.list_rows_if_allowed("assets/events", "asset_events", params, max_rows=_MAX_NEW_EVENTS)
    if rows is None or len(rows) >= _MAX_NEW_EVENTS:
        return False
    for row in rows:
        name = TaskName(row["source_dag_id"], row["source_task_id"])
        if name in logs:
            logs[name].reports[row["id"]] = reports_of_event(row)
    for log in logs.values():
        log.fetched_at = current_time
    return True


async def _load_log(
    airflow: AirflowApi, name: TaskName, since: dt.datetime | None, current_time: dt.datetime
) -> EventLog:
    params = {"source_dag_id": name.dag_id, "source_task_id": name.task_id, "order_by": "-timestamp"}
    max_events = _NEWEST_EVENTS
    if since is not None:
        params["timestamp_gte"] = since.isoformat()
        max_events = _MAX_EVENTS
    rows = await airflow.list_rows_if_allowed("assets/events", "asset_events", params, max_rows=max_events) or []
    if since is None and len(rows) >= max_events:
        since = parse_instant(rows[-1]["timestamp"])
    return EventLog({row["id"]: reports_of_event(row) for row in rows}, since, current_time)


async def add_days_of_dag_runs(
    airflow: AirflowApi, runs: Sequence[TaskRun], zone_names: Mapping[TaskName, str | None]
) -> list[TaskRun]:
    """Fill in missing days of task instances, from their DAG runs. Drops instances that will never start."""
    run_names = {(run.dag_id, run.run_id) for run in runs if run.days is None or run.state == "none"}
    dag_runs = await _load_dag_runs(airflow, run_names)
    dated_runs = []
    for run in runs:
        dag_run = dag_runs.get((run.dag_id, run.run_id))
        if dag_run is not None:
            dated_runs.append(run.with_dag_run(dag_run, zone_names[TaskName(run.dag_id, run.task_id)]))
        elif run.state != "none":
            dated_runs.append(run)
    return [run for run in dated_runs if run is not None]


async def _load_dag_runs(airflow: AirflowApi, run_names: set[RunName]) -> dict[RunName, Mapping[str, Any]]:
    by_dag = Counter(dag_id for dag_id, _ in run_names)
    listed_dags = [dag_id for dag_id, count in by_dag.items() if count > _FEW_RUNS]
    single_names = sorted((dag_id, run_id) for dag_id, run_id in run_names if dag_id not in listed_dags)
    params = {"state": ["queued", "running", "failed"], "order_by": "-run_after"}
    listings, single_runs = await asyncio.gather(
        asyncio.gather(
            *(
                airflow.list_rows_if_allowed(
                    quote_path("dags", dag_id, "dagRuns"), "dag_runs", params, max_rows=_MAX_OPEN_RUNS
                )
                for dag_id in listed_dags
            )
        ),
        asyncio.gather(
            *(airflow.get_if_allowed(quote_path("dags", dag_id, "dagRuns", run_id)) for dag_id, run_id in single_names)
        ),
    )
    rows = [row for rows in listings for row in rows or ()] + [row for row in single_runs if row is not None]
    return {(row["dag_id"], row["dag_run_id"]): row for row in rows}


_SUCCESS_REPORT_KEY = "return_value"


class TaskAddress(NamedTuple):
    """Names that locate a task instance's XComs."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


async def load_summary(airflow: AirflowApi, run: TaskRun) -> Mapping[str, Any] | None:
    """Return the report in a task instance's XCom, None if missing or hidden."""
    key = FAILED_REPORT_KEY if run.phase == "failed" else _SUCCESS_REPORT_KEY
    return await _read_xcom(airflow, TaskAddress(run.dag_id, run.run_id, run.task_id, run.map_index), key)


async def _read_xcom(airflow: AirflowApi, task: TaskAddress, key: str) -> Mapping[str, Any] | None:
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
    """Return a failed task instance's reports, one for each day."""
    at = run.state_since or run.run_after
    summary = await load_summary(airflow, run)
    return [] if summary is None or at is None else reports_of_summary(summary, run.run_id, run.map_index, at)


async def add_figures(airflow: AirflowApi, dag_id: str, task_id: str, report: RunDayReport) -> RunDayReport:
    """Add rows and bytes from XCom to a report from an event without them."""
    if report.rows is not None:
        return report
    value = await _read_xcom(
        airflow, TaskAddress(dag_id, report.run_id, task_id, report.map_index), _SUCCESS_REPORT_KEY
    )
    reports = reports_of_summary(value or {}, report.run_id, report.map_index, report.reported_at)
    return next(
        (found for found in reports if (found.day, found.target) == (report.day, report.target)),
        report,
    )


async def load_failure_message(airflow: AirflowApi, run: TaskRun) -> str | None:
    """Return the error message of a failed task instance, None if unknown."""
    failure = (await load_summary(airflow, run) or {}).get("failure")
    message = failure.get("message") if isinstance(failure, Mapping) else None
    return message if isinstance(message, str) else None
