"""Faults of a database during a read: rows are exact, or the error states the remedy."""

from __future__ import annotations

import datetime as dt
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.sql.database import SessionLimits
from airflow_provider_connect.clients.sql.mysql import session as mysql_session
from airflow_provider_connect.errors import ConnectError, DataError, DeadlineError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext
from airflow_provider_connect.sources._sql import chunks
from airflow_provider_connect.sources._sql.poller import SqlPoller
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.reads import frozen, polled, polled_day
from tests.equipment.sql.servers import PASSWORD, READER
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5))
ROWS = 20_000
WHOLE = SqlSource(conn_id="sql_default", table="t", snapshot="replace")


def fill(database: OwnDatabase) -> None:
    """Insert more rows than both sides' sockets hold, so that the server is not finished when the first rows arrive."""
    wide = "repeat('x', 1000)"
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, wide text)",
        f"INSERT INTO t SELECT n, {wide} FROM ({database.series(ROWS)}) AS s",
    )


def is_postgres(database: OwnDatabase) -> bool:
    return database.server.conn_type == "postgres"


def kill_sessions(database: OwnDatabase) -> None:
    """End the reader's sessions as an administrator or a failover does. Other tests read other databases."""
    if is_postgres(database):
        mine = f"datname = '{database.name}' AND usename = '{READER}'"
        database.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}")
    else:
        mine = f"db = '{database.name}' AND user = '{READER}'"
        for (number,) in database.run(f"SELECT id FROM information_schema.processlist WHERE {mine}"):
            database.run(f"KILL CONNECTION {number}")


def kill_server(database: OwnDatabase) -> None:
    """Kill the server as a power loss does. It restarts at its address."""
    database.server.kill()
    database.server.start()


