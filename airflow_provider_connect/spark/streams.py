"""Runs the streams of a job concurrently in one Spark application. Each is run like a job of one stream."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_provider_connect import registry
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.errors import Failure
from airflow_provider_connect.job import DayReport, JobConfig, JobReport
from airflow_provider_connect.sink import Connections, Sink, StreamKey
from airflow_provider_connect.source import Source
from airflow_provider_connect.spark.capabilities.allowance import RequestBudget
from airflow_provider_connect.spark.composition import run_job
from airflow_provider_connect.spark.days.publish import report_of_published
from airflow_provider_connect.spark.progress import log_line, naming_stream
from airflow_provider_connect.streams_job import StreamsJob, StreamsReport

_FIRST_TRY = "1"


def run_streams(job: StreamsJob, connections: Connections, wait_for_context: Callable[[], Any]) -> StreamsReport:
    """Move the days of all streams. A stream's error fails only that stream."""
    ended_counts = itertools.count(1)  # next() is safe in several threads

    def run(stream: JobConfig) -> JobReport:
        try:
            source: Source = registry.source_class(stream.source_name).from_options(stream.source)
        except Exception as error:  # noqa: BLE001  # it fails this stream alone
            failure = Failure.from_error(error)
            log_line(f"failed: {failure.message} ({next(ended_counts)} of {len(job.streams)} streams)")
            return JobReport(attempt=stream.attempt, failure=failure)
        with naming_stream(source.stream_key):
            report = _run_stream(stream, source, connections, wait_for_context)
            state = "done" if report.failure is None else f"failed: {report.failure.message}"
            log_line(f"{state} ({next(ended_counts)} of {len(job.streams)} streams)")
        return report

    with ThreadPoolExecutor(min(job.parallel_streams, len(job.streams)), "stream") as pool:
        return StreamsReport(attempt=job.attempt, streams=tuple(pool.map(run, job.streams)))


def _run_stream(
    job: JobConfig, source: Source, connections: Connections, wait_for_context: Callable[[], Any]
) -> JobReport:
    started, budget = time.monotonic(), RequestBudget(job.allowance, job.count_allowance)
    try:
        report = _published_report(job, source, connections)
        if report is None:
            report = run_job(job, connections, started, budget, wait_for_context)
    except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
        report = JobReport(attempt=job.attempt, failure=Failure.from_error(error))
    return report.model_copy(update={"seconds": report.seconds | {"total": time.monotonic() - started}})


def _published_report(job: JobConfig, source: Source, connections: Connections) -> JobReport | None:
    """Return the report of a stream whose days an earlier try has all published. None if a day may be missing."""
    if job.lookback or job.labels.get("try_number", _FIRST_TRY) == _FIRST_TRY:
        return None
    sink: Sink = registry.sink_class(job.sink_name).from_options(job.sink)
    key = StreamKey(connector=source.name, stream=source.stream_key)
    reports: list[DayReport] = []
    with closing_quietly(sink.open(key, connections), log_line) as publisher:
        for day in job.days:
            row = publisher.ledger.published(day.date, job.intent.token)
            if row is None:
                return None
            reports.append(report_of_published(day, row))
    return JobReport.from_days(job.attempt, reports)
