"""JSON objects in the page's answers."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from typing import Any

from airflow_provider_connect.page.airflow_api import AirflowApi
from airflow_provider_connect.page.airflow_links import dag_url, run_url, task_page_url, task_url
from airflow_provider_connect.page.airflow_queries import load_failed_reports, load_failure_message
from airflow_provider_connect.page.facts.calendar import CalendarDay
from airflow_provider_connect.page.facts.reports import RunDayReport
from airflow_provider_connect.page.facts.runs import TaskRun
from airflow_provider_connect.page.facts.stream import Stream

_LONGEST_TEXT = 500
_MAX_FAILED_RUNS = 5
_HASH = re.compile(r"\.(?=\d*[a-f])[0-9a-f]{8}$")


def stream_json(stream: Stream) -> dict[str, Any]:
    """Convert a stream to JSON, for the list of streams."""
    source, sink, state = stream.connectors.source, stream.connectors.sink, stream.state
    last_report = None if stream.last_day is None else stream.newest_reports.get(stream.last_day)
    return {
        "id": stream.id,
        "dag_id": stream.dag["dag_id"],
        "task_id": stream.task_id,
        "map_index": stream.map_index,
        "key": stream.key,
        "source": source.name if source else None,
        "stream": source.stream_key if source else None,
        "kind": source.kind if source else None,
        "sink": sink.name if sink else None,
        "target": sink.target if sink else None,
        "timezone": stream.zone,
        "last_day": iso_text(stream.last_day),
        "position": iso_text(stream.position),
        "lag_days": stream.lag_days,
        "state": state.name,
        "state_text": state.text[:_LONGEST_TEXT],
        "reported_at": iso_text(stream.reported_at),
        "rows_last_day": last_report.rows if last_report else None,
        "rejected_last_day": last_report.rejected if last_report else None,
        "can_edit": stream.can_edit,
        "stream_label": _label(source.stream_key) if source else None,
        "days_behind": stream.days_behind,
        "resumes_at": iso_text(stream.resumes_at),
        "read_at": iso_text(stream.read_at),
        "dag_url": dag_url(stream.dag["dag_id"]),
        "task_url": task_page_url(stream.dag["dag_id"], stream.task_id),
        "log_url": _log_url(stream),
        "failed_runs": [_failed_run_json(run) for run in stream.failed_runs[:_MAX_FAILED_RUNS]],
    }


def _label(stream_key: str) -> str:
    return _HASH.sub("", stream_key)


def _log_url(stream: Stream) -> str | None:
    newest = stream.newest_instance
    return (
        None
        if newest is None
        else task_url(stream.dag["dag_id"], newest.run_id, stream.task_id, max(newest.map_index, stream.map_index))
    )


def _failed_run_json(run: TaskRun) -> dict[str, Any]:
    first, last = run.days or (None, None)
    url = task_url(run.dag_id, run.run_id, run.task_id, run.map_index)
    return {"run_id": run.run_id, "first_day": iso_text(first), "last_day": iso_text(last), "task_url": url}


def iso_text(value: dt.date | dt.datetime | None) -> str | None:
    """Format a day or an instant as ISO 8601. Instants become UTC."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    return None if value is None else value.isoformat()


def day_json(stream: Stream, day: CalendarDay) -> dict[str, Any]:
    """Convert a day of the calendar to JSON."""
    report, run = day.report, day.run
    run_id = run.run_id if run is not None else (report.run_id if report is not None else None)
    return {
        "day": iso_text(day.day),
        "state": day.state,
        "generation": report.generation if report else None,
        "rows": report.rows if report else None,
        "bytes": report.size_bytes if report else None,
        "rejected": report.rejected if report else None,
        "reloaded": report is not None and (report.generation or 0) > 1,
        "run_id": run_id,
        "run_url": None if run_id is None else run_url(stream.dag["dag_id"], run_id),
        "link": report.link if report else None,
        "reported_at": iso_text(_reported_at(day)),
        "warnings": list(report.warnings) if report else [],
    }


def generation_json(stream: Stream, report: RunDayReport) -> dict[str, Any]:
    """Convert one run's report of a day to JSON."""
    dag_id = stream.dag["dag_id"]
    return {
        "generation": report.generation,
        "status": report.status,
        "run_id": report.run_id,
        "run_url": run_url(dag_id, report.run_id),
        "task_url": task_url(dag_id, report.run_id, stream.task_id, report.map_index),
        "rows": report.rows,
        "bytes": report.size_bytes,
        "rejected": report.rejected,
        "published_at": iso_text(report.reported_at),
        "link": report.link,
        "warnings": [*report.warnings, *([report.message] if report.message else [])],
        "rejects": list(report.rejects),
    }


async def run_json(airflow: AirflowApi, stream: Stream, run: TaskRun, day: dt.date) -> dict[str, Any]:
    """Convert an unfinished run of a day to JSON. A failed run's report of the day is loaded first."""
    report = RunDayReport(day, run.state, run.run_id, run.map_index, run.state_since or stream.as_of)
    if run.phase == "failed":
        report = next(
            (
                candidate
                for candidate in await load_failed_reports(airflow, run)
                if candidate.day == day and stream.owns(candidate)
            ),
            report,
        )
        report = report if report.message else replace(report, message=await load_failure_message(airflow, run))
    return generation_json(stream, report) | {"published_at": None, "task_at": iso_text(run.state_since)}


def _reported_at(day: CalendarDay) -> dt.datetime | None:
    times = [day.report.reported_at if day.report else None, day.run.state_since if day.run else None]
    return max((time for time in times if time is not None), default=None)