@pytest.fixture
def disturb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Call a function once, when the first batch of the first try has arrived."""

    def disturb(does: Callable[[], None]) -> None:
        poll, left = SqlPoller.poll, [does]

        def disturbed(self: SqlPoller, part: InputPartition, tally: Tally) -> Iterator[Any]:
            for found in poll(self, part, tally):
                yield found
                if left:
                    left.pop()()

        monkeypatch.setattr(SqlPoller, "poll", disturbed)

    return disturb


@pytest.mark.parametrize("victim", ["sessions", "server"])
def test_a_read_that_is_killed_halfway_is_repeated_without_repeated_rows(
    lone: OwnDatabase, disturb: Callable[[Callable[[], None]], None], victim: str, tmp_path: Path
) -> None:
    if victim == "server" and not is_postgres(lone):
        lone.run("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    fill(lone)
    if victim == "server" and is_postgres(lone):
        lone.run("CHECKPOINT")
    kills = {"sessions": kill_sessions, "server": kill_server}[victim]
    with WHOLE.open(lone.connection(), PollContext()) as poller:
        schema = poller.schema()
        (part,) = poller.plan([DAY])
        disturb(lambda: kills(lone))
        table, retries = frozen(WHOLE, lone.connection(), part, schema, tmp_path)
    assert table.num_rows == ROWS
    assert set(table["id"].to_pylist()) == set(range(1, ROWS + 1))
    assert len(retries) == 1
    assert "waits" in retries[0]


def test_chunks_whose_driver_lost_its_session_are_planned_again(
    postgresql: OwnDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The snapshot ends with the session that exported it, so no chunk may read another moment's rows."""
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 1_000)
    fill(postgresql)
    with WHOLE.open(postgresql.connection(), PollContext()) as poller:
        parts = poller.plan([DAY])
        first = polled(poller, parts[0])
        kill_sessions(postgresql)
        with pytest.raises(RetriableError, match="the next try takes a new snapshot"):
            frozen(WHOLE, postgresql.connection(), parts[1], poller.schema(), tmp_path)
    assert (len(parts), len(first)) == (4, ROWS // 4)
    assert len({row["id"] for row in polled_day(WHOLE, postgresql.connection(), DAY)}) == ROWS


def test_rows_that_move_during_a_read_are_read_once(mysql_like: OwnDatabase, disturb: Any) -> None:
    fill(mysql_like)
    with WHOLE.open(mysql_like.connection(), PollContext()) as poller:
        (part,) = poller.plan([DAY])
        moves = (f"UPDATE t SET id = id + {ROWS} WHERE id % 2 = 0", "DELETE FROM t WHERE id % 3 = 0")
        disturb(lambda: mysql_like.run(*moves, "INSERT INTO t VALUES (0, 'new')") and None)
        rows = polled(poller, part)
    assert (len(rows), {row["id"] for row in rows}) == (ROWS, set(range(1, ROWS + 1)))
    assert mysql_like.run("SELECT min(id), count(*) FROM t")[0][0] == 0, "nothing was moved"


def test_chunks_of_numbers_beyond_64_bits_hold_every_row_once(
    every: OwnDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 100)
    kind, top = ("numeric(30)", 10**29) if is_postgres(every) else ("bigint unsigned", 2**64 - 1)
    every.run(
        f"CREATE TABLE t (id {kind} PRIMARY KEY, n int)",
        # A crowd of neighbours at the very end, and as many at the beginning.
        f"INSERT INTO t SELECT {top} - n, n FROM ({every.series(500)}) AS s",
        f"INSERT INTO t SELECT n * n, n FROM ({every.series(500)}) AS s",
    )
    source = WHOLE.model_copy(update={"parallel_chunks": 4})
    with source.open(every.connection(), PollContext()) as poller:
        numbers = [polled(poller, part) for part in poller.plan([DAY])]
    assert [len(rows) for rows in numbers] == [250] * 4
    keys = {row["id"] for rows in numbers for row in rows}
    assert (len(keys), max(keys)) == (1000, Decimal(top - 1))


def test_rows_without_a_key_are_refused_and_not_left_between_the_chunks(
    every: OwnDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 10)
    every.run(
        "CREATE TABLE t (id int UNIQUE, n int NOT NULL)",
        f"INSERT INTO t SELECT n, n FROM ({every.series(100)}) AS s",
        "INSERT INTO t VALUES (NULL, 0), (NULL, -1)",
    )
    assert len(polled_day(WHOLE, every.connection(), DAY)) == 102
    keyed = WHOLE.model_copy(update={"key": ("id",), "parallel_chunks": 4})
    with pytest.raises(DataError, match="'id'"):
        polled_day(keyed, every.connection(), DAY)


def test_times_without_a_day_are_in_no_day_and_fail_no_day(every: OwnDatabase) -> None:
    odd = ["'infinity'", "'-infinity'", "'0044-03-15 BC'"] if is_postgres(every) else ["'0000-00-00'", "'2026-10-00'"]
    every.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NULL)" if is_postgres(every) else
               "CREATE TABLE t (id int PRIMARY KEY, at datetime(3) NULL)")  # fmt: skip
    every.run(*(f"INSERT INTO t VALUES ({number}, {time})" for number, time in enumerate([*odd, "NULL"])))
    every.run("INSERT INTO t VALUES (99, '2026-10-05 23:59:59.999')")
    for date in (dt.date(2026, 10, 1), DAY.date, dt.date(2026, 10, 6)):
        source = SqlSource(conn_id="sql_default", table="t", day_column="at")
        rows = [row["id"] for row in polled_day(source, every.connection(), Day(date=date))]
        assert rows == ([99] if date == DAY.date else []), date


