"""Tables that are altered during a read: the planned columns or another try, and never a value of another type."""

from __future__ import annotations

import datetime as dt
import threading
from contextlib import closing
from typing import Any

import pytest

from airflow_provider_connect.clients.sql.database import Table
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.source import PlanGoneError, PollContext
from airflow_provider_connect.sources._sql import chunks
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.reads import polled, polled_day
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5))
WHOLE = SqlSource(conn_id="shop", table="t", snapshot="replace")
CHANGES = {
    "postgres": [
        ("ALTER a TYPE double precision", "'a' was real and is double precision now"),
        ("ALTER at TYPE timestamptz", "'at' was timestamp without time zone and is timestamp with time zone now"),
        ("ALTER id TYPE bigint", "'id' was integer and is bigint now"),
        ("ALTER b DROP NOT NULL", "'b' was text NOT NULL and is text NULL now"),
        ("DROP a", "'a' of type real is gone"),
        ("RENAME a TO z", "'a' of type real is gone"),
        ("RENAME TO other", "no table"),
    ],
    "mysql": [
        ("MODIFY a double", "'a' was float and is double now"),
        ("MODIFY at timestamp NULL", "'at' was datetime and is timestamp now"),
        ("MODIFY id bigint", "was int"),
        ("MODIFY b varchar(20) NULL", r"'b' was varchar\(20\) NOT NULL and is varchar\(20\) NULL now"),
        ("DROP a", "'a' of type float is gone"),
        ("CHANGE a z float", "'a' of type float is gone"),
        ("RENAME TO other", "1146"),
    ],
}


def make(database: OwnDatabase) -> None:
    real, time, text = ("real", "timestamp", "text") if is_postgres(database) else ("float", "datetime", "varchar(20)")
    database.run(
        "DROP TABLE IF EXISTS t",
        "DROP TABLE IF EXISTS other",
        f"CREATE TABLE t (id int PRIMARY KEY, a {real}, b {text} NOT NULL, at {time} NULL)",
        "INSERT INTO t VALUES (1, 123456.789, 'x', '2026-10-05 12:00:00')",
    )


def is_postgres(database: OwnDatabase) -> bool:
    return database.server.conn_type == "postgres"


def test_a_column_altered_after_the_plan_fails_the_read(either: OwnDatabase) -> None:
    for change, message in CHANGES[either.server.conn_type]:
        make(either)
        with WHOLE.open(either.connection(), PollContext()) as poller:
            (part,) = poller.plan([DAY])
            either.run(f"ALTER TABLE t {change}")
            with pytest.raises(PlanGoneError, match=message) as caught:
                polled(poller, part)
        assert "next try" in str(caught.value)
        if "other" not in change:
            assert len(polled_day(WHOLE, either.connection(), DAY)) == 1, change


def test_a_column_added_after_the_plan_is_left_for_the_next_run(every: OwnDatabase) -> None:
    make(every)
    with WHOLE.open(every.connection(), PollContext()) as poller:
        (part,) = poller.plan([DAY])
        longer = "ALTER b TYPE varchar(30)" if is_postgres(every) else "MODIFY b varchar(30) NOT NULL"
        every.run("ALTER TABLE t ADD c int DEFAULT 7", f"ALTER TABLE t {longer}")
        (row,) = polled(poller, part)
    assert {name: row[name] for name in ("id", "a", "b")} == {"id": 1, "a": 123456.7890625, "b": "x"}
    assert "c" not in row
    assert polled_day(WHOLE, every.connection(), DAY)[0]["c"] == 7


def test_a_locked_table_is_not_altered_before_the_end(every: OwnDatabase) -> None:
    make(every)
    database = every.open()
    database.begin()
    assert [column.name for column in database.lock_tables(Table("t"), ["id", "a"])][:2] == ["id", "a"]
    wait = "SET lock_timeout = '100ms'" if is_postgres(every) else "SET lock_wait_timeout = 1"
    with pytest.raises(Exception, match=r"lock timeout|1205"):
        every.run(wait, "ALTER TABLE t DROP a")
    database.end()
    every.run(wait, "ALTER TABLE t DROP a")


REWRITES = [
    ["ALTER TABLE t ALTER id TYPE bigint", "ALTER TABLE t ALTER id TYPE int"],
    ["TRUNCATE t", "INSERT INTO t SELECT n, n, 'y' FROM generate_series(1, 500) AS s (n)"],
    ["CREATE TABLE u AS TABLE t", "ALTER TABLE t RENAME TO other", "ALTER TABLE u RENAME TO t"],
    # Its rows were written before, and some of them are of transactions that a snapshot may not see.
    ["ALTER TABLE t RENAME TO other", "ALTER TABLE made RENAME TO t"],
]


