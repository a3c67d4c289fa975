"""Differences of MySQL from MariaDB: its errors, login methods and statistics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_connect.clients.sql.database import Query, SessionLimits, Table, ValueChoices
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.errors import ConfigError, ConnectError, DeadlineError, RetriableError
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources._sql.table_shape import inspect_table
from airflow_provider_connect.sources.sql import SqlSource
from tests.equipment.sql.fixtures import NEEDS_MYSQL, OwnDatabase, own_database
from tests.equipment.sql.servers import MySQLServer

pytestmark = pytest.mark.slow


@pytest.fixture
def guest(mysql: OwnDatabase) -> Iterator[OwnDatabase]:
    """A database and a user of the same name, whose password the server has not checked yet."""
    user = f"{mysql.name}@'127.0.0.1'"
    mysql.run(f"CREATE USER {user} IDENTIFIED BY 'x'", f"GRANT SELECT ON *.* TO {user}")
    try:
        yield mysql
    finally:
        mysql.run(f"DROP USER {user}")


@pytest.mark.parametrize("mode", ["DISABLED", "PREFERRED", "REQUIRED"])
def test_a_password_that_is_not_cached_works_in_every_ssl_mode(guest: OwnDatabase, mode: str) -> None:
    """caching_sha2_password needs the whole password the first time: over TLS, or with the server's public key."""
    with guest.open(login=guest.name, password="x", extra={"ssl_mode": mode}) as database:
        assert (database.one_row("SHOW STATUS LIKE 'Ssl_cipher'")[1] == "") is (mode == "DISABLED")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("ALTER USER {0}@'127.0.0.1' ACCOUNT LOCK", 3118),
        ("ALTER USER {0}@'127.0.0.1' PASSWORD EXPIRE", 1862),
        ("UPDATE mysql.user SET plugin = 'mysql_native_password' WHERE user = '{0}'", 1524),
    ],
)
def test_a_refused_user_is_a_config_error(guest: OwnDatabase, change: str, code: int) -> None:
    guest.run(change.format(guest.name), "FLUSH PRIVILEGES")
    with pytest.raises(ConfigError, match=f"error {code}.*correct the connection"):
        guest.open(login=guest.name, password="x")


def test_a_locked_user_is_a_config_error(guest: OwnDatabase) -> None:
    guest.run(f"ALTER USER {guest.name}@'127.0.0.1' FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME UNBOUNDED")
    with pytest.raises(ConfigError, match=r"error 3955.*correct the connection"):
        guest.open(login=guest.name, password="wrong")


@NEEDS_MYSQL
def test_required_tls_is_a_config_error_and_an_offline_server_retriable() -> None:
    with MySQLServer() as server, own_database(server) as database:
        database.run("SET GLOBAL require_secure_transport = ON")
        with pytest.raises(ConfigError, match=r"error 3159.*insecure transport.*correct the connection"):
            database.open(extra={"ssl_mode": "DISABLED"})
        database.run("SET GLOBAL offline_mode = ON")
        with pytest.raises(RetriableError, match="error 3032"):
            database.open()


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT 1 AS a FROM t WHERE d = 'no date'", 1525),
        ("SELECT id AS a, sum(id) OVER (ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) AS s FROM t", 3586),
        ("WITH w AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM w) SELECT * FROM w", 1146),
        ("WITH RECURSIVE w AS (SELECT a + 1 AS a FROM w) SELECT * FROM w", 3573),
        ("SELECT json_extract('{}', 'wrong path') AS a FROM t", 3143),
        ("SELECT regexp_like('a', '(') AS a FROM t WHERE regexp_like('a', '(')", 3691),
        ("SELECT grouping(id) AS a FROM t", 1111),
    ],
)
def test_wrong_sql_is_a_config_error(mysql: OwnDatabase, sql: str, code: int) -> None:
    mysql.run("CREATE TABLE t (id int PRIMARY KEY, d date)", "INSERT INTO t VALUES (1, '2026-10-05')")
    with pytest.raises(ConnectError, match=f"error {code}") as raised:
        mysql.rows(Query(sql))
    assert isinstance(raised.value, ConfigError)


