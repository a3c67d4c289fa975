"""The SQL source on real databases: chunks that share a snapshot, days for every kind of time, the check's report."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_connect.clients.sql.database import Query, ValueChoices
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PlanGoneError, PollContext, Poller
from airflow_provider_connect.sources._sql import chunks
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5))
ROWS = 8_000
# Nine of ten rows have the same first half of their key, and the others lie far apart.
SKEWED = """INSERT INTO book_lines
    SELECT CASE WHEN n % 10 > 0 THEN 7 ELSE 1000003 * (n + 9000000000) END, concat('line ', n), n FROM ({0}) AS s"""


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 1_000)


def polled(poller: Poller, part: InputPartition) -> list[dict[str, Any]]:
    return [row for _, batch in poller.poll(part, Tally(part.days)) for row in batch.to_pylist()]


def lines(database: OwnDatabase) -> Connection:
    database.run(
        "CREATE TABLE book_lines (page bigint NOT NULL, line varchar(40) NOT NULL, n int, PRIMARY KEY (page, line))",
        SKEWED.format(database.series(ROWS)),
    )
    return database.connection()


def test_chunks_see_one_state_if_the_table_changes_during_the_read(postgresql: OwnDatabase) -> None:
    connection = lines(postgresql)
    source = SqlSource(conn_id=connection.conn_id, table="book_lines", snapshot="replace")
    with source.open(connection, PollContext()) as driver, source.open(connection, PollContext()) as executor:
        parts = driver.plan([DAY])
        first = polled(executor, parts[0])
        postgresql.run(
            "DELETE FROM book_lines WHERE n % 3 = 0",
            "UPDATE book_lines SET page = -page WHERE n % 3 = 1",
            "INSERT INTO book_lines SELECT 7, 'new ' || n, NULL FROM generate_series(1, 999) AS s (n)",
        )
        found = [first, *(polled(executor, part) for part in parts[1:])]
        assert [len(rows) for rows in found] == [ROWS // 4] * 4
        assert sum(row["n"] for rows in found for row in rows) == ROWS * (ROWS + 1) // 2
        assert len({row["record_key"] for rows in found for row in rows}) == ROWS
        driver.accept(DAY, {})
        with pytest.raises(PlanGoneError, match="the next try takes a new snapshot"):
            polled(executor, parts[0])
        again = driver.plan([DAY])
        assert {part.params["snapshot"] for part in again}.isdisjoint({parts[0].params["snapshot"]})
        assert sum(len(polled(executor, part)) for part in again) == ROWS - ROWS // 3 + 999
    (held,) = postgresql.run(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'connect %' AND datname = current_database()"
    )
    assert held == (0,)


def test_mysql_is_one_stream_except_with_consistency_chunk(mysql_like: OwnDatabase) -> None:
    connection = lines(mysql_like)
    found = {}
    for asked, consistency in ((None, "snapshot"), (4, "chunk")):
        source = SqlSource(conn_id=connection.conn_id, table="book_lines", snapshot="replace", consistency=consistency)
        with source.open(connection, PollContext()) as poller:
            found[asked] = [polled(poller, part) for part in poller.plan([DAY])]
    assert [len(rows) for rows in found[None]] == [ROWS]
    assert [len(rows) for rows in found[4]] == [ROWS // 4] * 4
    keys = [Counter(row["record_key"] for rows in parts for row in rows) for parts in found.values()]
    assert (len(keys[0]), (keys[0] - keys[1]).total(), (keys[1] - keys[0]).total()) == (ROWS, 0, 0)
    assert "each chunk is read at another moment" in str(check(source, connection))


@pytest.mark.parametrize("kind", ["uuid", "text", "date"])
def test_chunks_of_other_keys_hold_every_row_once(postgresql: OwnDatabase, kind: str) -> None:
    made = {"uuid": "md5(n::text)::uuid", "text": "chr(64 + n % 60) || n", "date": "date '2000-01-01' + n"}[kind]
    postgresql.run(
        f"CREATE TABLE t (k {kind} PRIMARY KEY)",
        f"INSERT INTO t SELECT {made} FROM generate_series(1, 5000) AS s (n)",
    )
    source = SqlSource(conn_id="shop", table="t", snapshot="replace")
    with source.open(postgresql.connection(), PollContext()) as poller:
        found = [polled(poller, part) for part in poller.plan([DAY])]
    assert [len(rows) for rows in found] == [1250] * 4
    assert len({row["k"] for rows in found for row in rows}) == 5_000


KEYS = {
    "postgres": {
        "numeric(12,2)": "n / 8.0",
        "date": "date '2000-01-01' + n",
        "uuid": "md5(n::text)::uuid",
        "text": "chr(64 + n % 60) || '''' || n",
    },
    "mysql": {
        "decimal(12,2)": "n / 8.0",
        "date": "date_add('2000-01-01', interval n day)",
        "varchar(40)": "concat(char(64 + n % 30), 'é', n)",
        "varchar(40) COLLATE utf8mb4_general_ci": "concat(char(64 + n % 30), '''', '\\\\', n)",
    },
}


def test_a_retry_splits_at_the_same_keys_and_reads_every_row_once(every: OwnDatabase) -> None:
    """The next driver resumes with the plan in the stage and the current table."""
    conn_type = every.server.conn_type
    for number, (kind, made) in enumerate(KEYS[conn_type].items()):
        every.run(
            f"CREATE TABLE t{number} (half int NOT NULL, k {kind} NOT NULL, n int, PRIMARY KEY (half, k))",
            f"INSERT INTO t{number} SELECT n % 2, {made}, n FROM ({every.series(5000)}) AS s",
        )
        source = SqlSource(conn_id="shop", table=f"t{number}", snapshot="replace", consistency="chunk")
        with (
            source.open(every.connection(), PollContext()) as first,
            source.open(every.connection(), PollContext()) as second,
        ):
            plan = [InputPartition.model_validate_json(part.model_dump_json()) for part in first.plan([DAY])]
            rows = [row["n"] for part in plan[:2] for row in polled(first, part)]
            every.run(f"DELETE FROM t{number} WHERE n % 10 = 0")
            assert second.resume(DAY, plan) == plan, kind
            rows += [row["n"] for part in plan[2:] for row in polled(second, part)]
        assert len(plan) == 4, kind
        assert len(rows) == len(set(rows)), kind
        assert {n for n in range(1, 5001) if n % 10} <= set(rows), kind


CLOCKS = {
    "postgres": {"instant": "timestamptz", "wall": "timestamp", "date": "date"},
    "mysql": {"instant": "timestamp(6) NULL", "wall": "datetime(6)", "date": "date"},
}


@pytest.mark.parametrize("zone", ["UTC", "US/Pacific"])
def test_a_day_of_a_changed_clock_has_its_rows_on_every_clock(every: OwnDatabase, zone: str) -> None:
    types = CLOCKS[every.server.conn_type]
    every.run(f"CREATE TABLE events (id int PRIMARY KEY, {', '.join(f'{at} {kind}' for at, kind in types.items())})")
    day = Day(date=dt.date(2026, 11, 1), zone="US/Pacific")  # 25 hours
    seconds = [-1, 0, 1, 5400, 9000, 25 * 3600 - 1, 25 * 3600]
    is_postgres = every.server.conn_type == "postgres"
    values = []
    for number, second in enumerate(seconds):
        instant = day.start + dt.timedelta(seconds=second)
        wall = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        date = instant.astimezone(ZoneInfo(day.zone)).date()
        values.append(f"({number}, '{instant.replace(tzinfo=None)}{'+00' * is_postgres}', '{wall}', '{date}')")
    every.run(
        "SET TIME ZONE 'UTC'" if is_postgres else "SET time_zone = '+00:00'",
        f"INSERT INTO events VALUES {', '.join(values)}, (99, NULL, NULL, NULL)",
    )
    for column in types:
        source = SqlSource(
            conn_id="shop", table="events", day_column=column, columns=["id"], zone=day.zone, db_timezone=zone
        )
        with source.open(every.connection(), PollContext()) as poller:
            (part,) = poller.plan([day])
            assert sorted(row["id"] for row in polled(poller, part)) == [1, 2, 3, 4, 5], column


def test_a_check_reports_clock_zone_and_rights(every: OwnDatabase) -> None:
    every.run("CREATE TABLE events (id int PRIMARY KEY, at timestamp NULL, secret int)")
    report = check(SqlSource(conn_id="shop", table="events", day_column="at"), every.connection())
    assert report.passed, report
    assert "the database's and this machine's agree" in str(report)
    assert "no index begins with it" in str(report)
    assert "the user may read all columns" in str(report)


@pytest.mark.parametrize("kind", ["int", "bigint", "numeric(20,0)"])
def test_a_day_of_seconds_is_found_by_an_index(every: OwnDatabase, kind: str) -> None:
    day = Day(date=dt.date(2026, 10, 5), zone="Europe/Berlin")
    first, end = int(day.start.timestamp()), int(day.end.timestamp())
    every.run(
        f"CREATE TABLE t (id int PRIMARY KEY, at {kind} NOT NULL)",
        "CREATE INDEX by_at ON t (at)",
        f"INSERT INTO t SELECT n, {first - 5 * 3600} + n * 3600 FROM ({every.series(5_000)}) AS s",
        "ANALYZE TABLE t" if every.server.conn_type == "mysql" else "ANALYZE t",
    )
    source = SqlSource(
        conn_id="sql_default", table="t", day_column="at", day_column_unit="seconds", zone="Europe/Berlin"
    )
    with source.open(every.connection(), PollContext()) as poller:
        (part,) = poller.plan([day])
        assert sorted(row["id"] for row in polled(poller, part)) == [*range(5, 29)]
    plan = every.run(f"EXPLAIN SELECT * FROM t WHERE {part.params['where']}")
    assert "by_at" in str(plan)
    assert str(end) in part.params["where"]


def test_sums_and_averages_of_a_query_have_the_chosen_type(every: OwnDatabase) -> None:
    choices = ValueChoices(decimals="decimal(38,9)")
    every.run("CREATE TABLE t (a numeric(38,2))", "INSERT INTO t VALUES (1.10), (2.25), (NULL)")
    table = every.table(Query("SELECT sum(a) AS s, round(avg(a), 4) AS m FROM t"), choices)
    assert table.to_pylist() == [{"s": Decimal("3.35"), "m": Decimal("1.675")}]
    if every.server.conn_type == "postgres":
        assert {str(kind) for kind in table.schema.types} == {"decimal128(38, 9)"}
    message = r"column 'm' .*is not a valid decimal128\(38, 9\).*Round it in a query"
    too_fine = (
        Query("SELECT 1::numeric / 3 AS m")
        if every.server.conn_type == "postgres"
        else Query("SELECT cast(0.1234567891 AS decimal(65,30)) AS m")
    )
    with pytest.raises(DataError, match=message):
        every.rows(too_fine, choices)
