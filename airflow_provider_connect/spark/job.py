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
from pathlib import Path

from airflow_provider_connect.connection import read_connections
from airflow_provider_connect.errors import Failure, RetriableError
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.spark import application, watchdog
from airflow_provider_connect.spark.capabilities.allowance import RequestBudget
from airflow_provider_connect.spark.progress import log_line

JOB_FILE, CONNECTIONS_FILE, LOCK_FILE = "job.json", "connections.json", "alive.lock"


def main(argv: list[str]) -> int:
    """Run the job in the file ``argv[1]``. Returns the exit code."""
    started = time.monotonic()
    job_file = _find_file(Path(argv[1]))
    watchdog.start(job_file.with_name(LOCK_FILE))
    job = JobConfig.model_validate_json(job_file.read_text(encoding="utf-8"))
    job_file.unlink()
    budget = RequestBudget(job.allowance, job.count_allowance)
    try:
        report = _run(job, _connections(job, job_file), started, budget)
    except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
        report = JobReport(attempt=job.attempt, failure=Failure.from_error(error))
    seconds = report.seconds | {"total": time.monotonic() - started}
    report = report.model_copy(
        update={"seconds": seconds} | budget.report_fields() | budget.count_budget.report_fields()
    )
    try:
        _write(job.report, report)
    except BaseException:
        _log_failure(report)
        raise
    if job.is_remote and not any(day.failure == report.failure for day in report.days):
        _log_failure(report)
    return report.exit_code


def _log_failure(report: JobReport) -> None:
    if report.failure is not None:
        log_line(f"{report.failure.type}: {report.failure.message}")


def _run(job: JobConfig, connections: Connections, started: float, budget: RequestBudget) -> JobReport:
    starting = application.start_context()
    # Imported while the JVM starts: pyarrow, and all that moves days.
    from airflow_provider_connect.spark.composition import run_job  # noqa: PLC0415

    return run_job(job, connections, started, budget, starting)


def _connections(job: JobConfig, job_file: Path) -> Connections:
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


def _write(target: str, report: JobReport) -> None:
    from airflow_provider_connect.stage.storage import Folder  # noqa: PLC0415

    folder, _, name = target.rpartition("/")
    Folder(folder).write(name, report.model_dump_json().encode())


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stdout.flush()
    sys.stderr.flush()
    # Without SparkContext.stop(), which would wait a second: the JVM's own hook stops it too.
    os._exit(code)
