"""What MySQL itself answers where MariaDB says nothing, or another number: who has to do something, and what."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from airflow_provider_connect.clients.sql.database import Choices, Limits, Query
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.errors import ConfigError, ConnectError, DeadlineError, RetriableError
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources.sql import SqlSource
from tests.equipment.sql.fixtures import OwnDatabase

pytestmark = pytest.mark.slow

GUEST = "guest"


@pytest.fixture
def guest(mysql: OwnDatabase) -> Iterator[OwnDatabase]:
    """A database with another user, who is new to the server: no password of theirs has been checked yet."""
    mysql.run(f"CREATE USER {GUEST}@'127.0.0.1' IDENTIFIED BY 'x'", f"GRANT SELECT ON *.* TO {GUEST}@'127.0.0.1'")
    try:
        yield mysql
    finally:
        mysql.run(f"DROP USER {GUEST}@'127.0.0.1'")


@pytest.mark.parametrize("mode", ["DISABLED", "PREFERRED", "REQUIRED"])
def test_a_password_that_the_server_has_not_seen_yet_is_sent_in_every_mode(guest: OwnDatabase, mode: str) -> None:
    """caching_sha2_password has the whole password the first time: over TLS, or with the server's public key."""
    with guest.open(login=GUEST, password="x", extra={"ssl_mode": mode}) as database:
        assert (database.one("SHOW STATUS LIKE 'Ssl_cipher'")[1] == "") is (mode == "DISABLED")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("ALTER USER guest@'127.0.0.1' ACCOUNT LOCK", 3118),
        ("ALTER USER guest@'127.0.0.1' PASSWORD EXPIRE", 1862),
        ("UPDATE mysql.user SET plugin = 'mysql_native_password' WHERE user = 'guest'", 1524),
    ],
)
def test_a_user_who_is_not_let_in_has_to_be_mended(guest: OwnDatabase, change: str, code: int) -> None:
    guest.run(change, "FLUSH PRIVILEGES")
    with pytest.raises(ConfigError, match=f"error {code}.*correct the connection"):
        guest.open(login=GUEST, password="x")


def test_a_user_who_is_locked_out_after_wrong_passwords_has_to_be_mended(guest: OwnDatabase) -> None:
    guest.run(f"ALTER USER {GUEST}@'127.0.0.1' FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME UNBOUNDED")
    with pytest.raises(ConfigError, match=r"error 3955.*correct the connection"):
        guest.open(login=GUEST, password="wrong")


@contextlib.contextmanager
def set_globally(own: OwnDatabase, name: str) -> Iterator[None]:
    own.run(f"SET GLOBAL {name} = ON")
    try:
        yield
    finally:
        own.run(f"SET GLOBAL {name} = OFF")


def test_a_server_that_wants_tls_is_not_asked_again_without(mysql: OwnDatabase) -> None:
    with (
        set_globally(mysql, "require_secure_transport"),
        pytest.raises(ConfigError, match=r"error 3159.*insecure transport.*correct the connection"),
    ):
        mysql.open(extra={"ssl_mode": "DISABLED"})


def test_a_server_that_is_offline_for_a_while_may_be_asked_again(mysql: OwnDatabase) -> None:
    with set_globally(mysql, "offline_mode"), pytest.raises(RetriableError, match="error 3032"):
        mysql.open()


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
def test_sql_that_is_wrong_is_a_persons_to_mend(mysql: OwnDatabase, sql: str, code: int) -> None:
    mysql.run("CREATE TABLE t (id int PRIMARY KEY, d date)", "INSERT INTO t VALUES (1, '2026-10-05')")
    with pytest.raises(ConnectError, match=f"error {code}") as raised:
        mysql.rows(Query(sql))
    assert isinstance(raised.value, ConfigError)


def test_a_recursion_without_end_is_a_persons_to_mend(mysql: OwnDatabase) -> None:
    with mysql.open() as database:
        database.rows("SET SESSION cte_max_recursion_depth = 10")
        with pytest.raises(ConfigError, match="error 3636"):
            database.rows("WITH RECURSIVE w AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM w) SELECT * FROM w")


def test_rows_that_flow_too_long_are_ended_by_the_server(every: OwnDatabase) -> None:
    every.run("CREATE TABLE t (n int PRIMARY KEY)", f"INSERT INTO t {every.series(1000)}")
    what = Query("SELECT a.n, repeat('x', 500) AS wide FROM t AS a, t AS b, t AS c")
    with open_database(every.connection(), application_name="tests", limits=Limits(statement_seconds=0.5)) as database:
        columns = database.reading(database.describe(what), Choices())
        with pytest.raises(DeadlineError, match=r"57014|1969|3024"):
            for _ in database.read(columns, database.relation(what)):
                pass


def test_who_may_not_see_a_replicas_lag_is_told(mysql_like: OwnDatabase) -> None:
    mysql_like.run("CREATE TABLE t (id int PRIMARY KEY)")
    report = check(SqlSource(conn_id="sql_default", table="t", snapshot="replace"), mysql_like.connection())
    assert report.passed
    assert "whether the server is one cannot be seen" in str(report)
