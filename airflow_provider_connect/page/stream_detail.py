"""Answers about one stream: its days, expected rows, quota, and running backfill."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.page.airflow_api import RefusedError, quote_path
from airflow_provider_connect.page.airflow_queries import add_figures, read_variables
from airflow_provider_connect.page.answer_json import day_json, generation_json, iso_text, run_json, stream_json
from airflow_provider_connect.page.backfills import backfill_json, missing_json
from airflow_provider_connect.page.facts.calendar import BAND_LOOKBACK_DAYS, calendar_days, row_bands
from airflow_provider_connect.page.facts.quota import public_connection, quota_usage
from airflow_provider_connect.page.facts.reports import RunDayReport
from airflow_provider_connect.page.facts.stream import Stream, StreamName
from airflow_provider_connect.page.stream_list import load_stream
from airflow_provider_connect.page.viewer import Viewer
from airflow_provider_connect.polling.quota.book import prefix_of
from airflow_provider_connect.registry import quota_of
from airflow_provider_connect.window import ONE_DAY

MAX_DAYS = 3660
_DEFAULT_DAYS = 366


async def show_stream(viewer: Viewer, name: StreamName, first: dt.date | None, last: dt.date | None) -> dict[str, Any]:
    """Return a stream with its days from ``first`` to ``last``, both included. The default is the last year.

    :raises RefusedError: the range is empty or too long.
    """
    end = last or viewer.requested_at.date()
    begin = first or max(dt.date.min + ONE_DAY * BAND_LOOKBACK_DAYS, end - ONE_DAY * (_DEFAULT_DAYS - 1))
    _require_window(begin, end)
    since = _earliest_midnight(begin) - ONE_DAY * BAND_LOOKBACK_DAYS
    stream = await load_stream(viewer, name, since)
    quota, backfill, missing_days = await asyncio.gather(
        _load_quota_usage(viewer, stream), backfill_json(viewer, stream), missing_json(viewer, stream)
    )
    days = calendar_days(stream, begin, end)
    rows = {day: report.rows for day, report in stream.newest_reports.items() if report.rows is not None}
    return {
        "as_of": viewer.requested_at.isoformat(),
        "stream": stream_json(stream),
        "origin": iso_text(stream.offset.origin if stream.offset else None),
        "first_day": iso_text(stream.first_day),
        "from": iso_text(begin),
        "to": iso_text(end),
        "days": [day_json(stream, day) for day in days],
        "band": [
            {"day": iso_text(band.day), "low": band.low, "high": band.high}
            for band in row_bands(rows, (day.day for day in days))
        ],
        "quota": quota,
        "backfill": backfill,
        "missing": missing_days,
    }


async def show_day(viewer: Viewer, name: StreamName, day: dt.date) -> dict[str, Any]:
    """Return a day of a stream: its unfinished runs, then its reports, newest first."""
    stream = await load_stream(viewer, name, _earliest_midnight(day))
    (calendar_day,) = calendar_days(stream, day, day)
    reports = sorted((report for report in stream.reports if report.day == day), key=_newest_first)
    reports = list(
        await asyncio.gather(*(add_figures(viewer.airflow, name.dag_id, name.task_id, report) for report in reports))
    )
    runs = [run for run in (*stream.active_runs, *stream.failed_runs) if run.covers(day)]
    entries = await asyncio.gather(*(run_json(viewer.airflow, stream, run, day) for run in runs))
    return {
        "as_of": viewer.requested_at.isoformat(),
        "day": day_json(stream, calendar_day),
        "generations": [*entries, *(generation_json(stream, report) for report in reports)],
    }


def _require_window(first: dt.date, last: dt.date) -> None:
    if first > last:
        raise RefusedError(422, f"from={first} is after to={last}")
    if (last - first).days >= MAX_DAYS:
        raise RefusedError(422, f"{first} to {last} are more than {MAX_DAYS} days. Request fewer days")


def _newest_first(report: RunDayReport) -> tuple[int, float]:
    return -(report.generation or 0), -report.reported_at.timestamp()


def _earliest_midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC) - ONE_DAY


async def _load_quota_usage(viewer: Viewer, stream: Stream) -> dict[str, Any] | None:
    source = stream.connectors.source
    if source is None:
        return None
    connection = await viewer.airflow.get_if_allowed(quote_path("connections", source.conn_id))
    if connection is None:
        return None
    try:
        quota = quota_of(source, public_connection(connection))
    except ConnectError:
        return None
    quota_variables = None if quota is None else await read_variables(viewer.airflow, prefix_of(quota))
    return (
        None
        if quota is None or quota_variables is None
        else quota_usage(quota, quota_variables, viewer.requested_at) | {"conn_id": source.conn_id}
    )
