"""Prints what several days in one export cost: ``python tests/benchmarks/mixpanel_span.py``.

Thirty days of the stand-in are polled and staged as an executor does it, with 1, 6 and 30 days in a request; once with
the days of an answer in turn, once with all their lines mixed. The stand-in answers at once, so only the work here is
measured: what a real server takes to begin each answer comes on top, once a request. Seconds of a processor are
compared, which other work on the machine changes least.
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from airflow_provider_connect.window import days_between, group_days
from tests.standins.mixpanel.bodies import DayStore
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn

EVENTS_A_DAY = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
DAYS = days_between(dt.date(2026, 3, 1), dt.date(2026, 3, 30), "UTC")
SIZES = (1, 6, 30)


def poll(connection: Connection, size: int) -> tuple[float, float, float, int]:
    """Poll and stage all days; return seconds, those of the processor, the peak of memory in MB, and rows."""
    source = MixpanelSource(conn_id="m", days_per_request=size)
    rows = 0
    with tempfile.TemporaryDirectory() as root, source.open(connection, PollContext()) as poller:
        schema = poller.schema()
        for is_measured in (False, True):  # the stand-in makes and compresses its bodies the first time
            started, worked = time.perf_counter(), time.process_time()
            for group in group_days(DAYS, size):
                for part in poller.plan(group):
                    task = PollTask(
                        source_name="mixpanel",
                        source=source.serialize(),
                        part=part,
                        root=root,
                        attempts=tuple(f"{is_measured}-{day.date:%Y%m%d}" for day in group),
                        progress_seconds=60,
                    )
                    rows += sum(polled.rows_written for polled in stage_partition(task, schema, connection).values())
            seconds, work = time.perf_counter() - started, time.process_time() - worked
    return seconds, work, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, rows // 2


def mixed(lines: Callable[..., Iterator[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Return the lines of all dates in one order that knows no days."""

    def shuffled(self: DayStore, dates: Any, unit: Any) -> Iterable[bytes]:
        found = list(lines(self, dates, unit))
        random.Random(7).shuffle(found)
        return iter(found)

    return shuffled


def main() -> None:
    """Measure each size in a process of its own, for its peak of memory."""
    in_turn = DayStore.lines
    for order in ("in turn", "mixed"):
        DayStore.lines = in_turn if order == "in turn" else mixed(in_turn)  # type: ignore[method-assign]
        with StandIn(Project(events_per_day=EVENTS_A_DAY)) as server:
            connection = Connection(
                conn_id="m",
                conn_type="mixpanel",
                host=server.url,
                login=server.account.username,
                password=server.account.secret,
                extra={"project_id": str(server.account.project_id)},
            )
            alone = 0.0
            for size in SIZES:
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    seconds, work, megabytes, rows = pool.apply(poll, (connection, size))
                alone = alone or work
                requests = -(-len(DAYS) // size)
                print(
                    f"{order}, {size:2} days in a request: {requests:2} requests, {rows:,} rows in {seconds:.1f} s, "
                    f"{work:.1f} s of a processor ({work / alone:.2f} of one by one), peak {megabytes:.0f} MB"
                )
        DayStore.lines = in_turn  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
