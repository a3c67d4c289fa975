"""The list of all streams that a viewer may see."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.page.asking import RefusedError, path_of
from airflow_provider_connect.page.facts.connectors import Pipeline
from airflow_provider_connect.page.facts.stream import Stream, StreamName
from airflow_provider_connect.page.finding import dags_of, tasks_in
from airflow_provider_connect.page.gathering import (
    dated,
    events_since,
    failure_message,
    identities,
    newest_events,
    open_runs,
    stored_offsets,
)
from airflow_provider_connect.page.memory import TaskKind, TaskName
from airflow_provider_connect.page.telling import stream_json
from airflow_provider_connect.page.viewing import Viewer

_MOST_MESSAGES = 20


async def list_streams(viewer: Viewer) -> dict[str, Any]:
    """Return all streams, those that need somebody first."""
    dags = await dags_of(viewer.airflow)
    tasks = await tasks_in(viewer.airflow, viewer.memory, viewer.own, list(dags))
    found = await streams_of(viewer, dags, tasks)
    return {"as_of": viewer.now.isoformat(), "streams": [stream_json(each) for each in found]}


async def streams_of(
    viewer: Viewer,
    dags: Mapping[str, Mapping[str, Any]],
    tasks: Sequence[TaskKind],
    since: dt.datetime | None = None,
) -> list[Stream]:
    """Return what is known of the streams of tasks, sorted by their ids.

    :param since: from when on all reports are wanted; without it, the newest alone.
    """
    airflow, own, now = viewer.airflow, viewer.own, viewer.now
    stored, runs, editable, known, logs = await asyncio.gather(
        stored_offsets(airflow),
        open_runs(airflow, tasks),
        viewer.editable({task.name.dag_id for task in tasks}),
        identities(airflow, own, tasks),
        newest_events(airflow, own, tasks, now) if since is None else events_since(airflow, own, tasks, since, now),
    )
    zones = {task.name: _zone_of(known[task.name].pipelines) for task in tasks}
    by_task = defaultdict(list)
    for run in await dated(airflow, runs, zones):
        by_task[TaskName(run.dag_id, run.task_id)].append(run)
    found = []
    for task in tasks:
        identity, log = known[task.name], logs[task.name]
        for index in _indexes(task, identity.pipelines):
            pipeline = identity.pipelines.get(index, Pipeline())
            told = log.of(index)
            stream = Stream(
                dag=dags[task.name.dag_id],
                task_id=task.name.task_id,
                map_index=index,
                pipeline=pipeline,
                offset=_offset(stored, pipeline),
                reports=told or [each for each in identity.reports if each.map_index == index],
                runs=[run for run in by_task[task.name] if run.map_index in (index, -1)],
                has_run=identity.has_run,
                can_edit=task.name.dag_id in editable,
                now=now,
                end_date=task.end_date,
            )
            found.append(stream)
    failed = [stream for stream in found if stream.state.name == "failed"][:_MOST_MESSAGES]
    messages = await asyncio.gather(*(failure_message(airflow, stream.failed[0]) for stream in failed))
    said = {stream.id: message for stream, message in zip(failed, messages, strict=True)}
    return sorted((replace(each, message=said.get(each.id)) for each in found), key=lambda each: each.id)


async def one_stream(viewer: Viewer, name: StreamName, since: dt.datetime) -> Stream:
    """Return what is known of one stream.

    :param since: from when on all reports are wanted.
    :raises RefusedError: if there is no such stream, or the viewer may not see it.
    """
    dag = await viewer.airflow.get(path_of("dags", name.dag_id))
    tasks = await tasks_in(viewer.airflow, viewer.memory, viewer.own, [name.dag_id])
    mine = [task for task in tasks if task.name.task_id == name.task_id]
    for stream in await streams_of(viewer, {name.dag_id: dag}, mine, since):
        if stream.map_index == name.map_index:
            return stream
    raise RefusedError(404, f"There is no stream {name}")


def _zone_of(pipelines: Mapping[int, Pipeline]) -> str | None:
    return next((each.timezone for each in pipelines.values() if each.timezone is not None), None)


def _indexes(task: TaskKind, pipelines: Mapping[int, Pipeline]) -> list[int]:
    """Return the instances of a task that there are streams of: all that a mapped one has had lately."""
    return sorted(index for index in pipelines if index >= 0) or [-1]


def _offset(stored: Mapping[str, Offset], pipeline: Pipeline) -> Offset | None:
    key = pipeline.offset_key
    return None if key is None else stored.get(key)
