"""Replicas: their lag, reads before they have caught up, and shared snapshots of PostgreSQL standbys."""

from __future__ import annotations

import datetime as dt
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from airflow_provider_connect.clients.sql.postgresql.catalog import LAG_QUERY
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._sql.poller import SqlPoller
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import NEEDS_MYSQL, OwnDatabase, own_database
from tests.equipment.sql.reads import polled_day
from tests.equipment.sql.replicas import (
    ReplicatedMariaDBServer,
    ReplicatedMySQLServer,
    ReplicatedServer,
    StandbyServer,
)
from tests.equipment.sql.servers import READER, DatabaseServer, PostgreSQLServer
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow


DAY = Day(date=dt.date(2026, 10, 5))
NOON = "'2026-10-05 12:00+00'"
NOON_THERE = dt.datetime(2026, 10, 5, 12, tzinfo=dt.UTC)
BY_DAY: dict[str, Any] = {"day_column": "at"}
BY_TIME: dict[str, Any] = {
    "mode": "timestamp+incrementing",
    "timestamp_column": "at",
    "incrementing_column": "id",
}
AT_ONCE = {"day_column": None, "snapshot": "replace"}


def polled_once_caught_up(source: SqlSource, replica: OwnDatabase) -> int:
    """Return the rows of DAY. MySQL tells a lag of a second for a moment, also after it has told none."""
    counts: list[int] = []

    def is_polled() -> bool:
        with suppress(RetriableError):
            counts.append(len(polled_day(source, replica.connection(), DAY)))
        return bool(counts)

    wait_until(is_polled)
    return counts[0]


@pytest.fixture
def primary() -> Iterator[DatabaseServer]:
    """A server without other writers, so that its standby catches up as soon as the test has written."""
    with PostgreSQLServer() as server:
        yield server


