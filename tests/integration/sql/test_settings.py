"""Settings of servers, databases and connections: a session makes its own, so that none changes a value."""

from __future__ import annotations

import pytest

from airflow_provider_connect.clients.sql.database import Table
from tests.equipment.sql.fixtures import OwnDatabase

pytestmark = pytest.mark.slow


def test_settings_of_the_connection_are_made_before_the_session_s_own(every: OwnDatabase) -> None:
    if every.server.conn_type == "postgres":
        every.run("CREATE SCHEMA s", "CREATE TABLE s.t (a int)", "GRANT USAGE ON SCHEMA s TO PUBLIC")
        database = every.open(extra={"options": "-c search_path=s", "application_name": "me"})
        assert [column.name for column in database.describe(Table("t"))] == ["a"]
        assert database.one_row("SELECT current_setting('application_name')") == ("tests",)
    else:
        database = every.open(extra={"init_command": "SET lock_wait_timeout = 17, time_zone = '+09:00'"})
        assert database.one_row("SELECT @@lock_wait_timeout, @@time_zone") == (17, "+00:00")


def test_settings_of_the_server_change_no_value_of_a_query(mysql_like: OwnDatabase) -> None:
    defaults = {"div_precision_increment": "4", "lc_time_names": "en_US", "default_week_format": "0"}
    changed = {"div_precision_increment": "1", "lc_time_names": "de_DE", "default_week_format": "3"}
    try:
        for name, value in changed.items():
            mysql_like.run(f"SET GLOBAL {name} = {value if value.isdigit() else repr(value)}")
        query = "SELECT cast(1 / 3 AS char), monthname('2026-03-01'), week('2026-01-01')"
        assert mysql_like.open().one_row(query) == ("0.3333", "March", 0)
        assert mysql_like.run(query) == [("0.3", "März", 1)]
    finally:
        for name, value in defaults.items():
            mysql_like.run(f"SET GLOBAL {name} = {value if value.isdigit() else repr(value)}")


def test_defaults_of_the_database_change_no_condition(postgresql: OwnDatabase) -> None:
    for setting in ("transform_null_equals = on", "standard_conforming_strings = off"):
        postgresql.run(f'ALTER DATABASE "{postgresql.name}" SET {setting}')
    assert postgresql.open().one_row("SELECT (NULL = 1) IS NULL, (1 = NULL) IS NULL, '\\'") == (True, True, "\\")
