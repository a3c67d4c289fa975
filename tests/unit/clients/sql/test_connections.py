"""Airflow's connections to databases: passed fields, refused fields, and the meaning of errors."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from airflow_provider_connect.clients.sql.database import SessionLimits
from airflow_provider_connect.clients.sql.mysql import connection as mysql
from airflow_provider_connect.clients.sql.mysql import errors as mysql_errors
from airflow_provider_connect.clients.sql.opening import connection_problems, open_database
from airflow_provider_connect.clients.sql.postgresql import connection as postgresql
from airflow_provider_connect.clients.sql.postgresql import errors as postgresql_errors
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, DeadlineError, RetriableError
from airflow_provider_connect.secrets import Secrets
from tests.equipment.http.authority import Authority


def connection(conn_type: str = "postgres", **fields: Any) -> Connection:
    extra = {"host": "db", "path": "shop", "login": "reader", "password": "s3cr3t", "extra": {}}
    return Connection(conn_id="c", conn_type=conn_type, **extra | fields)


def test_airflows_fields_become_libpqs_parameters() -> None:
    parameters = postgresql.connect_parameters(
        connection(port=6432, extra={"sslmode": "verify-full", "cursor": "x"}), "dag", 12.4
    )
    assert parameters["host"] == "db"
    assert parameters["port"] == 6432
    assert parameters["dbname"] == "shop"
    assert parameters["user"] == "reader"
    assert parameters["password"] == "s3cr3t"
    assert parameters["sslmode"] == "verify-full"
    assert parameters["application_name"] == "dag"
    assert parameters["connect_timeout"] == 12
    assert "cursor" not in parameters


def test_airflows_fields_become_pymysqls_arguments() -> None:
    arguments = mysql.connect_arguments(connection("mysql", password="pä€", extra={"charset": "latin1"}), 12.5)
    assert arguments["password"] == "pä€".encode()
    assert arguments["port"] == 3306
    assert arguments["database"] == "shop"
    assert arguments["connect_timeout"] == 12.5
    assert "charset" not in arguments
    assert "ssl" not in arguments


@pytest.mark.parametrize(
    ("conn_type", "fields", "message"),
    [
        ("postgres", {"path": None}, "schema field is empty"),
        ("postgres", {"extra": {"sslmod": "require"}}, "'sslmod'"),
        ("postgres", {"extra": {"sslmode": "required"}}, "verify-full"),
        ("postgres", {"extra": {"sslrootcert": ["a"]}}, "'sslrootcert' must be text"),
        ("postgres", {"extra": {"iam": True}}, "'iam'"),
        ("postgres", {"extra": {"options": "-c x=y"}}, "'options': the setting 'x' may change rows or values"),
        ("postgres", {"extra": {"options": "-c jit=off -c DateStyle=German"}}, "'datestyle'"),
        ("postgres", {"extra": {"options": "-c timezone=UTC"}}, "'timezone'"),
        ("postgres", {"extra": {"options": "--row-security=on"}}, "'row_security'"),
        ("postgres", {"extra": {"options": "endpoint=x"}}, "'options' must be settings"),
        ("mysql", {"extra": {"ssl_mode": "YES"}}, "VERIFY_IDENTITY"),
        ("mysql", {"extra": {"ssl": "{"}}, "'ssl' must be an object"),
        ("mysql", {"extra": {"ssl": {"caa": "x"}}}, "'caa'"),
        ("mysql", {"extra": {"init_command": "DROP"}}, "'init_command' must be one SET"),
        ("mysql", {"extra": {"init_command": "SET wait_timeout = 60; DROP TABLE t"}}, "'init_command' must be one SET"),
        ("mysql", {"extra": {"init_command": "SET wait_timeout = (SELECT 1)"}}, "'init_command' must be one SET"),
        ("mysql", {"extra": {"init_command": "SET GLOBAL wait_timeout = 1"}}, "'init_command' must be one SET"),
        ("mysql", {"extra": {"init_command": "SET wait_timeout=1, sql_select_limit=1"}}, "'sql_select_limit'"),
        ("mysql", {"extra": {"local_infile": 1}}, "'local_infile' lets the server read files"),
        ("mysql", {"extra": {"iam": True}}, "'iam'"),
    ],
)
def test_a_wrong_field_is_a_problem_before_a_connection_is_made(
    conn_type: str, fields: dict[str, Any], message: str
) -> None:
    (problems,) = connection_problems(connection(conn_type, **fields))
    assert message in problems
    assert "'c'" in problems
    assert "s3cr3t" not in problems


@pytest.mark.parametrize(
    ("conn_type", "extra"),
    [
        ("postgres", {}),
        ("postgres", {"options": r"-c search_path=a,\ b -csearch_path=x --work_mem=1GB", "application_name": "me"}),
        ("mysql", {"init_command": "set session wait_timeout = 60, @@time_zone := '+02:00';", "local_infile": False}),
        ("mysql", {}),
    ],
)
def test_a_right_connection_has_no_problem(conn_type: str, extra: dict[str, Any]) -> None:
    assert connection_problems(connection(conn_type, extra=extra)) == []


@pytest.mark.parametrize(
    ("extra", "verifies", "compares_names"),
    [
        ({"ssl": {"ca": "CA"}}, True, True),
        ({"ssl": '{"ca": "CA"}'}, True, True),
        ({"ssl": {"ca": "CA", "check_hostname": False}}, True, False),
        ({"ssl": {"ca": "CA"}, "ssl_mode": "VERIFY_CA"}, True, False),
        ({"ssl": {"ca": "CA"}, "ssl_mode": "verify_identity"}, True, True),
        ({"ssl_mode": "VERIFY_IDENTITY"}, True, True),
        ({"ssl_mode": "REQUIRED"}, False, False),
    ],
)
def test_ssl_fields_become_mysqls_tls_settings(
    extra: dict[str, Any], verifies: bool, compares_names: bool, tmp_path: Path
) -> None:
    if "ssl" in extra:
        path, given = tmp_path / "ca.pem", extra["ssl"]
        path.write_text(Authority("an authority").pem)
        extra = extra | {"ssl": given.replace("CA", str(path)) if isinstance(given, str) else given | {"ca": str(path)}}
    context = mysql.connect_arguments(connection("mysql", extra=extra), 1)["ssl"]
    assert (context.verify_mode == ssl.CERT_REQUIRED) is verifies
    assert context.check_hostname is compares_names


def test_tls_of_mysql_is_off_when_disabled_and_refused_without_its_file() -> None:
    assert mysql.connect_arguments(connection("mysql", extra={"ssl_mode": "DISABLED"}), 1)["ssl_disabled"] is True
    with pytest.raises(ConfigError, match="'ssl'"):
        mysql.connect_arguments(connection("mysql", extra={"ssl": {"ca": "/nix"}}), 1)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("08006", RetriableError), ("40001", RetriableError), ("40P01", RetriableError), ("53300", RetriableError),
        ("57P01", RetriableError), ("57P03", RetriableError), ("58030", RetriableError), ("57014", DeadlineError),
        ("42501", ConfigError), ("42P01", ConfigError), ("25006", ConfigError), ("3D000", ConfigError),
        ("28P01", ConfigError), ("22P02", DataError), ("XX001", DataError), ("XX000", RetriableError),
    ],
)  # fmt: skip
def test_a_code_of_postgresql_decides_the_error(code: str, kind: type[Exception]) -> None:
    translated = postgresql_errors.sql_error(psycopg.errors.lookup(code)("value s3cr3t"), "reading")
    assert type(translated) is kind
    assert code in str(translated)
    assert "s3cr3t" not in str(translated)


def test_a_lost_connection_of_postgresql_has_no_code() -> None:
    assert type(postgresql_errors.sql_error(psycopg.OperationalError("s3cr3t"), "reading")) is RetriableError


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (1040, RetriableError), (1205, RetriableError), (1213, RetriableError), (2006, RetriableError),
        (2013, RetriableError), (1412, RetriableError), (1317, RetriableError), (1969, DeadlineError),
        (3024, DeadlineError), (1045, ConfigError), (1142, ConfigError), (1064, ConfigError), (1792, ConfigError),
        (1690, DataError),
    ],
)  # fmt: skip
def test_a_number_of_mysql_decides_the_error(number: int, kind: type[Exception]) -> None:
    translated = mysql_errors.sql_error(pymysql.OperationalError(number, "near 's3cr3t'"), "reading")
    assert type(translated) is kind
    assert str(number) in str(translated)
    assert number in (1045, 1142) or "s3cr3t" not in str(translated)


def test_the_error_of_a_failed_connection_hides_the_password() -> None:
    hidden = Secrets(["s3cr3t"])
    server_text = "connection failed: FATAL: password authentication failed for s3cr3t"
    translated = postgresql_errors.connecting_error(psycopg.OperationalError(server_text), "c", hidden)
    assert type(translated) is ConfigError
    assert "s3cr3t" not in str(translated)
    for refused in (pymysql.OperationalError(2003, "Can't connect s3cr3t"), pymysql.OperationalError(1045, "s3cr3t")):
        assert "s3cr3t" not in str(mysql_errors.connecting_error(refused, "c", hidden))


def test_a_silent_server_times_out_at_login() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = connection("mysql", host="127.0.0.1", port=silent.getsockname()[1])
        with pytest.raises(RetriableError, match="timed out"):
            open_database(mute, application_name="tests", limits=SessionLimits(connect_seconds=0.2))
