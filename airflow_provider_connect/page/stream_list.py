"""The list of all streams that a viewer may see."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.page.airflow_api import RefusedError, quote_path
from airflow_provider_connect.page.airflow_queries import (
    add_days_of_dag_runs,
    list_open_runs,
    load_events_since,
    load_failure_message,
    load_newest_events,
    load_profiles,
    read_offsets,
)
from airflow_provider_connect.page.answer_json import stream_json
from airflow_provider_connect.page.facts.connectors import ConnectorPair
from airflow_provider_connect.page.facts.stream import Stream, StreamName
from airflow_provider_connect.page.task_discovery import find_tasks, visible_dags
from airflow_provider_connect.page.viewer import Viewer
from airflow_provider_connect.page.viewer_cache import TaskInfo, TaskName

_MOST_MESSAGES = 20


async def list_streams(viewer: Viewer) -> dict[str, Any]:
    """Return all streams, those that need somebody first."""
    dags = await visible_dags(viewer.airflow)
    tasks = await find_tasks(viewer.airflow, viewer.page_cache, viewer.cache, list(dags))
    found = await load_streams(viewer, dags, tasks)
    return {"as_of": viewer.requested_at.isoformat(), "streams": [stream_json(each) for each in found]}


async def load_streams(
    viewer: Viewer,
    dags: Mapping[str, Mapping[str, Any]],
    tasks: Sequence[TaskInfo],
    since: dt.datetime | None = None,
) -> list[Stream]:
    """Return what is known of the streams of tasks, sorted by their ids.

    :param since: from when on all reports are wanted; without it, the newest alone.
    """
    airflow, own, now = viewer.airflow, viewer.cache, viewer.requested_at
    stored, runs, editable, known, logs = await asyncio.gather(
        read_offsets(airflow),
        list_open_runs(airflow, tasks),
        viewer.editable_dags({task.name.dag_id for task in tasks}),
        load_profiles(airflow, own, tasks),
        load_newest_events(airflow, own, tasks, now)
        if since is None
        else load_events_since(airflow, own, tasks, since, now),
    )
    zones = {task.name: _zone_of(known[task.name].connectors) for task in tasks}
    by_task = defaultdict(list)
    for run in await add_days_of_dag_runs(airflow, runs, zones):
        by_task[TaskName(run.dag_id, run.task_id)].append(run)
    found = []
    for task in tasks:
        identity, log = known[task.name], logs[task.name]
        for index in _indexes(task, identity.connectors):
            pipeline = identity.connectors.get(index, ConnectorPair())
            told = log.reports_of_instance(index)
            stream = Stream(
                dag=dags[task.name.dag_id],
                task_id=task.name.task_id,
                map_index=index,
                connectors=pipeline,
                offset=_offset(stored, pipeline),
                reports=told or [each for each in identity.reports if each.map_index == index],
                runs=[run for run in by_task[task.name] if run.map_index in (index, -1)],
                has_run=identity.has_run,
                can_edit=task.name.dag_id in editable,
                as_of=now,
                end_date=task.end_date,
            )
            found.append(stream)
    failed = [stream for stream in found if stream.state.name == "failed"][:_MOST_MESSAGES]
    messages = await asyncio.gather(*(load_failure_message(airflow, stream.failed_runs[0]) for stream in failed))
    said = {stream.id: message for stream, message in zip(failed, messages, strict=True)}
    return sorted((replace(each, message=said.get(each.id)) for each in found), key=lambda each: each.id)


async def load_stream(viewer: Viewer, name: StreamName, since: dt.datetime) -> Stream:
    """Return what is known of one stream.

    :param since: from when on all reports are wanted.
    :raises RefusedError: if there is no such stream, or the viewer may not see it.
    """
    dag = await viewer.airflow.get(quote_path("dags", name.dag_id))
    tasks = await find_tasks(viewer.airflow, viewer.page_cache, viewer.cache, [name.dag_id])
    mine = [task for task in tasks if task.name.task_id == name.task_id]
    for stream in await load_streams(viewer, {name.dag_id: dag}, mine, since):
        if stream.map_index == name.map_index:
            return stream
    raise RefusedError(404, f"There is no stream {name}")


def _zone_of(pipelines: Mapping[int, ConnectorPair]) -> str | None:
    return next((each.timezone for each in pipelines.values() if each.timezone is not None), None)


def _indexes(task: TaskInfo, pipelines: Mapping[int, ConnectorPair]) -> list[int]:
    """Return the instances of a task that there are streams of: all that a mapped one has had lately."""
    return sorted(index for index in pipelines if index >= 0) or [-1]


def _offset(stored: Mapping[str, Offset], pipeline: ConnectorPair) -> Offset | None:
    key = pipeline.offset_key
    return None if key is None else stored.get(key)