def test_a_day_is_the_same_whatever_zones_server_and_client_are_set_to(
    every: OwnDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The servers of these tests and this process are set to India's zone."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    zone, kind = ("SET TIME ZONE 'UTC'", "timestamptz") if is_postgres(every) else ("SET time_zone = '+00:00'", "timestamp(6) NULL")  # fmt: skip  # noqa: E501
    times = ["2026-10-04 23:59:59.999999", "2026-10-05 00:00:00", "2026-10-05 18:30:00", "2026-10-06 00:00:00"]
    rows = ", ".join(f"({number}, '{time}')" for number, time in enumerate(times))
    every.run(f"CREATE TABLE t (id int PRIMARY KEY, at {kind})", zone, f"INSERT INTO t VALUES {rows}")
    source = SqlSource(conn_id="sql_default", table="t", day_column="at")
    found = polled_day(source, every.connection(), DAY)
    assert sorted((row["id"], row["at"].isoformat()) for row in found) == [
        (1, "2026-10-05T00:00:00+00:00"),
        (2, "2026-10-05T18:30:00+00:00"),
    ]


def test_a_read_that_waits_for_a_lock_is_retriable(every: OwnDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    every.run("CREATE TABLE t (id int PRIMARY KEY)")
    lock, code = ("LOCK TABLE t", "55P03") if is_postgres(every) else ("LOCK TABLES t WRITE", "1205")
    limited = f"ALTER ROLE {READER} IN DATABASE {every.name} SET lock_timeout = '{{0}}'"
    with monkeypatch.context() as patch:
        if is_postgres(every):
            every.run(limited.format("300ms"))
        else:  # as SET GLOBAL does, for sessions of this test alone
            patch.setitem(mysql_session._SETTINGS, "lock_wait_timeout", "1")
        with WHOLE.open(every.connection(), PollContext()) as poller, closing(every.server.admin(every.name)) as writer:
            (part,) = poller.plan([DAY])
            if is_postgres(every):
                writer.autocommit = False
            writer.cursor().execute(lock)
            with pytest.raises(RetriableError, match=f"{code}.*another session holds a lock") as caught:
                polled(poller, part)
            assert not isinstance(caught.value, DeadlineError)
            # Without a limit of the server's own, the statement's is the last.
            patch.undo()
            if is_postgres(every):
                every.run(limited.format(0))
            short = WHOLE.model_copy(update={"statement_timeout_seconds": 0.5})
            with (
                short.open(every.connection(), PollContext()) as locking,
                pytest.raises(DeadlineError, match=r"57014|1969|3024"),
            ):
                polled(locking, part)


def test_a_read_that_is_ended_in_a_deadlock_is_retriable(postgresql: OwnDatabase) -> None:
    postgresql.run("CREATE TABLE a (id int)", "CREATE TABLE b (id int)")
    reader = postgresql.open(SessionLimits(statement_seconds=30))
    reader.begin()
    reader.rows("SELECT 1 FROM a")
    with closing(postgresql.server.admin(postgresql.name)) as writer:
        writer.autocommit = False
        writer.execute("SET deadlock_timeout = '1min'")  # so that the reader is the one who looks
        writer.execute("LOCK TABLE b")
        waiting = threading.Thread(target=writer.execute, args=["LOCK TABLE a"])
        waiting.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        wait_until(lambda: postgresql.run(waits) == [(1,)])
        with pytest.raises(RetriableError, match=r"40P01.*try again"):
            reader.rows("SELECT 1 FROM b")
        reader.end()
        waiting.join()


@pytest.mark.parametrize("asked", ["check", "schema", "poll"])
def test_no_error_holds_the_password_or_a_value(every: OwnDatabase, asked: str) -> None:
    """Covers every fault and all chained exceptions, including the driver's message."""
    every.run("CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t VALUES (1, 'value-canary')")
    connection = every.connection(password=PASSWORD + "canary" if asked == "schema" else PASSWORD)
    wrong = "cast(a AS int) = 1" if is_postgres(every) else "cast(18446744073709551615 + length(a) AS signed) = 1"
    source = WHOLE.model_copy(update={"where": wrong} if asked == "poll" else {"table": "no-canary"})
    if asked == "check":
        text = str(check(source, connection))
    else:
        with pytest.raises(ConnectError) as caught:
            polled_day(source, connection, DAY)
        text = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in text
    assert "value-canary" not in text
    assert ("no-canary" in text) == (asked == "check"), "what was wrong is not told"
