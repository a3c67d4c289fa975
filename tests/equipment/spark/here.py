"""The driver in this process. Everything is real except Spark: each task runs immediately in the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.connection import write_connections
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.spark import application, watchdog
from airflow_provider_connect.spark import job as driver


class SparkHere:
    """Replaces the Spark context."""

    defaultParallelism = 1  # noqa: N815  # its own name

    def parallelize(self, items: list[Any], slices: int) -> Any:
        def map_partitions(run: Callable[[Iterable[Any]], Iterable[Any]]) -> Any:
            return SimpleNamespace(collect=lambda: [answer for item in items for answer in run([item])])

        return SimpleNamespace(mapPartitions=map_partitions)

    def setLogLevel(self, level: str) -> None:  # noqa: N802  # its own name
        pass


def drive(job: JobConfig, connections: Connections) -> JobReport:
    """Run the driver as spark-submit does, for a living task. The job's files are in the folder of its report."""
    report = Path(job.report)
    report.parent.mkdir(exist_ok=True)
    job_file = report.with_name(driver.JOB_FILE)
    job_file.write_text(job.model_dump_json())
    write_connections(report.with_name(driver.CONNECTIONS_FILE), connections)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "start_context", lambda polls=1: SparkHere)
        patch.setattr(watchdog, "is_task_alive", lambda: True)
        driver.main(["job.py", str(job_file)])
    return JobReport.model_validate_json(report.read_text())
