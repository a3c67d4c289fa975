"""Connections of type jdbc: refused fields, options of Spark's reader, types and errors."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.sql.database import Query, SessionLimits, SqlColumn, Table, ValueChoices
from airflow_provider_connect.clients.sql.jdbc import connection as jdbc
from airflow_provider_connect.clients.sql.jdbc.errors import error_for_exceptions, jvm_exceptions
from airflow_provider_connect.clients.sql.jdbc.session import JdbcDatabase
from airflow_provider_connect.clients.sql.jdbc.types import base_type, convert_batch, read_column, require_same_types
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, DeadlineError, RetriableError

URL = "jdbc:sqlserver://db.example:1433;databaseName=shop;encrypt=true"


def connection(url: str = URL, **extra: Any) -> Connection:
    return Connection(conn_id="erp", conn_type="jdbc", host=url, login="reader", password="canary", extra=extra)


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "jdbc:oracle:thin:@//db.example:1521/shop",
        "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(HOST=db)(PORT=1521))(CONNECT_DATA=(SERVICE_NAME=shop)))",
        "jdbc:db2://db.example:50000/shop:currentSchema=SALES;",
        "jdbc:derby:/data/shop",
        "jdbc:snowflake://org.example.com/?db=SHOP&warehouse=W",
    ],
)
def test_urls_of_other_databases_have_no_problem(url: str) -> None:
    assert jdbc.connection_problems(connection(url)) == []


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:sqlserver://db;user=sa;password=canary",
        "jdbc:sqlserver://db; Password = canary",
        "jdbc:db2://db:50000/shop:user=a;password=canary;",
        "jdbc:redshift://db/shop?UID=a&PWD=canary",
        "jdbc:vertica://reader:canary@db/shop",
        "jdbc:vertica://canary@db/shop",
        "jdbc:oracle:thin:reader/canary@db:1521/shop",
        "jdbc:snowflake://db/?authenticator=oauth&token=canary",
        "jdbc:x://db/?private_key=canary",
    ],
)
def test_a_url_with_credentials_is_refused_and_not_repeated(url: str) -> None:
    problems = jdbc.connection_problems(connection(url))
    assert problems
    assert "canary" not in str(problems)


@pytest.mark.parametrize(
    ("kind", "own"), [("postgresql", "postgres"), ("mysql", "mysql"), ("mariadb", "mysql"), ("sqlite", "sqlite")]
)
def test_databases_with_an_own_reader_are_refused_over_jdbc(kind: str, own: str) -> None:
    (problem,) = jdbc.connection_problems(connection(f"jdbc:{kind}://db/shop"))
    assert f"use a connection of type {own}" in problem


def test_unknown_fields_of_the_extra_are_refused_and_airflows_own_ignored() -> None:
    assert (
        jdbc.connection_problems(connection(driver_path="/any.jar", driver_class="a.B", properties={"loginTimeout": 5}))
        == []
    )
    problems = jdbc.connection_problems(connection(driverclass="a.B", fetchsize="many", properties={"PassWord": "x"}))
    assert len(problems) == 3
    assert "driver_class" in problems[0]
    assert jdbc.connection_problems(connection(properties="a=b"))
    assert jdbc.connection_problems(connection(""))


def test_sparks_reader_gets_the_secret_only_as_an_option() -> None:
    options = jdbc.reader_options(
        connection(driver_class="a.B", session_init_statement="SET x", properties={"trustAll": True, "n": 5}),
        "(SELECT 1) r",
        SessionLimits(statement_seconds=1.2),
    )
    assert options == {
        "url": URL, "dbtable": "(SELECT 1) r", "user": "reader", "password": "canary", "driver": "a.B",
        "fetchsize": "10000", "queryTimeout": "2", "sessionInitStatement": "SET x", "preferTimestampNTZ": "true",
        "trustAll": "true", "n": "5",
    }  # fmt: skip


def read(base: str, decimals: Any = "exact") -> Any:
    return read_column(SqlColumn("c", base, base), ValueChoices(decimals=decimals), '"c"')


@pytest.mark.parametrize(
    ("code", "precision", "scale", "kind"),
    [
        (3, 31, 10, pa.decimal128(31, 10)), (2, 38, 38, pa.decimal128(38, 38)), (93, 29, 9, pa.timestamp("us")),
        (-7, 1, 0, pa.bool_()), (2005, 0, 0, pa.string()), (2014, 0, 0, pa.timestamp("us", "UTC")),
    ],
)  # fmt: skip
def test_each_type_code_has_its_arrow_type(code: int, precision: int, scale: int, kind: pa.DataType) -> None:
    assert read(base_type(code, precision, scale, is_signed=True)).type == kind


@pytest.mark.parametrize(
    ("code", "precision", "scale"),
    [
        (2, 0, -127), (2, 0, 0), (2, 39, 0), (3, 10, 11), (3, 10, -2),  # decimals beyond
        (92, 8, 0), (2013, 8, 0), (-7, 64, 0), (1111, 0, 0), (2003, 0, 0), (-8, 0, 0), (-101, 0, 0),
    ],
)  # fmt: skip
def test_types_that_spark_would_change_are_refused(code: int, precision: int, scale: int) -> None:
    with pytest.raises(ConfigError, match="column 'c'"):
        read(base_type(code, precision, scale, is_signed=True))


def test_decimals_without_an_exact_type_follow_the_option() -> None:
    assert read("numeric(0,-127)", "string").expression == 'CAST("c" AS VARCHAR(100))'
    assert read("numeric(0,-127)", "double").expression == 'CAST("c" AS DOUBLE PRECISION)'


@pytest.mark.parametrize(
    ("base", "found"),
    [
        ("decimal(20,2)", "decimal(38,18)"), ("decimal(20,2)", "double"), ("timestamp", "timestamp"),
        ("date", "string"), ("boolean", "binary"), ("varchar", "array<string>"), ("decimal(20,2)", "decimal(18,2)"),
    ],
)  # fmt: skip
def test_a_dialect_with_other_types_is_refused(base: str, found: str) -> None:
    with pytest.raises(ConfigError, match="Spark's reader makes"):
        require_same_types([read(base)], [found])
    require_same_types([read("decimal(10,0)"), read("tinyint"), read("real")], ["decimal(38,0)", "int", "double"])


def test_values_that_do_not_fit_fail_and_are_not_shown() -> None:
    with pytest.raises(DataError) as raised:
        convert_batch(pa.record_batch({"c": pa.array([70_000], pa.int32())}), [read("smallint")])
    assert "70000" not in str(raised.value)
    required = read_column(SqlColumn("c", "int", "integer", is_nullable=False), ValueChoices(), "c")
    with pytest.raises(DataError, match="NOT NULL"):
        convert_batch(pa.record_batch({"c": pa.array([None], pa.int32())}), [required])


def test_names_and_values_stand_in_sql_as_every_database_has_them() -> None:
    database = JdbcDatabase(None, connection(), '"', 0)
    assert database.relation(Table('Quote"d', "s.t")) == '"s.t"."Quote""d"'
    assert database.relation(Query("SELECT 1 -- one;")).endswith('\n) "query"')
    assert database.literal(dt.date(2026, 10, 5)) == "{d '2026-10-05'}"
    assert database.literal(dt.datetime.fromisoformat("2026-10-05")) == "{ts '2026-10-05 00:00:00.000000'}"
    with pytest.raises(ConfigError):
        database.literal(dt.datetime(2026, 10, 5, tzinfo=dt.UTC))


class Java:
    """A JVM exception as Py4J presents it."""

    def __init__(
        self, name: str, state: str = "", text: str = "canary", cause: Java | None = None, code: int = 17
    ) -> None:
        self.names = [name, "java.sql.SQLException"] if "sql" in name else [name]
        self.state, self.text, self.cause, self.code = state, text, cause, code

    def getClass(self) -> Java | None:  # noqa: N802  # its own name
        return self

    def getName(self) -> str:  # noqa: N802
        return self.names[0]

    def getSuperclass(self) -> Java | None:  # noqa: N802
        return Java.__new__(Java)._named(self.names[1:]) if self.names[1:] else None

    def _named(self, names: list[str]) -> Java:
        self.names = names
        return self

    def getMessage(self) -> str:  # noqa: N802
        return self.text

    def getSQLState(self) -> str:  # noqa: N802
        return self.state

    def getErrorCode(self) -> int:  # noqa: N802
        return self.code

    def getCause(self) -> Java | None:  # noqa: N802
        return self.cause


SQL = "java.sql.SQLException"


@pytest.mark.parametrize(
    ("java", "kind"),
    [
        (Java("java.lang.ClassNotFoundException"), ConfigError),
        (Java(SQL, "08001", "No suitable driver"), ConfigError),
        (Java(SQL, "08001"), RetriableError),
        (Java(SQL, "28000"), ConfigError),
        (Java(SQL, "42X05"), ConfigError),
        (Java("java.sql.SQLTimeoutException"), DeadlineError),
        (Java("java.sql.SQLDataException"), DataError),
        (Java(SQL, "22012"), DataError),
        (Java("java.lang.ArithmeticException"), DataError),
        (Java("java.lang.OutOfMemoryError"), RetriableError),
        (Java(SQL, "72000", code=1017), ConfigError),
        (Java("org.apache.spark.SparkException", cause=Java(SQL, "40001")), RetriableError),
    ],
)
def test_java_errors_get_their_class_and_show_no_text(java: Java, kind: type[Exception]) -> None:
    error = Exception("canary")
    error.java_exception = java  # type: ignore[attr-defined]
    translated = error_for_exceptions("connection 'erp'", jvm_exceptions(error))
    assert type(translated) is kind
    assert "canary" not in str(translated)


def test_an_sql_error_shows_its_text_without_secrets_if_no_row_is_read() -> None:
    error = Exception()
    error.java_exception = Java(SQL, "42X05", "no table T for canary")  # type: ignore[attr-defined]
    translated = error_for_exceptions(
        "connection 'erp'", jvm_exceptions(error), secrets=jdbc.connection_secrets(connection())
    )
    assert "no table T for ***" in str(translated)
