"""Reading a snapshot of PostgreSQL in chunks: how much faster several tasks at once are than one after the other.

``python tests/benchmarks/sql_chunks.py [--rows N] [--chunks N]``

The chunks share one exported snapshot, as in a job. Each is polled and frozen in a process of its own that is warm when
the clock starts. The database runs on the same machine: with two tasks at once it has four processes of two cores to
share with them, so that the gain here is the least that there is. Rounds alternate; the rules of ``day.py`` hold.
"""

from __future__ import annotations

import argparse
import datetime as dt
import multiprocessing
import os
import sys
import tempfile
import time
from typing import Any

from day import show, warm_up
from sql import NAME, POSTGRESQL

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from airflow_provider_connect.window import Day
from tests.equipment.sql.servers import PostgreSQLServer


def freeze_chunk(task: str, schema: Any, connection: Connection) -> int:
    """Poll and freeze one chunk; return its rows."""
    (polled,) = stage_partition(PollTask.model_validate_json(task), schema, connection).values()
    return polled.rows_written


def read(connection: Connection, chunks: int, at_once: int) -> tuple[float, int]:
    """Read the table in chunks, so many at a time; return the seconds and the rows."""
    source = SqlSource(conn_id=connection.conn_id, table="t", key=("id",), snapshot="replace", parallel_chunks=chunks)
    with tempfile.TemporaryDirectory() as stage, multiprocessing.get_context("spawn").Pool(at_once) as pool:
        for started in [pool.apply_async(warm_up) for _ in range(at_once)]:
            started.get()
        with source.open(connection, PollContext()) as poller:
            schema, parts = poller.schema(), poller.plan([Day(date=dt.datetime.now(dt.UTC).date())])
            tasks = [
                PollTask(
                    source_name=source.name,
                    source=source.serialize(),
                    part=part,
                    root=stage,
                    attempts=("benchmark",),
                    progress_seconds=60,
                ).model_dump_json()
                for part in parts
            ]
            begun = time.perf_counter()
            rows = pool.starmap(freeze_chunk, [(task, schema, connection) for task in tasks], chunksize=1)
            return time.perf_counter() - begun, sum(rows)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # as the job sets it for its executors
    cores = os.cpu_count() or 1
    with PostgreSQLServer() as server, server.database(NAME):
        server.run(POSTGRESQL.format(rows=asked.rows), database=NAME)
        connection = server.connection(NAME)
        found: dict[int, list[float]] = {1: [], cores: []}
        for _ in range(asked.rounds):
            for at_once, seconds in found.items():
                took, rows = read(connection, asked.chunks, at_once)
                assert rows == asked.rows
                seconds.append(took)
    for at_once, seconds in found.items():
        show(f"{asked.chunks} chunks, {at_once} at a time", seconds, "s")
    show("  as a ratio to one at a time", [many / one for one, many in zip(*found.values(), strict=True)], "x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
