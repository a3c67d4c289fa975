"""Silent changes by MySQL and MariaDB: hidden columns, and values cut with a warning."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.reads import polled_day

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5))


@pytest.fixture
def clerk(mysql_like: OwnDatabase) -> Iterator[Connection]:
    """A user with rights on two of a table's four columns, and on one of its view's."""
    name, password = f"clerk_{uuid.uuid4().hex[:8]}", "clerk's own"
    mysql_like.run(
        "CREATE TABLE t (id int, part int, open int, closed int, PRIMARY KEY (id, part))",
        "INSERT INTO t VALUES (1, 1, 2, 3), (1, 2, 2, 3)",
        "CREATE VIEW v AS SELECT id, open, closed FROM t",
        f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY 'clerk''s own'",
        f"GRANT SELECT (id, open) ON t TO {name}@'127.0.0.1'",
        f"GRANT SELECT (open) ON v TO {name}@'127.0.0.1'",
    )
    try:
        yield mysql_like.connection(login=SecretStr(name), password=SecretStr(password))
    finally:
        mysql_like.run(f"DROP USER {name}@'127.0.0.1'")


@pytest.mark.parametrize("table", ["t", "v"])
def test_hidden_columns_fail_the_read(clerk: Connection, table: str) -> None:
    source = SqlSource(conn_id="sql_default", table=table, key=["open"], snapshot="replace")
    with pytest.raises(ConfigError, match="hides the columns that the user may not read") as refused:
        polled_day(source, clerk, DAY)
    assert "Grant SELECT on the whole table, or name the columns to read with columns=" in str(refused.value)
    report = check(source, clerk)
    assert not report.passed
    assert "hides the columns that the user may not read" in str(report)


def test_columns_that_are_named_are_read(clerk: Connection) -> None:
    """The primary key has a column that the user may not read, so the read leaves it out."""
    source = SqlSource(conn_id="sql_default", table="v", columns=["open"], key=["open"], snapshot="replace")
    with pytest.raises(DataError, match="does not identify a row"):
        polled_day(source, clerk, DAY)
    chosen = SqlSource(conn_id="sql_default", table="t", columns=["id", "open"], key=["id"], where="id = 0", **WHOLE)
    assert polled_day(chosen, clerk, DAY) == []


WHOLE: dict[str, Any] = {"snapshot": "replace"}
BY_QUERY: dict[str, Any] = {"conn_id": "sql_default", "stream": "q", "key": ["id"], **WHOLE}


def test_a_long_group_concat_is_whole(mysql_like: OwnDatabase) -> None:
    mysql_like.run(
        "CREATE TABLE t (id int, n int, word varchar(200), PRIMARY KEY (id, n))",
        f"INSERT INTO t SELECT n % 2, n, repeat('x', 200) FROM ({mysql_like.series(12000)}) AS s",
    )
    query = "SELECT id, group_concat(word ORDER BY n DESC SEPARATOR '') AS words FROM t GROUP BY id"
    rows = polled_day(SqlSource(**BY_QUERY, query=query), mysql_like.connection(), DAY)
    assert [(row["id"], len(row["words"])) for row in sorted(rows, key=lambda row: row["id"])] == [
        (0, 1_200_000),
        (1, 1_200_000),
    ]


CUT = {
    "in part": ("SELECT id, cast(word AS signed) AS n FROM t", "warning 1292, 1 times"),
    "no date": ("SELECT id, cast(word AS date) AS seen FROM t", "warning 1292, 2 times"),
    "no form": ("SELECT id, str_to_date(concat('x', word), '%Y') AS seen FROM t", "warning 1411"),
    "comparison": ("SELECT id FROM t WHERE word = 5", "warning 1292, 1 times"),
    "no characters": ("SELECT id, convert(blob_ using utf8mb4) AS text FROM t", "warning 1300"),
    "range": ("SELECT id, cast(id * 100 AS decimal(2,1)) AS n FROM t", "warning 1264"),
    "packet": ("SELECT id, repeat(word, 20000000) AS long_ FROM t WHERE id = 2", "warning 1301"),
}


@pytest.mark.parametrize("how", CUT)
def test_a_value_that_the_server_cut_fails_the_day(mysql_like: OwnDatabase, how: str) -> None:
    query, reason = CUT[how]
    mysql_like.run(
        "CREATE TABLE t (id int PRIMARY KEY, word varchar(20), blob_ blob)",
        "INSERT INTO t VALUES (1, '5', 'a'), (2, '2026 s3cr3t', x'ff')",
    )
    with pytest.raises(DataError) as refused:
        polled_day(SqlSource(**BY_QUERY, query=query), mysql_like.connection(), DAY)
    assert "the server warns that it cut or replaced values" in str(refused.value)
    assert reason in str(refused.value)
    assert "s3cr3t" not in str(refused.value)


def test_a_where_that_compares_a_text_with_a_number_fails_the_day(mysql_like: OwnDatabase) -> None:
    mysql_like.run("CREATE TABLE t (id int PRIMARY KEY, word varchar(20))", "INSERT INTO t VALUES (1, '5'), (2, '5a')")
    source = SqlSource(conn_id="sql_default", table="t", where="word = 5", **WHOLE)
    with pytest.raises(DataError, match="Compare texts with texts"):
        polled_day(source, mysql_like.connection(), DAY)
    as_text = source.model_copy(update={"where": "word = '5'"})
    assert [row["id"] for row in polled_day(as_text, mysql_like.connection(), DAY)] == [1]


def test_warnings_that_change_no_value_are_no_failure(mysql_like: OwnDatabase) -> None:
    """Zero dates that become NULL by option, a division by zero, and a requested cast of a negative number."""
    mysql_like.run(
        "SET sql_mode = ''",
        "CREATE TABLE t (id int PRIMARY KEY, seen date, at datetime)",
        "INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00 00:00:00'), (2, '2026-00-01', '2026-10-05 12:00:00')",
    )
    source = SqlSource(conn_id="sql_default", table="t", zero_dates="null", **WHOLE)
    assert [row["seen"] for row in polled_day(source, mysql_like.connection(), DAY)] == [None, None]
    query = f"SELECT n AS id, 1 / 0 AS nothing, cast(-n AS unsigned) AS u FROM ({mysql_like.series(2000)}) AS s"
    assert len(polled_day(SqlSource(**BY_QUERY, query=query), mysql_like.connection(), DAY)) == 2000
