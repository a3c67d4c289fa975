"""The driver's script. Its only argument is the path of a job file.

The file's folder also holds the connections (deleted once read) and the task's lock file. The driver always writes a
report, whose failure decides the exit code.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Python puts this folder first on the path, where its files would hide modules of the same name.
    del sys.path[0]

import os
import time
from collections.abc import Iterable
from pathlib import Path

from airflow_provider_connect.connection import read_connections
from airflow_provider_connect.errors import Failure, RetriableError
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.spark import application, watchdog
from airflow_provider_connect.spark.capabilities.allowance import RequestBudget
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.streams_job import StreamsJob, StreamsReport, parse_job

JOB_FILE, CONNECTIONS_FILE, LOCK_FILE = "job.json", "connections.json", "alive.lock"


def main(argv: list[str]) -> int:
    """Run the job in the file ``argv[1]``. Returns the exit code."""
    started = time.monotonic()
    job_file = _find_file(Path(argv[1]))
    watchdog.start(job_file.with_name(LOCK_FILE))
    job = parse_job(job_file.read_text(encoding="utf-8"))
    job_file.unlink()
    report = _run_one(job, job_file, started) if isinstance(job, JobConfig) else _run_many(job, job_file, started)
    try:
        _write(job.report, report)
    except BaseException:
        _log_failures(_stream_reports(report))
        raise
    if job.is_remote:
        _log_failures(report for report in _stream_reports(report) if not _is_logged(report))
    return report.exit_code


def _run_one(job: JobConfig, job_file: Path, started: float) -> JobReport:
    budget = RequestBudget(job.allowance, job.count_allowance)
    try:
        report = _run(job, _connections(job, job_file), started, budget)
    except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
        report = JobReport(attempt=job.attempt, failure=Failure.from_error(error))
    seconds = report.seconds | {"total": time.monotonic() - started}
    return report.model_copy(update={"seconds": seconds} | budget.report_fields() | budget.count_budget.report_fields())


def _run(job: JobConfig, connections: Connections, started: float, budget: RequestBudget) -> JobReport:
    wait_for_context = application.start_context(job.concurrent_polls)
    # Imported while the JVM starts: pyarrow, and all that moves days.
    from airflow_provider_connect.spark.composition import run_job  # noqa: PLC0415

    report = run_job(job, connections, started, budget, wait_for_context)
    application.silence_shutdown_log(wait_for_context())
    return report


def _run_many(job: StreamsJob, job_file: Path, started: float) -> StreamsReport:
    try:
        connections, wait_for_context = _connections(job, job_file), application.start_context()
        from airflow_provider_connect.spark.streams import run_streams  # noqa: PLC0415

        wait_for_context()
        start_seconds = time.monotonic() - started
        report = run_streams(job, connections, wait_for_context)
        application.silence_shutdown_log(wait_for_context())
    except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
        failure, start_seconds = Failure.from_error(error), 0.0
        streams = tuple(JobReport(attempt=stream.attempt, failure=failure) for stream in job.streams)
        report = StreamsReport(attempt=job.attempt, streams=streams)
    total_seconds = time.monotonic() - started
    seconds = {"start": start_seconds, "work": total_seconds - start_seconds, "total": total_seconds}
    return report.model_copy(update={"seconds": seconds})


def _stream_reports(report: JobReport | StreamsReport) -> tuple[JobReport, ...]:
    return (report,) if isinstance(report, JobReport) else report.streams


def _is_logged(report: JobReport) -> bool:
    """Return True if a line about a day has the report's failure."""
    return any(day.failure == report.failure for day in report.days)


def _log_failures(reports: Iterable[JobReport]) -> None:
    for report in reports:
        if report.failure is not None:
            log_line(f"{report.failure.type}: {report.failure.message}")


def _connections(job: JobConfig | StreamsJob, job_file: Path) -> Connections:
    if job.sealed_connections is not None:
        from airflow_provider_connect.submit import sealed  # noqa: PLC0415  # it needs pyarrow

        return sealed.unseal(job.sealed_connections)
    file = job_file.with_name(CONNECTIONS_FILE)
    try:
        return read_connections(file)
    except FileNotFoundError:
        raise RetriableError(
            f"{file} is missing. A cleanup of the worker's temporary folder may have deleted it. "
            "The next try writes it again"
        ) from None
    finally:
        file.unlink(missing_ok=True)


def _find_file(path: Path) -> Path:
    """Return the path of the job file. In cluster mode, Spark puts it into the working folder."""
    return path if path.exists() else Path.cwd() / path.name


def _write(target: str, report: JobReport | StreamsReport) -> None:
    from airflow_provider_connect.stage.storage import Folder  # noqa: PLC0415

    folder, _, name = target.rpartition("/")
    Folder(folder).write(name, report.model_dump_json().encode())


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stdout.flush()
    sys.stderr.flush()
    # Without SparkContext.stop(), which would wait a second: the JVM's own hook stops it too.
    os._exit(code)
