"""Reading a table of PostgreSQL into Parquet, beside others who do it: Spark's own JDBC reader, and dlt.

``python tests/benchmarks/sql_peers.py [--rows N] [--spark-jar postgresql.jar] [--dlt-python …/bin/python]``

Neither is installed with this project: the jar is the driver of https://jdbc.postgresql.org, the Python that of an
environment with ``pip install 'dlt[parquet]' sqlalchemy psycopg2-binary``. Each reads one stream, as ours does, and is
warm when the clock starts: it has read a thousand rows. The column of 42 digits is text for Spark, which would cut it.
Rounds alternate; each figure is the median with the least and the greatest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyspark
from day import show
from sql import NAME, POSTGRESQL, staged
from staged_day import in_new_process

from tests.equipment.sql.servers import PASSWORD, READER, PostgreSQLServer

SPARK = """
import sys, time
from pyspark.sql import SparkSession
jar, port, user, password, name, folder = sys.argv[1:]
spark = (SparkSession.builder.master("local[1]").config("spark.jars", jar).config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC").getOrCreate())
def load(query, target):
    frame = (spark.read.format("jdbc").option("url", f"jdbc:postgresql://127.0.0.1:{port}/{name}").option("user", user)
        .option("password", password).option("driver", "org.postgresql.Driver").option("fetchsize", 10000)
        .option("query", query).load())
    frame.write.option("compression", "zstd").parquet(target)
columns = "id, ref, kind, made, changed, price, big::text AS big, paid, ratio, doc, key, note, amount"
load(f"SELECT {columns} FROM t LIMIT 1000", folder + "/warm")
began = time.perf_counter()
load(f"SELECT {columns} FROM t", folder + "/t")
print("seconds", time.perf_counter() - began)
"""
DLT = """
import sys, time
import dlt
from dlt.sources.sql_database import sql_table
port, user, password, name, folder = sys.argv[1:]
from urllib.parse import quote
url = f"postgresql+psycopg2://{user}:{quote(password, safe='')}@127.0.0.1:{port}/{name}"
def load(limit, what):
    table = sql_table(url, table="t", backend="pyarrow", chunk_size=50000,
        query_adapter_callback=(lambda query, table: query.limit(limit)) if limit else None)
    pipeline = dlt.pipeline(what, pipelines_dir=folder, destination=dlt.destinations.filesystem(folder + "/" + what))
    pipeline.run(table, loader_file_format="parquet", write_disposition="replace")
load(1000, "warm")
began = time.perf_counter()
load(None, "all")
print("seconds", time.perf_counter() - began)
"""


def told(command: list[str], script: str, *arguments: str) -> float:
    """Run a script in another Python, and return the seconds that it tells."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "RUNTIME__DLTHUB_TELEMETRY": "false"}
    ended = subprocess.run(
        [*command, "-c", script, *arguments], env=env, capture_output=True, text=True, timeout=1800, check=False
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("seconds ")]
    if not lines:
        sys.exit(ended.stderr[-3000:])
    return float(lines[-1].split()[1])


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark-jar")
    parser.add_argument("--dlt-python")
    asked = parser.parse_args()
    with PostgreSQLServer() as server, server.database(NAME):
        server.run(POSTGRESQL.format(rows=asked.rows), database=NAME)
        place = (str(server.port), READER, PASSWORD, NAME)
        ways: dict[str, Callable[[str], float]] = {
            "ours, polled and frozen": lambda folder: in_new_process(staged, server.connection(NAME), folder).seconds
        }
        if asked.spark_jar:
            ways["Spark's JDBC reader"] = lambda folder: told([sys.executable], SPARK, asked.spark_jar, *place, folder)
        if asked.dlt_python:
            ways["dlt, pyarrow backend"] = lambda folder: told([asked.dlt_python], DLT, *place, folder)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(asked.rounds):
            for name, way in ways.items():
                with tempfile.TemporaryDirectory() as folder:
                    found[name].append(way(folder))
        ours = found["ours, polled and frozen"]
        for name, seconds in found.items():
            show(name, seconds, "s")
            if seconds is not ours:
                show("  as a ratio to ours", [one / our for one, our in zip(seconds, ours, strict=True)], "x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
