"""A snapshot by chunk whose driver is killed: the next try reads only the rest. The database's own log counts."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from typing import Any

import psutil
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow

CHUNKS, KILLED_AFTER = 12, 5
ROWS = CHUNKS * 50_000
ROWS_READ = re.compile(r"statement: COPY \((?:(?!statement:).)*?WHERE (.*?)\)? ?\) TO STDOUT", re.DOTALL)


def reads(database: OwnDatabase) -> list[str]:
    """Return the condition of each chunk that was asked for."""
    log = (database.server.folder / "server.log").read_text(errors="replace")
    return [" ".join(where.split()) for where in ROWS_READ.findall(log)]


def kill(process: psutil.Popen) -> None:
    """Kill the Python driver and its JVM as the kernel does when memory runs out."""
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    process.kill()


def test_a_driver_killed_in_mid_snapshot_leaves_its_chunks_to_the_next(submit: Any, postgresql: OwnDatabase) -> None:
    submit.source_name = "sql"
    connection = postgresql.connection(conn_id="sql_default")
    postgresql.run(
        # Skewed, and in a key of two columns: nine of ten rows have the same first half.
        "CREATE TABLE lines (page int, line text, n int NOT NULL, PRIMARY KEY (page, line))",
        "INSERT INTO lines SELECT CASE WHEN n % 10 > 0 THEN 7 ELSE n END, 'line ' || n, n "
        f"FROM generate_series(1, {ROWS}) AS s (n)",
        "ANALYZE lines",
        f"ALTER DATABASE {postgresql.name} SET log_statement = 'all'",
    )
    source = {"table": "lines", "snapshot": "replace", "consistency": "chunk", "parallel_chunks": CHUNKS}

    running = submit.start(["2026-10-07"], source=source, connection=connection)
    control = submit.table / "_connect/attempts"
    wait_until(lambda: len(list(control.glob("*/part-*.json"))) >= KILLED_AFTER, seconds=60)
    kill(running.process)
    running.wait(30)
    whole = len(list(control.glob("*/part-*.json")))
    assert KILLED_AFTER <= whole < CHUNKS, "the kill came too late to show anything"
    before = reads(postgresql)

    ended = submit.run(["2026-10-07"], source=source, connection=connection)
    assert ended.process.returncode == 0, ended.output
    said = f"an earlier try was reading it in {CHUNKS} partitions, and this one goes on: {whole} are there already"
    assert said in ended.output
    after = reads(postgresql)[len(before) :]
    assert len(after) == CHUNKS - whole, "a chunk that was whole is read again"
    assert len({*before, *after}) == CHUNKS
    table = DeltaTable(str(submit.table)).to_pyarrow_table(columns=["n", "record_key"])
    assert (table.num_rows, pc.sum(table["n"]).as_py()) == (ROWS, ROWS * (ROWS + 1) // 2)
    assert pc.count_distinct(table["record_key"]).as_py() == ROWS
    (day,) = ended.report.days
    assert (day.rows_read, day.rows_written) == (ROWS, ROWS)
    assert len(DeltaTable(str(submit.table)).file_uris()) == CHUNKS
