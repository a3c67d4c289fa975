"""Answer with all streams that a viewer may see."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_connect.offsets import Offset, streams_of_keys
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
from airflow_provider_connect.page.serialized_dags import add_declared_connectors
from airflow_provider_connect.page.task_discovery import find_tasks, visible_dags
from airflow_provider_connect.page.viewer import Viewer
from airflow_provider_connect.page.viewer_cache import TaskInfo, TaskName

_MAX_MESSAGES = 20


async def list_streams(viewer: Viewer) -> dict[str, Any]:
    """Return all streams that the viewer may see."""
    dags = await visible_dags(viewer.airflow)
    tasks = await find_tasks(viewer.airflow, viewer.page_cache, viewer.cache, list(dags))
    streams = await load_streams(viewer, dags, tasks)
    return {"as_of": viewer.requested_at.isoformat(), "streams": [stream_json(stream) for stream in streams]}


async def load_streams(
    viewer: Viewer,
    dags: Mapping[str, Mapping[str, Any]],
    tasks: Sequence[TaskInfo],
    since: dt.datetime | None = None,
) -> list[Stream]:
    """Load the streams of tasks, sorted by id.

    :param since: of the reports. None: only the newest.
    """
    airflow, cache, current_time = viewer.airflow, viewer.cache, viewer.requested_at
    stored_offsets, runs, editable_ids, profiles, logs = await asyncio.gather(
        read_offsets(airflow),
        list_open_runs(airflow, tasks),
        viewer.editable_dags({task.name.dag_id for task in tasks}),
        load_profiles(airflow, cache, tasks),
        load_newest_events(airflow, cache, tasks, current_time)
        if since is None
        else load_events_since(airflow, cache, tasks, since, current_time),
    )
    await add_declared_connectors(viewer.dag_bag, profiles)
    zones = {task.name: _zone_of(profiles[task.name].connectors) for task in tasks}
    runs_by_task = defaultdict(list)
    for run in await add_days_of_dag_runs(airflow, runs, zones):
        runs_by_task[TaskName(run.dag_id, run.task_id)].append(run)
    streams = []
    for task in tasks:
        profile, log = profiles[task.name], logs[task.name]
        for index in _map_indexes(task, profile.connectors):
            task_stream = Stream(
                dag=dags[task.name.dag_id],
                task_id=task.name.task_id,
                map_index=index,
                connectors=profile.connectors.get(index, ConnectorPair()),
                offset=None,
                reports=log.reports_of_instance(index) or [item for item in profile.reports if item.map_index == index],
                runs=[run for run in runs_by_task[task.name] if run.map_index in (index, -1)],
                has_run=profile.has_run,
                can_edit=task.name.dag_id in editable_ids,
                as_of=current_time,
                end_date=task.end_date,
            )
            streams += _with_offsets(task_stream, stored_offsets)
    failed = [stream for stream in streams if stream.state.name == "failed"][:_MAX_MESSAGES]
    messages = await asyncio.gather(*(load_failure_message(airflow, stream.failed_runs[0]) for stream in failed))
    messages_by_id = {stream.id: message for stream, message in zip(failed, messages, strict=True)}
    return sorted((replace(item, message=messages_by_id.get(item.id)) for item in streams), key=lambda item: item.id)


async def load_stream(viewer: Viewer, name: StreamName, since: dt.datetime) -> Stream:
    """Load one stream.

    :raises RefusedError: no such stream, or no right.
    """
    dag = await viewer.airflow.get(quote_path("dags", name.dag_id))
    tasks = await find_tasks(viewer.airflow, viewer.page_cache, viewer.cache, [name.dag_id])
    matching_tasks = [task for task in tasks if task.name.task_id == name.task_id]
    for stream in await load_streams(viewer, {name.dag_id: dag}, matching_tasks, since):
        if stream.map_index == name.map_index and name.key in ("", stream.key):
            return stream
    raise RefusedError(404, f"There is no stream {name}")


def _zone_of(connectors: Mapping[int, ConnectorPair]) -> str | None:
    return next((pair.timezone for pair in connectors.values() if pair.timezone is not None), None)


def _map_indexes(task: TaskInfo, connectors: Mapping[int, ConnectorPair]) -> list[int]:
    return sorted(index for index in connectors if index >= 0) or [-1]


def _with_offsets(stream: Stream, stored_offsets: Mapping[str, Offset]) -> list[Stream]:
    """Return a task's stream with its offset, or each of its streams that has one."""
    source, sink = stream.connectors.source, stream.connectors.sink
    loaded = streams_of_keys(source, sink, stored_offsets) if source is not None and sink is not None else {}
    if not loaded:
        key = stream.connectors.offset_key
        return [replace(stream, offset=None if key is None else stored_offsets.get(key))]
    streams = [
        replace(
            stream,
            connectors=ConnectorPair(loaded_stream.source, loaded_stream.sink),
            offset=stored_offsets[key],
            key=loaded_stream.source.stream_key,
        )
        for key, loaded_stream in loaded.items()
    ]
    return [replace(item, reports=[report for report in item.reports if item.owns(report)]) for item in streams]
