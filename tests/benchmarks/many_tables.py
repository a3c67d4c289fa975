"""Many small tables of one database in one task: the whole task.

``python tests/benchmarks/many_tables.py [--tables 100] [--rows 1000] [--parallel 4]``

A task of SQLite or PostgreSQL into Delta, first load and reload, in a process that also stands for the Airflow worker:
it lists the tables, starts Spark, waits, checks each ledger and writes each offset. Variables are in memory, as their
cost is Airflow's. dlt's sql_database loads the same hundred tables of SQLite into Delta in 3.9 s and 290 MB. Memory is
the peak of the driver's Python, CPU that of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import psutil

from airflow_provider_connect.connection import Connection
from tests.equipment.sql.servers import PASSWORD, READER, PostgreSQLServer

_TASK = """
import json, os, sys, time
from pathlib import Path
from tests.equipment.airflow.streams_task import StreamsTask
lake, tables, parallel = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
task = StreamsTask(lake, with_spark=True)
for day in (5, 6):
    operator = task.operator(tables, parallel_streams=parallel)
    started = time.monotonic()
    report = task.run(operator, day=day)
    assert not report["failed"], report["failed"]
    print("SECONDS", time.monotonic() - started, flush=True)
"""


def measure(command: list[str], env: dict[str, str]) -> str:
    """Run a program, and return its seconds, the CPU of all its processes, and the largest Python of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    cpu: dict[int, float] = {}
    peak: dict[int, tuple[str, int]] = {}
    end = threading.Event()

    def watch() -> None:
        while not end.wait(0.05):
            for child in [root := psutil.Process(process.pid), *root.children(recursive=True)]:
                try:
                    times, command_line = child.cpu_times(), " ".join(child.cmdline())
                    cpu[child.pid] = times.user + times.system
                    name = "driver" if "spark/job.py" in command_line and "java" not in command_line else "other"
                    peak[child.pid] = (name, max(peak.get(child.pid, ("", 0))[1], child.memory_info().rss))
                except psutil.Error:
                    continue

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    output, _ = process.communicate()
    end.set()
    seconds = [f"{float(line.split()[1]):.1f}" for line in output.decode().splitlines() if line.startswith("SECONDS")]
    driver_mb = max((size for name, size in peak.values() if name == "driver"), default=0) / 1e6
    return f"{' and '.join(seconds)} s, {sum(cpu.values()):.1f} s of CPU together, driver {driver_mb:.0f} MB"


def connection_env(connection: Connection) -> dict[str, str]:
    """Return the environment of a task with the connection."""
    fields = {"conn_type": connection.conn_type, "host": connection.host, "port": connection.port}
    if connection.conn_type == "postgres":
        fields |= {"schema": connection.path, "login": READER, "password": PASSWORD}
    spark = {"conn_type": "spark", "host": "local[2]"}
    return os.environ | {"AIRFLOW_CONN_SHOP_DB": json.dumps(fields), "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark)}


def main() -> int:
    """Measure both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--parallel", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, PostgreSQLServer() as server:
        file = Path(folder) / "shop.db"
        with closing(sqlite3.connect(file)) as database, database:
            for number in range(args.tables):
                database.execute(f"CREATE TABLE t{number} (id INTEGER PRIMARY KEY, name TEXT, amount INTEGER)")
                rows = ((key, f"name {key}", key * 7) for key in range(args.rows))
                database.executemany(f"INSERT INTO t{number} VALUES (?, ?, ?)", rows)
        sqlite = Connection(conn_id="shop_db", conn_type="sqlite", host=str(file))
        with server.database("shop"):
            for number in range(args.tables):
                server.run(
                    f"CREATE TABLE t{number} (id int PRIMARY KEY, name text, amount int)",
                    f"INSERT INTO t{number} SELECT n, 'name ' || n, n * 7 FROM generate_series(1, {args.rows}) s (n)",
                    database="shop",
                )
            for connection in (sqlite, server.connection("shop", conn_id="shop_db")):
                lake = Path(tempfile.mkdtemp(dir=folder))
                command = [_TASK, str(lake), json.dumps(["*"]), str(args.parallel)]
                print(f"{connection.conn_type}: {measure(command, connection_env(connection))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
