"""One case of ``make benchmark BASE=…``, measured once in a process of its own. Prints its figures as JSON.

The process imports the package of the commit that it measures. Servers belong to the process that compares, and both
commits meet the same ones.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from day import DAYS, Bench
from staged_day import KEY, in_new_process, publish_of, stage_day

from airflow_provider_connect.capabilities.publisher import StagesByExecutors
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.registry import sink_class
from airflow_provider_connect.stage.manifest import PollResult
from airflow_provider_connect.submit import launch

EMPTY_DAY = {"event": ["an event that no day has"]}


def poll(bench: Bench, _: argparse.Namespace) -> dict[str, float]:
    """Poll and stage a day in a warm process."""
    polled = bench.poll(DAYS[0])
    return {"wall, s": polled.seconds, "CPU, s": polled.cpu_seconds, "memory, MB": polled.peak_mb}


def cold_task(bench: Bench, _: argparse.Namespace) -> dict[str, float]:
    """Run a whole task of one day."""
    task = bench.task(DAYS[:1])
    return {"wall, s": task.seconds, "CPU, s": task.cpu_seconds, "memory, MB": task.peak_mb}


def empty_day(bench: Bench, _: argparse.Namespace) -> dict[str, float]:
    """Run a whole task of one day without rows."""
    task = bench.task(DAYS[:1], **EMPTY_DAY)
    return {"wall, s": task.seconds, "CPU, s": task.cpu_seconds}


def delta(bench: Bench, _: argparse.Namespace) -> dict[str, float]:
    """Publish a staged day into a new Delta table."""
    table, stage = str(bench.folder / "table"), str(bench.folder / "stage")
    _, polled = stage_day(bench, stage)
    with sink_class("delta").from_options({"path": table}).open(KEY, {}) as publisher:
        problems = publisher.preflight(publish_of(table, polled, 1).schema, (), "day")  # creates the table
    assert problems == [], problems
    shutil.copytree(stage, table, dirs_exist_ok=True)
    return _published("delta", {"path": table}, None, table, polled)


def kafka(bench: Bench, options: argparse.Namespace) -> dict[str, float]:
    """Publish a staged day into a new topic."""
    stage = str(bench.folder / "stage")
    _, polled = stage_day(bench, stage)
    connection = Connection(conn_id="kafka_default", conn_type="kafka", extra=json.loads(options.kafka))
    topic = {"topic": f"events-{time.time_ns()}", "partitions": 3, "replication_factor": 1}
    return _published("kafka", topic, connection, stage, polled)


def bigquery(bench: Bench, options: argparse.Namespace) -> dict[str, float]:
    """Publish a staged day into a new table of the emulator. Its own CPU is in the wall time alone."""
    stage = str(bench.folder / "stage")
    _, polled = stage_day(bench, stage)
    extra = json.loads(options.bigquery)
    connection = Connection(conn_id="google_cloud_default", conn_type="google_cloud_platform", extra=extra)
    return _published("bigquery", {"table": f"benchmark.events_{time.time_ns()}"}, connection, stage, polled)


CASES: dict[str, Callable[[Bench, argparse.Namespace], dict[str, float]]] = {
    "poll": poll,
    "cold task": cold_task,
    "empty day": empty_day,
    "delta publish": delta,
    "kafka publish": kafka,
    "bigquery publish": bigquery,
}


def publish(
    sink_name: str, options: dict[str, Any], connection: Connection | None, stage: str, polled: PollResult
) -> dict[str, float]:
    """Publish a staged day, as driver and executor do together."""
    sink = sink_class(sink_name).from_options(options)
    connections = {} if connection is None else {connection.conn_id: connection}
    job = publish_of(stage, polled, 1)
    with sink.open(KEY, connections) as driver:
        problems = driver.preflight(job.schema, (), "day")
        assert problems == [], problems
        cpu, started = time.process_time(), time.perf_counter()
        if isinstance(driver, StagesByExecutors):
            token = driver.begin(job)
            shares = driver.shares(polled.files)
            row = driver.commit(job, token, [driver.put(token, stage, share) for share in shares])
        else:
            row = driver.commit(job, None, [])
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert row.rows == polled.rows_written, (row.rows, polled.rows_written)
    return {
        "wall, s": seconds,
        "CPU, s": cpu,
        "memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _published(*arguments: Any) -> dict[str, float]:
    return dict(in_new_process(publish, *arguments))


def main() -> int:
    """Measure one case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--url", required=True, help="address of the stand-in for Mixpanel")
    parser.add_argument("--kafka", default="{}", help="extra of the broker's connection, as JSON")
    parser.add_argument("--bigquery", default="{}", help="extra of the emulator's connection, as JSON")
    options = parser.parse_args()
    os.environ.update(launch.LOCAL_ENV)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(CASES[options.case](Bench(options.url, Path(folder)), options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