def test_an_endless_recursion_is_a_config_error(mysql: OwnDatabase) -> None:
    with mysql.open() as database:
        database.rows("SET SESSION cte_max_recursion_depth = 10")
        with pytest.raises(ConfigError, match="error 3636"):
            database.rows("WITH RECURSIVE w AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM w) SELECT * FROM w")


def test_rows_that_flow_too_long_are_ended_by_the_server(every: OwnDatabase) -> None:
    every.run("CREATE TABLE t (n int PRIMARY KEY)", f"INSERT INTO t {every.series(1000)}")
    what = Query("SELECT a.n, repeat('x', 500) AS wide FROM t AS a, t AS b, t AS c")
    with open_database(
        every.connection(), application_name="tests", limits=SessionLimits(statement_seconds=0.5)
    ) as database:
        columns = database.read_columns(database.describe(what), ValueChoices())
        with pytest.raises(DeadlineError, match=r"57014|1969|3024"):
            for _ in database.read(columns, database.relation(what)):
                pass


def test_an_unknown_setting_is_a_config_error(mysql_like: OwnDatabase) -> None:
    """A session skips settings that its server does not know, so this error must differ from a lost connection."""
    with pytest.raises(ConfigError, match="error 1193"):
        mysql_like.open().rows("SET SESSION information_schema_stats_expired = 0")


def test_the_estimate_of_a_table_is_up_to_date(mysql: OwnDatabase) -> None:
    """MySQL caches a table's statistics for a day after the first query for them."""
    size = "SELECT table_rows FROM information_schema.tables WHERE table_schema = database() AND table_name = 't'"
    mysql.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (0)")
    assert mysql.run("ANALYZE TABLE t", size) == [(1,)]
    assert mysql.run(f"INSERT INTO t {mysql.series(5000)}", size) == [(1,)]
    assert (mysql.open().estimated_rows(Table("t")) or 0) > 4000


def test_columns_that_the_server_makes_are_read(mysql_like: OwnDatabase) -> None:
    mysql_like.run(
        "CREATE TABLE t (id int PRIMARY KEY, "
        "twice int GENERATED ALWAYS AS (id * 2) VIRTUAL, kept int GENERATED ALWAYS AS (id * 3) STORED, "
        "at timestamp(6) DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6), hidden int INVISIBLE DEFAULT 7)",
        "INSERT INTO t (id) VALUES (2)",
    )
    described = mysql_like.open().describe(Table("t"))
    assert [column.name for column in described] == ["id", "twice", "kept", "at", "hidden"]
    (row,) = mysql_like.rows("t")
    assert [row[name] for name in ("id", "twice", "kept", "hidden")] == [2, 4, 6, 7]


def test_a_primary_key_that_the_server_has_made_by_itself_identifies(mysql: OwnDatabase) -> None:
    """Managed servers enable it: https://dev.mysql.com/doc/refman/9.7/en/create-table-gipks.html (2026-11)."""
    mysql.run("SET sql_generate_invisible_primary_key = ON", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (1)")
    shape = inspect_table(mysql.open(), SqlSource(conn_id="sql_default", table="t", snapshot="replace"))
    assert (shape.key, shape.is_unique) == (("my_row_id",), True)
    assert [int(row["my_row_id"]) for row in mysql.rows("t", order_by="my_row_id")] == [1, 2]


def test_a_check_reports_that_the_user_may_not_read_a_replicas_lag(mysql_like: OwnDatabase) -> None:
    mysql_like.run("CREATE TABLE t (id int PRIMARY KEY)")
    report = check(SqlSource(conn_id="sql_default", table="t", snapshot="replace"), mysql_like.connection())
    assert report.passed
    assert "whether the server is a replica is unknown" in str(report)
