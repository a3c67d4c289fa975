"""Followed times without a zone: read in the zone of the clock that writes them, or refused until it is set."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.mysql_files import WITHOUT, is_left_out
from tests.equipment.sql.reads import polled
from tests.equipment.sql.servers import READER, DatabaseServer, MariaDBServer, MySQLServer

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5))
WHOLE_SECONDS = {"postgres": "timestamp(0)", "mysql": "datetime"}
WEST = {"postgres": "US/Pacific", "mysql": "-08:00"}
ITS_ZONE = {"postgres": "US/Pacific", "mysql": "Etc/GMT+8"}
PASSED_BY = "rows are lost if they are read in the wrong zone"


@pytest.fixture(scope="module")
def mariadb_server() -> Iterator[DatabaseServer]:
    """A MariaDB that no other worker uses, since its zone belongs to the whole server."""
    with MariaDBServer() as server:
        yield server


@pytest.fixture(scope="module")
def mysql_server() -> Iterator[DatabaseServer]:
    """A MySQL that no other worker uses, since its zone belongs to the whole server."""
    if is_left_out():
        pytest.skip(f"{WITHOUT}=1")
    with MySQLServer() as server:
        yield server


@contextmanager
def set_to(database: OwnDatabase, zone: str) -> Iterator[None]:
    """Set the database's zone. MariaDB and MySQL have one zone for all databases of a server."""
    if database.server.conn_type == "postgres":
        database.run(f"ALTER DATABASE {database.name} SET timezone = '{zone}'")
        yield
        return
    ((previous,),) = database.run("SELECT @@global.time_zone")
    database.run(f"SET GLOBAL time_zone = '{zone}'")
    try:
        yield
    finally:
        database.run(f"SET GLOBAL time_zone = '{previous}'")


@pytest.fixture
def western(every: OwnDatabase) -> Iterator[OwnDatabase]:
    """A database west of UTC, and a table whose times have whole seconds and no zone."""
    kind = WHOLE_SECONDS[every.server.conn_type]
    with set_to(every, WEST[every.server.conn_type]):
        every.run(f"CREATE TABLE t (id int PRIMARY KEY, at {kind} NOT NULL)")
        yield every


def followed(**options: Any) -> SqlSource:
    """Return a source that follows the table by its time."""
    chosen = {"conn_id": "sql_default", "table": "t", "mode": "timestamp", "timestamp_column": "at", "key": ["id"]}
    return SqlSource(**chosen | options)


def increment(database: OwnDatabase, source: SqlSource, begin: str | None) -> tuple[str, list[int]]:
    """Read the rows after a position."""
    with source.open(database.connection(), PollContext()) as poller:
        end = poller.follow(DAY, begin, None)
        batches = [batch for part in poller.plan([DAY]) for _, batch in poller.poll(part, Tally([DAY]))]
    return end, [row["id"] for batch in batches for row in batch.to_pylist()]


def test_no_row_is_lost_with_several_writers(western: OwnDatabase) -> None:
    """Writers use the database's clock while the table is followed. Each row is read once."""
    database, written, seconds = western, 0, 6.0
    source = followed(db_timezone=ITS_ZONE[database.server.conn_type])
    ends, lock = time.monotonic() + seconds, threading.Lock()

    def write() -> None:
        nonlocal written
        with closing(database.server.admin(database.name)) as session, closing(session.cursor()) as cursor:
            while time.monotonic() < ends:
                with lock:
                    written += 1
                    number = written
                cursor.execute(f"INSERT INTO t VALUES ({number}, current_timestamp)")
                time.sleep(0.02)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    ids: Counter[int] = Counter()
    begin: str | None = None
    while any(writer.is_alive() for writer in writers):
        begin, new = increment(database, source, begin)
        ids.update(new)
    for _ in range(2):
        time.sleep(1.1)
        begin, new = increment(database, source, begin)
        ids.update(new)
    assert written > 100
    assert (set(ids), ids.total()) == (set(range(1, written + 1)), written)