def test_a_standby_reads_like_its_primary_and_no_day_before_it_is_complete(
    primary: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_database(primary) as postgresql:
        postgresql.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
        postgresql.run("CREATE TABLE d (id int PRIMARY KEY, at timestamptz)", f"INSERT INTO d VALUES (1, {NOON})")
        standby = StandbyServer()
        standby.primary = primary
        with standby:
            own = OwnDatabase(standby, postgresql.name)
            database, other = own.open(), own.open()
            assert database.lag_seconds() == 0
            database.begin()
            other.begin(database.export_snapshot())
            postgresql.run("INSERT INTO t VALUES (2)")
            third = own.open()
            wait_until(lambda: third.one_row("SELECT count(*) FROM t") == (2,))
            assert database.one_row("SELECT count(*) FROM t") == other.one_row("SELECT count(*) FROM t") == (1,)
            database.end()
            postgresql.run("CREATE ROLE somebody", "DROP ROLE somebody")  # so that there is something to replay
            standby.run("SELECT pg_wal_replay_pause()")
            postgresql.run("INSERT INTO t VALUES (3)")
            wait_until(lambda: (third.lag_seconds() or 0) > 0.2)

            # As if the day had ended this moment, and a row of it had been committed just before.
            monkeypatch.setattr(
                SqlPoller, "_database_time", lambda poller, database: DAY.end + dt.timedelta(milliseconds=100)
            )
            postgresql.run(f"INSERT INTO d VALUES (2, {NOON})")
            source, followed = (SqlSource(conn_id="sql_default", table="d", **how) for how in (BY_DAY, BY_TIME))
            with pytest.raises(RetriableError, match="s behind, and the day ended at 2026-10-06"):
                polled_day(source, own.connection(), DAY)
            with followed.open(own.connection(), PollContext()) as poller:
                monkeypatch.setattr(SqlPoller, "_database_time", lambda poller, database: NOON_THERE)
                assert poller.follow(DAY, None, None) == "[]", "a row beside it may not have come yet"
                monkeypatch.setattr(
                    SqlPoller, "_database_time", lambda poller, database: NOON_THERE + dt.timedelta(hours=1)
                )
                assert poller.follow(DAY, None, None) == '["2026-10-05T12:00:00+00:00", "1"]'
            # A day that ended before what it lacks, and what there is now, are read as they are.
            assert len(polled_day(source, own.connection(), Day(date=dt.date(2026, 10, 4)))) == 0
            assert len(polled_day(source.model_copy(update=AT_ONCE), own.connection(), DAY)) == 1
            standby.run("SELECT pg_wal_replay_resume()")
            wait_until(lambda: third.one_row("SELECT count(*) FROM d") == (2,))  # on a busy machine it is received late
            wait_until(lambda: third.lag_seconds() == 0)
            monkeypatch.setattr(
                SqlPoller, "_database_time", lambda poller, database: DAY.end + dt.timedelta(milliseconds=100)
            )
            assert len(polled_day(source, own.connection(), DAY)) == 2
            for opened in own.opened:
                opened.close()


def test_a_standby_whose_primary_is_silent_lags_for_users_who_may_see_it(primary: DatabaseServer) -> None:
    standby = StandbyServer()
    standby.primary = primary
    with own_database(primary) as postgresql, standby:
        own = OwnDatabase(standby, postgresql.name)
        with closing(own.open()) as database:
            senders = primary.run("SELECT pid FROM pg_stat_replication")
            for (process_id,) in senders:
                os.kill(process_id, signal.SIGSTOP)  # as a network does that drops every packet
            try:
                time.sleep(1.5)
                assert database.lag_seconds() == 0
                # The standby gets no more rights from its primary, so the test asks as the owner.
                ((_, lag),) = standby.run(LAG_QUERY)
                assert lag > 1
            finally:
                for (process_id,) in senders:
                    os.kill(process_id, signal.SIGCONT)


@pytest.mark.parametrize(
    "kind",
    [
        ReplicatedMariaDBServer,
        pytest.param(ReplicatedMySQLServer, marks=NEEDS_MYSQL),
    ],
)
def test_no_day_is_read_before_a_replica_has_it_completely(
    kind: type[ReplicatedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    with kind() as primary, kind() as replica:
        assert isinstance(replica, ReplicatedServer)
        replica.follow(primary)
        primary.run("CREATE DATABASE shop", "CREATE TABLE shop.d (id int PRIMARY KEY, at datetime)")
        there, here = OwnDatabase(primary, "shop"), OwnDatabase(replica, "shop")
        wait_until(lambda: replica.run("SELECT count(*) FROM information_schema.tables WHERE table_name = 'd'")[0][0])
        monkeypatch.setattr(
            SqlPoller, "_database_time", lambda poller, database: DAY.end + dt.timedelta(milliseconds=100)
        )
        source = SqlSource(conn_id="sql_default", table="d", day_column="at")
        report = str(check(source, here.connection()))
        assert "whether the server is a replica is unknown" in report
        assert "GRANT REPLICATION CLIENT, in MariaDB SLAVE MONITOR" in report
        replica.run(f"GRANT {replica.lag_right} ON *.* TO {READER}@'127.0.0.1'")
        caught_up = "it is a replica, 0 s behind its primary"  # on a busy machine after a second or two
        wait_until(lambda: caught_up in str(check(source, here.connection())))
        assert polled_once_caught_up(source, here) == 0
        primary.run("CREATE TABLE shop.numbered (id int AUTO_INCREMENT PRIMARY KEY)")
        has_come = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'numbered'"
        wait_until(lambda: replica.run(has_come) == [(1,)])
        replica.run("SET GLOBAL read_only = 1")
        numbers = {"table": "numbered", "mode": "incrementing", "incrementing_column": "id"}
        report = str(check(SqlSource(conn_id="sql_default", **numbers), here.connection()))
        assert "its AUTO_INCREMENT cannot be read" in report

        # Somebody holds the table, so that what has come is not applied.
        with closing(replica.admin("shop")) as holder:
            holder.cursor().execute("LOCK TABLES d READ")
            there.run("INSERT INTO d VALUES (1, '2026-10-05 23:59:59')")
            lag = here.open()
            wait_until(lambda: (lag.lag_seconds() or 0) >= 1)
            with pytest.raises(RetriableError, match=r"that is \d+\.\d s behind, and the day ended at 2026-10-06"):
                polled_day(source, here.connection(), DAY)
        assert polled_once_caught_up(source, here) == 1
        replica.run("STOP REPLICA")
        with pytest.raises(RetriableError, match="does not replicate at the moment"):
            polled_day(source, here.connection(), DAY)
        lag.close()
