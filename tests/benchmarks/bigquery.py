"""Publishes of a staged day into the BigQuery emulator, beside ``curl --compressed`` of the same day.

Each round publishes the day into a table of its own, and then again, as a reload does: with ``differences="off"``, and
with the default, which compares the rows. The emulator works on the same cores and is no BigQuery. Its CPU seconds are
shown apart, and its wall time is part of ours. Days come from the stand-in of ``day.py``, whose rules hold.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from day import DAYS, Bench, show, standin
from staged_day import KEY, in_new_process, publish_of, stage_day

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.stage.manifest import PollResult
from tests.standins.bigquery_emulator import BigQueryEmulator

PUBLISHES: dict[str, dict[str, str]] = {
    "first publish": {"differences": "off"},
    "reload without differences": {"differences": "off"},
    "reload": {},
}


class Published(NamedTuple):
    """One staged day, published in a warm process; seconds of ``put`` are those of sending the rows."""

    seconds: float
    put_seconds: float
    commit_seconds: float
    cpu_seconds: float
    emulator_cpu_seconds: float
    peak_mb: float


def publish(
    options: dict[str, Any], connection: Connection, stage: str, polled: PollResult, order: int, pid: int
) -> Any:
    """Publish a staged day, as driver and executor do together."""
    sink, emulator = BigQuerySink.from_options(options), psutil.Process(pid)
    connections = {sink.conn_id: connection}
    job = publish_of(stage, polled, order)
    driver, executor = sink.open(KEY, connections), sink.open(KEY, connections)
    problems = driver.preflight(job.schema, (), "day")
    assert problems == [], problems
    cpu, theirs, started = time.process_time(), sum(emulator.cpu_times()[:2]), time.perf_counter()
    token = driver.begin(job)
    putting = time.perf_counter()
    receipts = [executor.put(token, stage, (file,)) for file in polled.files]
    committing = time.perf_counter()
    row = driver.commit(job, token, receipts)
    ended = time.perf_counter()
    driver.close()
    executor.close()
    assert row.rows == polled.rows_written, (row.rows, polled.rows_written)
    return Published(
        ended - started,
        committing - putting,
        ended - committing,
        time.process_time() - cpu,
        sum(emulator.cpu_times()[:2]) - theirs,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def measure(bench: Bench, emulator: BigQueryEmulator, rounds: int, method: str) -> None:
    """Publish one staged day into new tables, and load it again, beside curl."""
    assert emulator.process is not None
    connection = Connection(
        conn_id="google_cloud_default", conn_type="google_cloud_platform", extra=emulator.connection_extra
    )
    stage, pid = str(bench.folder / "stage"), emulator.process.pid
    curls: list[float] = []
    publishes: dict[str, list[Published]] = {name: [] for name in PUBLISHES}
    for number in range(rounds + 1):
        curl = bench.curl(DAYS[0])
        _, polled = stage_day(bench, stage)
        options = {"table": f"benchmark.events_{number}", "load_method": method}
        for order, (name, more) in enumerate(PUBLISHES.items(), 1):
            one = in_new_process(publish, options | more, connection, stage, polled, order, pid)
            if number:  # in the first round the emulator imports what it needs
                publishes[name].append(one)
        if number:
            curls.append((curl + bench.curl(DAYS[0])) / 2)
    print(f"load_method={method}: {polled.rows_written:,} rows")
    show("curl --compressed", curls, "s")
    for name, rows in publishes.items():
        print(f"{name}:")
        show("  wall", [row.seconds for row in rows], "s")
        show("    of which sending the rows", [row.put_seconds for row in rows], "s")
        show("    of which commit and transaction", [row.commit_seconds for row in rows], "s")
        show("  wall, ratio to curl", [row.seconds / curl for row, curl in zip(rows, curls, strict=True)], "x")
        show("  CPU of the client", [row.cpu_seconds for row in rows], "s")
        show("  CPU of the emulator", [row.emulator_cpu_seconds for row in rows], "s")
        show("  peak memory of the process", [row.peak_mb for row in rows], "MB")


def main() -> int:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--events", type=int, default=100_000, help="events of a day. The emulator times out on reloads of 500,000"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--method", choices=["storage_write", "load_job"], default="storage_write")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "connect-benchmark", help="keeps the made days"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        emulator = BigQueryEmulator(log=Path(folder) / "emulator.log")
        emulator.start()
        try:
            emulator.create_dataset("benchmark")
            with standin(options.events, DAYS[:1], options.cache) as url:
                measure(Bench(url, Path(folder)), emulator, options.rounds, options.method)
        finally:
            emulator.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