def test_the_current_second_is_left_to_a_later_run(western: OwnDatabase) -> None:
    database = western
    source = followed(db_timezone=ITS_ZONE[database.server.conn_type])
    # Of a second that lies just ahead, as the one that runs may do where a column rounds.
    database.run("INSERT INTO t SELECT 1, current_timestamp + interval '2' second")
    begin, new = increment(database, source, None)
    assert new == []
    database.run("INSERT INTO t SELECT 2, at FROM t WHERE id = 1")
    time.sleep(3.5)
    begin, new = increment(database, source, begin)
    assert sorted(new) == [1, 2]


def test_a_mode_requires_db_timezone_if_the_database_is_not_in_utc(western: OwnDatabase) -> None:
    database = western
    database.run("INSERT INTO t SELECT 1, current_timestamp")
    with pytest.raises(ConfigError, match=PASSED_BY) as refused:
        increment(database, followed(), None)
    assert "timestamp_column: 'at' has times without a zone" in str(refused.value)
    assert f"the database's own zone is {WEST[database.server.conn_type]}" in str(refused.value)
    assert "db_timezone" in str(refused.value)
    report = check(followed(), database.connection())
    assert not report.passed
    assert PASSED_BY in str(report)
    # A value that is given is believed: nobody can tell from the data.
    assert increment(database, followed(db_timezone="UTC"), None)[1] == [1]
    assert check(followed(db_timezone="UTC"), database.connection()).passed


def test_the_users_own_zone_does_not_hide_the_databases_zone(postgresql: OwnDatabase) -> None:
    postgresql.run(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamp(0) NOT NULL)",
        f"ALTER DATABASE {postgresql.name} SET timezone = 'US/Pacific'",
        f"ALTER ROLE {READER} IN DATABASE {postgresql.name} SET timezone = 'UTC'",
    )
    with pytest.raises(ConfigError, match="the database's own zone is US/Pacific"):
        increment(postgresql, followed(), None)


def test_a_zone_that_is_utc_for_half_a_year_is_not_utc(postgresql: OwnDatabase) -> None:
    postgresql.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp(0) NOT NULL)")
    with (
        set_to(postgresql, "Europe/London"),
        pytest.raises(ConfigError, match="the database's own zone is Europe/London"),
    ):
        increment(postgresql, followed(), None)


def test_a_database_in_utc_needs_no_zone(every: OwnDatabase) -> None:
    every.run(f"CREATE TABLE t (id int PRIMARY KEY, at {WHOLE_SECONDS[every.server.conn_type]} NOT NULL)")
    with set_to(every, {"postgres": "UTC", "mysql": "+00:00"}[every.server.conn_type]):
        assert increment(every, followed(), None)[1] == []
        report = check(followed(), every.connection())
    assert report.passed
    assert "OK timestamp_column 'at': it has timestamps without a zone, which are read as times in UTC" in str(report)


def test_instants_numbers_and_dates_need_no_zone(western: OwnDatabase) -> None:
    instant = {"postgres": "timestamptz", "mysql": "timestamp"}[western.server.conn_type]
    western.run(f"CREATE TABLE i (id int PRIMARY KEY, at {instant} NULL)", "INSERT INTO i VALUES (1, NULL)")
    assert increment(western, followed(table="i"), None)[1] == []
    number = followed(mode="incrementing", timestamp_column=None, incrementing_column="id")
    assert increment(western, number, None)[1] == []


def test_days_are_read_with_a_warning_about_the_zone(western: OwnDatabase, caplog: pytest.LogCaptureFixture) -> None:
    western.run("INSERT INTO t VALUES (1, '2026-10-05 12:00:00')")
    source = SqlSource(conn_id="sql_default", table="t", day_column="at")
    report = check(source, western.connection())
    assert report.passed
    assert "set db_timezone" in str(report)
    for with_zone, warnings in ((None, 1), ("UTC", 0)):
        caplog.clear()
        with source.model_copy(update={"db_timezone": with_zone}).open(western.connection(), PollContext()) as poller:
            poller.schema()
            (part,) = poller.plan([DAY])
            assert [row["id"] for row in polled(poller, part)] == [1]
        assert len(caplog.messages) == warnings
        for message in caplog.messages:
            assert f"the database's own zone is {WEST[western.server.conn_type]}" in message
            assert "set db_timezone" in message
