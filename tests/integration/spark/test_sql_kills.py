"""Snapshots of real databases under a real spark-submit, whose parts die one after the other in mid-read."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any
from urllib.parse import quote

import psutil
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.servers import PASSWORD, READER
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow

ROWS, GATE = 110_000, 100_000
SERIES = {
    "postgres": f"SELECT n FROM generate_series(1, {ROWS}) AS s (n)",
    "mysql": f"SELECT seq AS n FROM seq_1_to_{ROWS}",
}
# A row that a read does not get past as long as somebody else holds the lock.
GATED = {
    "postgres": f"CASE WHEN id = {GATE} AND current_query() LIKE 'COPY%' "
    "THEN pg_advisory_xact_lock_shared(7) IS NOT NULL ELSE true END",
    "mysql": f"CASE WHEN id = {GATE} THEN get_lock('gate', 600) = 1 ELSE 1 END",
}
CLOSE = {"postgres": "SELECT pg_advisory_lock(7)", "mysql": "SELECT get_lock('gate', 60)"}
SESSIONS = {
    "postgres": "SELECT wait_event, application_name, query FROM pg_stat_activity "
    f"WHERE usename = '{READER}' AND datname = current_database()",
    "mysql": "SELECT if(state = 'User lock', 'advisory', ''), '', info FROM information_schema.processlist "
    f"WHERE user = '{READER}' AND db = database()",
}
VICTIMS = {"postgres": ("driver", "database"), "mysql": ("worker",)}
RUNS = {"postgres": "bc", "mysql": "b"}
SPELLINGS = {PASSWORD, json.dumps(PASSWORD)[1:-1], json.dumps(PASSWORD, ensure_ascii=False)[1:-1], quote(PASSWORD)}


@contextmanager
def closed_gate(own: OwnDatabase) -> Iterator[Any]:
    """Hold the lock."""
    with closing(own.server.admin(own.name)) as gate:
        gate.cursor().execute(CLOSE[own.server.conn_type])
        yield gate


def sessions(own: OwnDatabase) -> list[tuple[Any, ...]]:
    return own.run(SESSIONS[own.server.conn_type])


def stopped(own: OwnDatabase) -> int:
    """Return how many reads stand at the gate."""
    return sum(event == "advisory" for event, *_ in sessions(own))


def family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def kill(jvm: int, victim: str) -> None:
    named = {"driver": "job.py", "worker": "daemon"}[victim]
    for process in family(jvm):
        with suppress(psutil.Error, ProcessLookupError):
            if any(named in part for part in process.cmdline()):
                os.kill(process.pid, signal.SIGKILL)


def test_whoever_dies_in_mid_snapshot_a_later_try_has_the_whole_table_once(submit: Any, lone: OwnDatabase) -> None:
    """The driver and the database, or a worker; then two runs at once."""
    kind = lone.server.conn_type
    submit.source_name = "sql"
    lone.run("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    lone.run(f"INSERT INTO orders SELECT n, concat('order ', n) FROM ({SERIES[kind]}) AS s")
    if kind == "postgres":
        lone.run("CHECKPOINT")  # these servers trust the disk's cache, which a kill loses in part
    options = {
        "source": {"table": "orders", "snapshot": "replace", "where": GATED[kind]},
        "connection": lone.connection(conn_id="sql_default"),
    }
    for victim in VICTIMS[kind]:
        with closed_gate(lone):
            running = submit.start(["2026-10-05"], **options)
            wait_until(lambda: stopped(lone), "no read began", seconds=90)
            if victim != "database":
                assert_no_password(lone, running.process.pid)
            if victim == "database":
                lone.server.kill()
            else:
                kill(running.process.pid, victim)
                running.wait()
                # Although its query waits, and sends nothing by which the server might find out.
                wait_until(lambda: not sessions(lone), f"a session outlives the {victim}", seconds=30)
        if victim == "database":
            lone.server.start()
            running.wait()
        assert PASSWORD not in running.output
        assert running.process.returncode != 0, running.output
        assert not DeltaTable.is_deltatable(str(submit.table)) or rows(submit) == 0, victim
        if victim != "driver":
            assert running.report.failure.type in ("RetriableError", "PlanGoneError"), running.report.failure

    runs = RUNS[kind]
    with closed_gate(lone):
        both = [submit.start(["2026-10-05"], token=letter * 32, **options) for letter in runs]
        wait_until(lambda: stopped(lone) == len(runs), "the runs did not read at once", seconds=90)
    for running in both:
        running.wait()
        assert running.process.returncode in (0, 75), running.output
    assert 0 in [running.process.returncode for running in both]
    assert_whole(submit)
    assert sessions(lone) == []
    for path in submit.tmp.rglob("*"):
        if path.is_file():
            assert not any(each.encode() in path.read_bytes() for each in SPELLINGS), path


def rows(submit: Any) -> int:
    return DeltaTable(str(submit.table)).to_pyarrow_table(columns=["id"]).num_rows


def assert_whole(submit: Any) -> None:
    found = DeltaTable(str(submit.table)).to_pyarrow_table(columns=["id", "record_key"])
    assert (found.num_rows, pc.sum(found["id"]).as_py()) == (ROWS, ROWS * (ROWS + 1) // 2)
    assert pc.count_distinct(found["record_key"]).as_py() == ROWS


def assert_no_password(own: OwnDatabase, jvm: int) -> None:
    """Fail if somebody who looks at the processes, here or at the server, sees the password."""
    shown = [str(row) for row in sessions(own)]
    for process in [psutil.Process(jvm), *family(jvm)]:
        with suppress(psutil.Error):
            shown += process.cmdline()
    assert len(shown) > 10
    assert any("connect 2026-10-05 sql_default.orders" in text for text in shown), "who reads is not seen"
    assert not any(each in text for each in SPELLINGS for text in shown)