@pytest.mark.parametrize("statements", REWRITES, ids=["altered", "refilled", "copied", "swapped"])
def test_a_table_that_was_rewritten_while_the_read_waited_for_it_is_not_empty(
    postgresql: OwnDatabase, statements: list[str]
) -> None:
    """PostgreSQL would return no row, since its snapshot is older than all rows."""
    postgresql.run(
        "CREATE TABLE t (id int PRIMARY KEY, a real, b text)",
        "INSERT INTO t SELECT n, n, 'x' FROM generate_series(1, 500) AS s (n)",
        "CREATE TABLE made AS TABLE t",
    )
    with WHOLE.open(postgresql.connection(), PollContext()) as poller:
        (part,) = poller.plan([DAY])
        with closing(postgresql.server.admin(postgresql.name)) as writer:
            writer.autocommit = False
            for statement in statements:
                writer.execute(statement)
            rows: list[Any] = []
            reading = threading.Thread(target=lambda: rows.append(outcome(poller, part)))
            reading.start()
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = '{0}'"
            wait_until(lambda: postgresql.run(waits.format(postgresql.name)) == [(1,)])
            writer.commit()
            reading.join()
    (error,) = rows
    assert isinstance(error, RetriableError), error
    assert "public.t was rewritten, emptied, replaced or attached" in str(error)
    assert len(polled_day(WHOLE, postgresql.connection(), DAY)) == 500


def test_a_table_that_took_the_name_while_the_read_waited_for_it_has_all_its_rows(mysql_like: OwnDatabase) -> None:
    """Tools for online changes end so: the new table's rows are younger than the waiting transaction."""
    make(mysql_like)
    mysql_like.run("CREATE TABLE made LIKE t")
    connection, rows = mysql_like.connection(), list[Any]()
    waiting = f"SELECT count(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%' AND db = '{mysql_like.name}'"  # noqa: E501
    with (
        WHOLE.open(connection, PollContext()) as poller,
        closing(mysql_like.server.admin(mysql_like.name)) as writer,
        closing(mysql_like.server.admin(mysql_like.name)) as new_table,
    ):
        (part,) = poller.plan([DAY])
        writer.cursor().execute("LOCK TABLES t WRITE")
        reading = threading.Thread(target=lambda: rows.append(outcome(poller, part)))
        reading.start()
        wait_until(lambda: mysql_like.run(waiting) == [(1,)])
        mysql_like.run(f"INSERT INTO made SELECT n, n, 'y', NULL FROM ({mysql_like.series(500)}) AS s")
        swap = threading.Thread(target=new_table.cursor().execute, args=["RENAME TABLE t TO other, made TO t"])
        swap.start()
        wait_until(lambda: mysql_like.run(waiting) == [(2,)])
        writer.cursor().execute("UNLOCK TABLES")
        swap.join()
        reading.join()
    assert rows in ([1], [500]), "the old table whole, or the new one"


def outcome(poller: Any, part: Any) -> object:
    try:
        return len(polled(poller, part))
    except Exception as error:
        return error


def test_a_table_is_not_altered_while_its_chunks_are_read(
    postgresql: OwnDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 100)
    postgresql.run(
        "CREATE TABLE t (id int PRIMARY KEY, at date) PARTITION BY RANGE (id)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE t_3 (id int PRIMARY KEY, at date)",
        "INSERT INTO t SELECT n, '2026-10-05' FROM generate_series(1, 400) AS s (n)",
    )
    with WHOLE.open(postgresql.connection(), PollContext()) as poller:
        parts = poller.plan([DAY])
        rows = polled(poller, parts[0])
        alters = ("SET lock_timeout = '100ms'", "ALTER TABLE t ALTER at TYPE timestamp")
        with pytest.raises(Exception, match="lock timeout"):
            postgresql.run(*alters)
        # What may be done meanwhile does no harm.
        postgresql.run(
            "CREATE INDEX by_time ON t_1 (at)",
            "CREATE TABLE t_2 (id int PRIMARY KEY, at date)",
            "INSERT INTO t_2 SELECT n, NULL FROM generate_series(1000, 1999) AS s (n)",
            "ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (1000) TO (2000)",
        )
        rows += [row for part in parts[1:] for row in polled(poller, part)]
        assert len(parts) == 4
        assert sorted(row["id"] for row in rows) == list(range(1, 401))
        # Rows that were there before, elsewhere, and come in halfway: some chunks are read without them.
        postgresql.run("ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES FROM (-1000) TO (0)")
        with pytest.raises(PlanGoneError, match=r"public\.t_3 was rewritten, emptied, replaced or attached"):
            polled(poller, parts[0])
        poller.accept(DAY, {})
        postgresql.run(*alters)
