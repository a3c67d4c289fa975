"""Prints what a snapshot of many profiles costs: ``python tests/benchmarks/profiles.py [profiles] [page seconds]``.

The profiles come through ``engage`` from the stand-in, which takes its time for each page, into a Delta table: polled
and staged as an executor does it, published as the driver does. The seconds are compared with those that the pages
alone take, as many at once as the source asks for; the memory with that of a tenth of the profiles.
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel.query.profile_reader import CONCURRENT_PAGES
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from airflow_provider_connect.stage.manifest import Manifest, SeenPublish
from airflow_provider_connect.window import Day
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.server import StandIn

PROFILES = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
PAGE_SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0.2
PAGE_SIZE = 1000
TODAY = dt.datetime.now(dt.UTC).date()


def load(connection: Connection, root: str) -> tuple[float, float, int]:
    """Load one snapshot into a new table; return seconds, the peak of memory in MB, and rows."""
    source, sink = MixpanelSource(conn_id="m", stream="engage"), DeltaSink(path=root)
    key, day = StreamKey(connector=source.name, stream=source.stream_key), Day(date=TODAY)
    started = time.perf_counter()
    with source.open(connection, PollContext()) as poller, sink.open(key, {}) as publisher:
        schema = poller.schema()
        assert publisher.preflight(schema, [day], "snapshot") == []
        (part,) = poller.plan([day])
        task = PollTask(
            source_name=source.name,
            source=source.serialize(),
            part=part,
            root=root,
            attempts=("benchmark",),
            progress_seconds=60,
        )
        polled = stage_partition(task, schema, connection)[day.date]
        manifest = Manifest(day=day, attempt="benchmark", fingerprint="", polled=polled, seen=SeenPublish())
        intent = Intent(token="benchmark", run="benchmark")
        row = publisher.commit(
            Publish(key=key, day=day, intent=intent, manifest=manifest, schema=schema, stage=root, kind="snapshot"),
            None,
            [],
        )
    return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, row.rows


def serve(profiles: int, answers: Any) -> None:
    """Run the stand-in until nobody wants it."""
    with StandIn(Project(), people=People(users=profiles), engage=Engage(page_seconds=PAGE_SECONDS)) as server:
        answers.send(server.url)
        answers.recv()


def measure(profiles: int) -> tuple[float, float, int]:
    """Load so many profiles, the stand-in and the load each in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=serve, args=(profiles, theirs))
    server.start()
    try:
        account = StandIn(Project()).account
        connection = Connection(
            conn_id="m",
            conn_type="mixpanel",
            host=ours.recv(),
            login=account.username,
            password=account.secret,
            extra={"project_id": str(account.project_id)},
        )
        with tempfile.TemporaryDirectory() as folder, spawn.Pool(1) as pool:
            return pool.apply(load, (connection, str(Path(folder) / "profiles")))
    finally:
        ours.send(None)
        server.join()


def main() -> None:
    """Measure a tenth of the profiles, then all."""
    peaks = []
    for profiles in (PROFILES // 10, PROFILES):
        seconds, megabytes, rows = measure(profiles)
        peaks.append(megabytes)
        pages = -(-profiles // PAGE_SIZE)
        alone = PAGE_SECONDS * (1 + -(-(pages - 1) // CONCURRENT_PAGES))
        print(
            f"{rows:,} profiles in {seconds:.1f} s: {seconds / alone:.2f} of the {alone:.1f} s that {pages:,} pages "
            f"take, {CONCURRENT_PAGES} at once; {rows / seconds:,.0f} a second, peak {megabytes:.0f} MB "
            f"({megabytes / peaks[0]:.2f} of a tenth's)"
        )


if __name__ == "__main__":
    main()
