"""PostgreSQL tables whose policies hide rows from the reader: refused, unless the stream accepts the visible rows."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.reads import polled, polled_day
from tests.equipment.sql.servers import READER

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5))
POLICY = ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON t USING (tenant = 1)")


@pytest.fixture
def tenants(postgresql: OwnDatabase) -> OwnDatabase:
    """A table of 9 rows, of which the reader may see 3."""
    postgresql.run(
        "CREATE TABLE t (id int PRIMARY KEY, tenant int NOT NULL, at timestamptz NOT NULL)",
        "INSERT INTO t SELECT n, n % 3, '2026-10-05 12:00+00' FROM generate_series(1, 9) AS n",
        "CREATE VIEW owners AS SELECT * FROM t",
        "CREATE FUNCTION listed() RETURNS SETOF t LANGUAGE sql STABLE AS 'SELECT * FROM t'",
        *POLICY,
    )
    return postgresql


PARTS = {
    "day": {"table": "t", "day_column": "at"},
    "snapshot": {"table": "t", "snapshot": "replace"},
    "mode": {"table": "t", "mode": "incrementing", "incrementing_column": "id"},
    "query": {"query": "SELECT * FROM t", "stream": "q", "key": ["id"], "snapshot": "replace"},
    "function": {"query": "SELECT * FROM listed()", "stream": "q", "key": ["id"], "snapshot": "replace"},
    "invoker": {"table": "invokers", "key": ["id"], "snapshot": "replace"},
}


@pytest.mark.parametrize("way", PARTS)
def test_hidden_rows_are_refused_unless_accepted(tenants: OwnDatabase, way: str) -> None:
    tenants.run("CREATE VIEW invokers WITH (security_invoker) AS SELECT * FROM t")
    source = SqlSource(conn_id="sql_default", **PARTS[way])
    with pytest.raises(ConfigError, match="row level security hides rows of") as refused:
        polled_day(source, tenants.connection(), DAY)
    assert "BYPASSRLS" in str(refused.value)
    assert "row_security='accept'" in str(refused.value)
    accepted = SqlSource(conn_id="sql_default", **PARTS[way], row_security="accept")
    assert len(polled_day(accepted, tenants.connection(), DAY)) == 3


def test_the_check_reports_hidden_rows(tenants: OwnDatabase) -> None:
    report = check(SqlSource(conn_id="sql_default", table="t", day_column="at"), tenants.connection())
    assert not report.passed
    assert "row level security hides rows of" in str(report)
    assert "the user may read all columns" not in str(report)

    accepting = SqlSource(conn_id="sql_default", table="t", day_column="at", row_security="accept")
    report = check(accepting, tenants.connection())
    assert report.passed
    assert (
        "policies hide rows from this user, and row_security='accept' loads only the rows that the user may see"
        in str(report)
    )


def test_a_user_without_hidden_rows_reads_every_row(tenants: OwnDatabase) -> None:
    """A view reads as its owner, and a policy for other roles does not affect the reader."""
    source = SqlSource(conn_id="sql_default", table="owners", key=["id"], snapshot="replace")
    assert len(polled_day(source, tenants.connection(), DAY)) == 9
    accepting = SqlSource(conn_id="sql_default", table="owners", key=["id"], snapshot="replace", row_security="accept")
    assert "no policy hides rows from this user" in str(check(accepting, tenants.connection()))
    exempt = f"exempt_{tenants.name}"
    tenants.run(f"CREATE ROLE {exempt} LOGIN BYPASSRLS PASSWORD 'x'", f"GRANT pg_read_all_data TO {exempt}")
    try:
        source = SqlSource(conn_id="sql_default", table="t", snapshot="replace")
        assert len(polled_day(source, tenants.connection(login=exempt, password="x"), DAY)) == 9
    finally:
        tenants.run(f"DROP ROLE {exempt}")


def test_a_policy_that_comes_between_plan_and_read_is_refused(postgresql: OwnDatabase) -> None:
    postgresql.run("CREATE TABLE t (id int PRIMARY KEY, tenant int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    source = SqlSource(conn_id="sql_default", table="t", snapshot="replace")
    with source.open(postgresql.connection(), PollContext()) as poller:
        (part,) = poller.plan([DAY])
        postgresql.run(*POLICY)
        with pytest.raises(Exception, match="row level security hides rows of"):
            polled(poller, part)


def test_a_role_s_own_setting_changes_nothing(tenants: OwnDatabase) -> None:
    accepting = SqlSource(conn_id="sql_default", table="t", snapshot="replace", row_security="accept")
    tenants.run(f"ALTER ROLE {READER} IN DATABASE {tenants.name} SET row_security = off")
    assert len(polled_day(accepting, tenants.connection(), DAY)) == 3
    tenants.run(f"ALTER ROLE {READER} IN DATABASE {tenants.name} SET row_security = on")
    with pytest.raises(ConfigError, match="row level security"):
        polled_day(accepting.model_copy(update={"row_security": "refuse"}), tenants.connection(), DAY)


def test_columns_that_the_user_may_not_read_are_an_error(postgresql: OwnDatabase) -> None:
    """PostgreSQL's catalog shows all columns, so none is left out silently."""
    postgresql.run(
        "CREATE TABLE t (id int PRIMARY KEY, open int, closed int)",
        "INSERT INTO t VALUES (1, 2, 3)",
        f"REVOKE pg_read_all_data FROM {READER}",
        f"GRANT SELECT (id, open) ON t TO {READER}",
    )
    try:
        source = SqlSource(conn_id="sql_default", table="t", snapshot="replace")
        with pytest.raises(ConfigError, match=r"permission denied for table t.*columns="):
            polled_day(source, postgresql.connection(), DAY)
        chosen = source.model_copy(update={"columns": ("id", "open")})
        assert [row["open"] for row in polled_day(chosen, postgresql.connection(), DAY)] == [2]
    finally:
        postgresql.run(f"GRANT pg_read_all_data TO {READER}", f"REVOKE ALL ON t FROM {READER}")
