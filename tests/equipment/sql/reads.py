"""Reads of the SQL source without Spark: a plain poll, and a poll into the stage with retries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext, Poller
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from airflow_provider_connect.window import Day


def polled(poller: Poller, part: InputPartition) -> list[dict[str, Any]]:
    """Return a partition's rows."""
    return [row for _, batch in poller.poll(part, Tally(part.days)) for row in batch.to_pylist()]


def polled_day(source: SqlSource, connection: Connection, day: Day) -> list[dict[str, Any]]:
    """Return a day's rows as a separate job reads them, one partition after the other."""
    with source.open(connection, PollContext()) as poller:
        return [row for part in poller.plan([day]) for row in polled(poller, part)]


def frozen(
    source: SqlSource, connection: Connection, part: InputPartition, schema: pa.Schema, stage: Path
) -> tuple[pa.Table, list[str]]:
    """Poll a partition as an executor does, with retries. Returns the staged rows and the reasons of the retries."""
    task = PollTask(
        source_name=source.name,
        source=source.model_dump(mode="json", exclude_defaults=True),
        part=part,
        root=str(stage),
        attempts=("0a-1-20261005",),
        progress_seconds=1,
    )
    retries: list[str] = []
    (staged,) = stage_partition(task, schema, connection, retry_notes=retries).values()
    # What is in the folder and is not named here was left by a try that failed, and is never read.
    tables = [pq.ParquetFile(stage / file.path).read() for file in staged.files]
    return pa.concat_tables(tables), retries
