"""A day that is polled and staged, for the benchmarks of publishing it."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import shutil
import time
from pathlib import Path
from typing import Any

from day import DAYS, SOURCE, Bench, warm_up

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.manifest import Manifest, PollResult, SeenPublish
from airflow_provider_connect.window import Day

KEY = StreamKey(connector="mixpanel", stream="benchmark.export")


def stage_day(bench: Bench, stage: str) -> tuple[float, PollResult]:
    """Poll the first day in a process that has imported everything; return its seconds and what it staged."""
    shutil.rmtree(stage, ignore_errors=True)
    Path(stage).mkdir()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(warm_up)
        return pool.apply(_freeze, (bench.connection, DAYS[0], stage))


def _freeze(connection: Connection, date: dt.date, stage: str) -> tuple[float, PollResult]:
    from airflow_provider_connect.spark.poll import PollTask, stage_partition

    with MixpanelSource.from_options(SOURCE).open(connection, PollContext()) as poller:
        schema, (part,) = poller.schema(), poller.plan([Day(date=date)])
    task = PollTask(source_name="mixpanel", source=SOURCE, part=part, root=stage, attempts=("a-1",), progress_seconds=5)
    started = time.perf_counter()
    polled = stage_partition(task, schema, connection)[date]
    return time.perf_counter() - started, polled


def publish_of(stage: str, polled: PollResult, order: int) -> Publish:
    """Return the publish of what was staged.

    :param order: of its run, starting at 1; a later one replaces what the one before it published.
    """
    day = Day(date=DAYS[0])
    seen = SeenPublish(day=day.date, generation=order - 1) if order > 1 else SeenPublish()
    manifest = Manifest(
        day=day, seen=seen, attempt=f"{order:016x}-000001-{day.date:%Y%m%d}", fingerprint="f", polled=polled
    )
    intent = Intent(token=f"{order:032x}", run="dag/run/task")
    with MixpanelSource.from_options(SOURCE).open(Connection(conn_id="benchmark"), PollContext()) as poller:
        schema = poller.schema()
    return Publish(key=KEY, day=day, intent=intent, manifest=manifest, schema=schema, stage=stage)


def in_new_process(function: Any, *arguments: Any) -> Any:
    """Run a function in a process of its own that has imported what one has that polled; its memory is its own too.

    Arrow's pool is what the job sets for its executors.
    """
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(warm_up)
        return pool.apply(function, arguments)
