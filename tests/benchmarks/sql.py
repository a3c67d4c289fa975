"""Reading a table of a million rows into the stage, as ratios to what each database's own client takes to read it.

``psql`` copies the same table out, ``mariadb --quick`` selects it; both throw it away. Ours converts every value to its
type; a task polls and freezes a snapshot as an executor does it, with keys and digests, into one Parquet file. Rounds
alternate; each figure is the median with the least and the greatest; the rules of ``day.py`` hold. Memory is that of a
process of its own.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from day import show
from staged_day import in_new_process

from airflow_provider_connect.clients.sql.database import Table, ValueChoices
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from airflow_provider_connect.window import Day
from tests.equipment.sql.servers import PASSWORD, READER, DatabaseServer, MariaDBServer, PostgreSQLServer

NAME = "bench"
POSTGRESQL = """
CREATE TABLE t AS SELECT n::bigint AS id, 'reference ' || md5(n::text) AS ref, ('v' || n % 1000)::varchar(20) AS kind,
  timestamptz '2026-01-01' + n * interval '1.000001 s' AS made,
  timestamptz '2026-01-01' + n * interval '2 s' AS changed,
  (n % 1000000 / 100.0)::numeric(12,2) AS price, (n * 1234567890123456789012345678901.17)::numeric(40,2) AS big,
  n % 2 = 0 AS paid, n / 7.0::float8 AS ratio, jsonb_build_object('a', n, 'b', md5(n::text)) AS doc,
  gen_random_uuid() AS key, CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE
  E'a "b",\\n\\\\ 😀 ' || repeat(md5(n::text), 3) END AS note,
  (n % 100000)::int AS amount FROM generate_series(1, {rows}) AS n;
ALTER TABLE t ADD PRIMARY KEY (id)
"""
MARIADB = r"""
CREATE TABLE t (id bigint primary key, ref text, kind varchar(20), made timestamp(6) null, changed timestamp(6) null,
  price decimal(12,2), big decimal(40,2), paid boolean, ratio double, doc json, `key` uuid, note text, amount int)
  CHARACTER SET utf8mb4 AS SELECT seq AS id, concat('reference ', md5(seq)) AS ref, concat('v', seq % 1000) AS kind,
  '2026-01-01' + interval seq second AS made, '2026-01-01' + interval 2 * seq second AS changed,
  (seq % 1000000) / 100 AS price, seq * 1234567890123456789012345678901.17 AS big, seq % 2 = 0 AS paid,
  seq / 7e0 AS ratio, json_object('a', seq, 'b', md5(seq)) AS doc, uuid() AS `key`,
  if(seq % 5 = 0, NULL, if(seq % 5 = 1, '', concat('a "b",\n\\ 😀 ', repeat(md5(seq), 3)))) AS note,
  seq % 100000 AS amount FROM seq_1_to_{rows}
"""


class Read(NamedTuple):
    """One read of the whole table."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    rows: int


def read(connection: Connection) -> Read:
    """Read the table, and throw it away."""
    cpu, started = time.process_time(), time.perf_counter()
    with open_database(connection, application_name="benchmark") as database:
        columns = database.read_columns(database.describe(Table("t")), ValueChoices())
        rows = sum(batch.num_rows for batch in database.read(columns, database.relation(Table("t"))))
    return taken(cpu, started, rows)


def staged(connection: Connection, stage: str) -> Read:
    """Poll a snapshot in one piece, and freeze it."""
    source = SqlSource(conn_id=connection.conn_id, table="t", key=("id",), snapshot="replace", parallel_chunks=1)
    cpu, started = time.process_time(), time.perf_counter()
    with source.open(connection, PollContext()) as poller:
        schema = poller.schema()
        (part,) = poller.plan([Day(date=dt.datetime.now(dt.UTC).date())])
        task = PollTask(
            source_name=source.name,
            source=source.serialize(),
            part=part,
            root=stage,
            attempts=("benchmark",),
            progress_seconds=60,
        )
        (polled,) = stage_partition(task, schema, connection).values()
    return taken(cpu, started, polled.rows_written)


def taken(cpu: float, started: float, rows: int) -> Read:
    """Return what was used since then."""
    seconds = time.perf_counter() - started
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Read(seconds, time.process_time() - cpu, peak_mb, rows)


def floor(server: DatabaseServer) -> float:
    """Return the seconds that the database's own client takes."""
    if server.conn_type == "postgres":
        place = ["-h", "127.0.0.1", "-p", str(server.port), "-U", READER, NAME]
        command = ["psql", "-q", *place, "-c", "COPY (SELECT * FROM t) TO STDOUT"]
        env = os.environ | {"PGPASSWORD": PASSWORD}
    else:
        place = ["-h", "127.0.0.1", "-P", str(server.port), "-u", READER, NAME]
        command = ["mariadb", "--no-defaults", "--quick", "--batch", *place, "-e", "SELECT * FROM t"]
        env = os.environ | {"MYSQL_PWD": PASSWORD}
    started = time.perf_counter()
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def measure(server: DatabaseServer, rounds: int, rows: int) -> None:
    """Measure one database."""
    connection = server.connection(NAME)
    floor(server)  # the table is in memory from here on
    floors, plain, frozen = [], [], []
    for _ in range(rounds):
        floors.append(floor(server))
        plain.append(in_new_process(read, connection))
        folder = Path(tempfile.mkdtemp())
        try:
            frozen.append(in_new_process(staged, connection, str(folder)))
        finally:
            shutil.rmtree(folder)
    assert {one.rows for one in (*plain, *frozen)} == {rows}
    client = "psql COPY" if server.conn_type == "postgres" else "mariadb --quick"
    show(f"{client} > /dev/null", floors, "s")
    for name, ones in (("read, every value typed", plain), ("polled and frozen, with keys and digests", frozen)):
        show(name, [one.seconds for one in ones], "s")
        show(f"  as a ratio to {client}", [one.seconds / low for one, low in zip(ones, floors, strict=True)], "x")
        show("  CPU", [one.cpu_seconds for one in ones], "s")
        show("  peak memory", [one.peak_mb for one in ones], "MB")


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    for server, table in ((PostgreSQLServer(), POSTGRESQL), (MariaDBServer(), MARIADB)):
        with server, server.database(NAME):
            server.run(table.format(rows=asked.rows), database=NAME)
            measure(server, asked.rounds, asked.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
