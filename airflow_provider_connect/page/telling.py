"""What is known, as the JSON that the page shows."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import quote

from airflow_provider_connect.page.stream import Stream

_LONGEST_TEXT = 500


def stream_json(stream: Stream) -> dict[str, Any]:
    """Return one line of the list of streams."""
    source, sink, state = stream.pipeline.source, stream.pipeline.sink, stream.state
    last = None if stream.last_day is None else stream.newest.get(stream.last_day)
    return {
        "id": stream.id,
        "dag_id": stream.dag["dag_id"],
        "task_id": stream.task_id,
        "map_index": stream.map_index,
        "source": source.name if source else None,
        "stream": source.stream_key if source else None,
        "kind": source.kind if source else None,
        "sink": sink.name if sink else None,
        "target": sink.target if sink else None,
        "timezone": stream.zone,
        "last_day": text(stream.last_day),
        "position": text(stream.position),
        "lag_days": stream.lag_days,
        "state": state.name,
        "state_text": state.text[:_LONGEST_TEXT],
        "reported_at": text(stream.reported_at),
        "rows_last_day": last.rows if last else None,
        "rejected_last_day": last.rejected if last else None,
        "can_edit": stream.can_edit,
    }


def text(value: dt.date | dt.datetime | None) -> str | None:
    """Return a day or an instant as ISO 8601 text; an instant in UTC."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    return None if value is None else value.isoformat()


def run_path(dag_id: str, run_id: str) -> str:
    """Return where Airflow's UI shows a run of a DAG."""
    return f"/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


def task_path(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """Return where Airflow's UI shows a run of a task."""
    mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
    return f"{run_path(dag_id, run_id)}/tasks/{quote(task_id, safe='')}{mapped}"
