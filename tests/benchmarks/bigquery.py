"""Publishing a staged day into the BigQuery emulator, as ratios to ``curl --compressed`` of the same day.

The emulator works on the same cores and is no BigQuery: what it costs is measured as the CPU seconds of its process
and shown apart. The client's own share is what a real service would leave: its CPU, and the wall time less the
emulator's CPU. Days come from the stand-in of ``day.py``, and the rules of that file hold.
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


class Published(NamedTuple):
    """One staged day, published in a warm process; seconds of ``put`` are those of sending the rows."""

    seconds: float
    put_seconds: float
    commit_seconds: float
    cpu_seconds: float
    emulator_cpu_seconds: float
    peak_mb: float

    @property
    def own_seconds(self) -> float:
        """Wall time without what the emulator computed; it is less than that where both worked side by side."""
        return max(self.seconds - self.emulator_cpu_seconds, self.cpu_seconds)


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
    """Publish one staged day a few times beside curl."""
    assert emulator.process is not None
    connection = Connection(
        conn_id="google_cloud_default", conn_type="google_cloud_platform", extra=emulator.connection_extra
    )
    stage = str(bench.folder / "stage")
    options = {"table": "benchmark.events", "load_method": method}
    curls, done, polls = [], [], []
    for turn in range(rounds + 1):
        before = bench.curl(DAYS[0])
        poll_seconds, polled = stage_day(bench, stage)
        one = in_new_process(publish, options, connection, stage, polled, turn + 1, emulator.process.pid)
        if turn:  # the first one makes the table, and the emulator imports what it needs
            curls.append((before + bench.curl(DAYS[0])) / 2)
            done.append(one)
            polls.append(poll_seconds)
    print(f"load_method={method}: {polled.rows_written:,} rows")
    show("curl --compressed", curls, "s")
    show("publish, warm: wall", [each.seconds for each in done], "s")
    show("  of which sending the rows", [each.put_seconds for each in done], "s")
    show("  of which commit and transaction", [each.commit_seconds for each in done], "s")
    show("  CPU of the client", [each.cpu_seconds for each in done], "s")
    show("  CPU of the emulator", [each.emulator_cpu_seconds for each in done], "s")
    pairs = list(zip(done, curls, strict=True))
    show("  wall without the emulator, ratio to curl", [each.own_seconds / curl for each, curl in pairs], "x")
    show("  wall, ratio to curl", [each.seconds / curl for each, curl in pairs], "x")
    with_poll = [(poll + each.own_seconds) / curl for each, curl, poll in zip(done, curls, polls, strict=True)]
    show("  poll included, without the emulator", with_poll, "x")
    show("  peak memory of the process", [each.peak_mb for each in done], "MB")


def main() -> int:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000, help="events of a day")
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
