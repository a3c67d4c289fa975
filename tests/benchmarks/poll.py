"""Polls one big day from the stand-in and writes it as Parquet, beside ``curl --compressed`` of the same day.

``python tests/benchmarks/poll.py [--events 500000] [--rounds 3]``. The reading rounds run one after the other, curl
and poll in turn, so that both meet the same machine. The figures are ratios: seconds mean little elsewhere.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import multiprocessing
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.prefetch import prefetch
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.tally import Tally
from airflow_provider_connect.window import Day

DATE = dt.date(2026, 11, 1)
USER, PROJECT = "demo.service-account", "1234567"
ROW_GROUP_ROWS = 64_000


class Measured(NamedTuple):
    seconds: float
    cpu_seconds: float
    peak_mb: float
    rows: int
    raw_bytes: int
    wire_bytes: int
    counts: str


def warm_up() -> None:
    """Import what a long-lived worker has imported."""
    for name in ("isal.isal_zlib", "msgspec", "numpy", "pyarrow.compute", "pyarrow.parquet", "xxhash"):
        importlib.import_module(name)


def poll_once(url: str, output: str) -> Measured:
    """Poll and write, in a process of its own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = MixpanelSource(promote={"$browser": "string", "$screen_width": "bigint"})
    connection = Connection(conn_id="m", host=url, login=USER, password="demo-secret", extra={"project_id": PROJECT})
    (part,) = source.plan(Day(date=DATE), connection)
    tally = Tally()
    cpu, wall = time.process_time(), time.perf_counter()
    rows = 0
    held: list[pa.RecordBatch] = []
    with (
        pq.ParquetWriter(
            output,
            source.row_schema(),
            compression="zstd",
            compression_level=1,
            use_dictionary=["event", "key_origin", "$browser"],
        ) as writer,
        closing(prefetch(source.poll(part, connection, tally), 2)) as batches,
    ):
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if sum(one.num_rows for one in held) >= ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held), row_group_size=1 << 20)
                held.clear()
        if held:
            writer.write_table(pa.Table.from_batches(held), row_group_size=1 << 20)
    seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(seconds, cpu, peak_mb, rows, tally.raw_bytes, tally.wire_bytes, str(dict(tally.counts)))


def curl_once(url: str) -> float:
    """Return the seconds that curl takes for the day."""
    day = DATE.isoformat()
    address = f"{url}/api/2.0/export?from_date={day}&to_date={day}&project_id={PROJECT}"
    started = time.perf_counter()
    subprocess.run(
        ["curl", "--fail", "--silent", "--compressed", "--user", f"{USER}:demo-secret", "-o", "/dev/null", address],
        check=True,
    )
    return time.perf_counter() - started


def main() -> int:
    """Run the rounds and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", type=Path, help="folder that keeps the compressed day")
    options = parser.parse_args()
    if shutil.which("curl") is None:
        sys.exit("this benchmark needs curl")
    with tempfile.TemporaryDirectory() as folder:
        server = start_standin(options.events, options.cache)
        try:
            url = server.stdout.readline().split()[-1]
            ratios = [show_round(url, Path(folder)) for _ in range(options.rounds)]
            print(f"median ratio {statistics.median(ratios):.2f}")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(10)
            server.stdout.close()
    return 0


def start_standin(events: int, cache: Path | None) -> subprocess.Popen[str]:
    """Start the stand-in with the day ready."""
    module = "airflow_provider_connect.demo.mixpanel_server"
    return subprocess.Popen(
        [sys.executable, "-m", module, "--events-per-day", str(events), "--duplicates-per-day", str(events // 1000)]
        + ["--prepare", DATE.isoformat(), "--exit-with-parent"]
        + (["--cache", str(cache)] if cache else []),
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


def show_round(url: str, folder: Path) -> float:
    """Run curl, poll, curl, and print one line."""
    before = curl_once(url)
    output = folder / "day.parquet"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(warm_up)
        measured = pool.apply(poll_once, (url, str(output)))
    curl = (before + curl_once(url)) / 2
    ratio = measured.seconds / curl
    print(
        f"curl {curl:.2f} s  poll {measured.seconds:.2f} s  ratio {ratio:.2f}  cpu {measured.cpu_seconds:.2f} s  "
        f"peak {measured.peak_mb:.0f} MB  {measured.rows} rows  {measured.raw_bytes / 1e6:.0f} MB raw  "
        f"{measured.wire_bytes / 1e6:.1f} MB gzip  {output.stat().st_size / 1e6:.0f} MB parquet  {measured.counts}",
        flush=True,
    )
    return ratio


if __name__ == "__main__":
    sys.exit(main())
