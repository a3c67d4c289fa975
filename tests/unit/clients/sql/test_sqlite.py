"""SQLite's session: exact values, or an error that names the column and no value."""

from __future__ import annotations

import datetime as dt
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.clients.sql.database import (
    Database,
    Index,
    Query,
    SessionLimits,
    SqlColumn,
    Table,
    ValueChoices,
)
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.clients.sql.sqlite_types import exact_decimal
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, DeadlineError, RetriableError

CANARY = "canary-value-5d1"
Make = Callable[..., Database]


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Make:
    def make(*statements: str, limits: SessionLimits | None = None) -> Database:
        file = tmp_path / "it's 100%?.db"
        with closing(sqlite3.connect(file)) as database, database:
            for statement in statements:
                database.execute(statement)
        connection = Connection(conn_id="c", conn_type="sqlite", host=str(file))
        opened = open_database(connection, application_name="tests", limits=limits)
        request.addfinalizer(opened.close)
        return opened

    return make


def read(database: Database, what: Table | Query, choices: ValueChoices | None = None, **how: Any) -> pa.Table:
    columns = database.read_columns(database.describe(what), choices or ValueChoices())
    batches = list(database.read(columns, database.relation(what), **how))
    return pa.Table.from_batches(batches, pa.schema([column.field for column in columns]))


@pytest.mark.parametrize(
    ("declared", "stored", "kind", "value"),
    [
        ("integer", "9223372036854775807", pa.int64(), 2**63 - 1),
        ("tinyint(1)", "5", pa.int64(), 5),
        ("boolean", "1", pa.bool_(), True),
        ("real", "0.30000000000000004", pa.float64(), 0.1 + 0.2),
        ("varchar(3)", "'1.10'", pa.string(), "1.10"),
        ("text", "'😀\"''\n'", pa.string(), "😀\"'\n"),
        ("json", "'{\"a\": 1.10}'", pa.string(), '{"a": 1.10}'),
        ("blob", "X'00ff'", pa.binary(), b"\0\xff"),
        ("decimal(10,2)", "1", pa.decimal128(10, 2), Decimal("1.00")),
        ("decimal", "1", pa.string(), "1"),
        ("numeric(40,2)", "1", pa.string(), "1"),
        ("date", "'2026-10-05'", pa.date32(), dt.date(2026, 10, 5)),
        ("datetime", "'2026-10-05 01:02:03.000004'", pa.timestamp("us"), "2026-10-05 01:02:03.000004"),
        ("timestamp", "'2026-10-05T01:02:03'", pa.timestamp("us"), "2026-10-05 01:02:03"),
        ("timestamptz", "'2026-10-05 01:02:03+02:00'", pa.timestamp("us", "UTC"), "2026-10-04 23:02:03+00:00"),
        ("time", "'24:00:00'", pa.string(), "24:00:00"),
        ("", "'text'", pa.string(), "text"),
    ],
)
def test_a_value_is_read_unchanged(make: Make, declared: str, stored: str, kind: pa.DataType, value: object) -> None:
    database = make(f"CREATE TABLE t (a {declared})", f"INSERT INTO t VALUES ({stored}), (NULL)")
    values = read(database, Table("t"))
    assert values.schema.field("a").type == kind
    if pa.types.is_timestamp(kind):
        value = dt.datetime.fromisoformat(str(value))
    assert values.column("a").to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("declared", "stored", "message"),
    [
        ("integer", f"'{CANARY}'", "read as int64, but holds texts"),
        ("integer", "1.5", "read as int64, but holds floating numbers"),
        ("text", "X'00'", "read as string, but holds blobs"),
        ("blob", f"'{CANARY}'", "read as binary, but holds texts"),
        ("boolean", "5", "holds a value that is not a valid bool"),
        ("date", "20261005", "read as date32[day], but holds integers"),
        ("date", "'0000-00-00'", "holds a value that is not a valid date32[day]"),
        ("datetime", "'2026-10-05 01:02:03Z'", "holds a value that is not a valid timestamp[us]"),
        ("timestamptz", "'2026-10-05 01:02:03'", "holds a value that is not a valid timestamp[us, tz=UTC]"),
        ("decimal(10,2)", "1.125", "not a valid decimal128(10, 2): SQLite may have stored a floating number"),
        ("decimal(10,2)", "1e300", "not a valid decimal128(10, 2): SQLite may have stored a floating number"),
        ("decimal(38,2)", "123456789012345.75", "not a valid decimal128(38, 2): SQLite may have stored a floating"),
        ("decimal(10,2)", "'1_000'", "holds a value that is not a valid decimal128(10, 2)"),
        ("decimal(10,2)", "'\uff11\uff12'", "holds a value that is not a valid decimal128(10, 2)"),
        ("decimal(10,2)", "9e999", "not a valid decimal128(10, 2): SQLite may have stored a floating number"),
        ("decimal(3,0)", "1000", "holds a value that is not a valid decimal128(3, 0)"),
        ("decimal(10,2)", f"'{CANARY}'", "holds a value that is not a valid decimal128(10, 2)"),
        ("decimal", "1.1", "decimals='double' reads it"),
        ("", "1", "but holds integers: a column without a declared type is read as text"),
        ("text", "CAST(X'ff' AS TEXT)", "column 'a' holds a text that is not UTF-8: read it as bytes"),
    ],
)
def test_a_value_of_another_storage_class_fails_and_is_not_shown(
    make: Make, declared: str, stored: str, message: str
) -> None:
    database = make(f"CREATE TABLE t (a {declared})", f"INSERT INTO t VALUES (NULL), ({stored})")
    with pytest.raises(DataError) as caught:
        read(database, Table("t"))
    assert message in str(caught.value)
    assert CANARY not in str(caught.value)


@given(cents=st.integers(-(10**14), 10**14), scale=st.integers(0, 6))
def test_a_decimal_that_sqlite_stores_as_a_floating_number_is_read_exactly(cents: int, scale: int) -> None:
    decimal = Decimal(cents).scaleb(-scale)
    with closing(sqlite3.connect(":memory:")) as file:
        file.execute(f"CREATE TABLE t (a decimal(38,{scale}))")
        file.execute("INSERT INTO t VALUES (?)", [str(decimal)])
        ((stored,),) = file.execute("SELECT a FROM t")
    assert exact_decimal(stored, scale) == decimal


def test_decimals_follow_the_option(make: Make) -> None:
    database = make("CREATE TABLE t (a decimal(10,2))", "INSERT INTO t VALUES (1), (1.1)")
    values = read(database, Table("t"), ValueChoices(decimals="double"))
    assert values.column("a").to_pylist() == [1.0, 1.1]
    with pytest.raises(DataError, match="floating numbers"):
        read(database, Table("t"), ValueChoices(decimals="string"))
    assert read(database, Table("t"), ValueChoices(decimals="string"), where="a = 1").column("a").to_pylist() == ["1"]


def test_describe_returns_columns_key_and_indexes(make: Make) -> None:
    database = make(
        'CREATE TABLE "a `b" (id integer PRIMARY KEY, "c""d" TEXT NOT NULL UNIQUE, n int, '
        "twice int GENERATED ALWAYS AS (n * 2))",
        'CREATE INDEX by_n ON "a `b" (n, id)',
        'CREATE INDEX some ON "a `b" (n) WHERE n > 1',
        'CREATE INDEX made ON "a `b" (n + 1)',
    )
    table = Table("a `b")
    assert database.describe(table) == [
        SqlColumn("id", "integer", "integer", is_nullable=False),
        SqlColumn('c"d', "text", "text", is_nullable=False),
        SqlColumn("n", "int", "int"),
        SqlColumn("twice", "int", "int"),
    ]
    assert database.primary_key(table) == ["id"]
    indexes = database.indexes(table)
    assert {(index.columns, index.is_unique) for index in indexes} == {
        (("n", "id"), False),
        (('c"d',), True),
        (("id",), True),
    }
    assert database.estimated_rows(table) is None
    assert read(database, table).num_rows == 0


def test_a_composite_key_comes_in_its_order_and_may_be_null(make: Make) -> None:
    database = make("CREATE TABLE t (a text, b integer, PRIMARY KEY (b, a))", "INSERT INTO t VALUES (NULL, 1)")
    assert database.primary_key(Table("t")) == ["b", "a"]
    assert [column.is_nullable for column in database.describe(Table("t"))] == [True, True]
    assert [index.columns for index in database.indexes(Table("t"))] == [("b", "a")]
    assert isinstance(database.indexes(Table("t"))[0], Index)


def test_statistics_are_used_if_there_are_any(make: Make) -> None:
    database = make(
        "CREATE TABLE t (a integer PRIMARY KEY, b text UNIQUE)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "ANALYZE"
    )
    assert database.estimated_rows(Table("t")) == 2


def test_a_query_is_described_without_running(make: Make) -> None:
    database = make("CREATE TABLE t (id integer PRIMARY KEY, a decimal(10,2) NOT NULL)")
    columns = database.describe(Query("WITH x AS (SELECT * FROM t) SELECT id, a, upper('x') AS u FROM x;"))
    assert [(column.name, column.type, column.is_nullable) for column in columns] == [
        ("id", "integer", True),
        ("a", "decimal(10,2)", True),
        ("u", "", True),
    ]
    with pytest.raises(ConfigError, match="no such column: absent"):
        database.describe(Query("SELECT absent FROM t"))


def test_a_misspelt_column_is_not_read_as_a_text(make: Make) -> None:
    database = make("CREATE TABLE t (a text)", "INSERT INTO t VALUES ('x')")
    with pytest.raises(ConfigError, match="no such column: b"):
        database.rows(database.select([database.quote("b")], "t"))


def test_a_session_of_sqlite_cannot_write(make: Make) -> None:
    database = make("CREATE TABLE t (a text)")
    for statement in ("INSERT INTO t VALUES ('x')", "DROP TABLE t", "CREATE TABLE u (a)"):
        with pytest.raises((ConfigError, DataError)):
            database.rows(statement)


@pytest.mark.parametrize(
    "value", [None, True, -5, 0.1, "it's", b"\0\xff", dt.date(2026, 10, 5), Decimal("1.10"), "%s ? :a"]
)
def test_a_value_written_into_sql_is_unchanged(make: Make, value: object) -> None:
    database = make("CREATE TABLE t (a text)")
    (read_back,) = database.one_row(f"SELECT {database.literal(value)}")
    assert read_back == (str(value) if isinstance(value, dt.date | Decimal) else value)


def test_an_instant_is_written_in_utc(make: Make) -> None:
    local_zone = dt.timezone(dt.timedelta(hours=2))
    assert make("CREATE TABLE t (a)").literal(dt.datetime(2026, 10, 5, 1, tzinfo=local_zone)) == "'2026-10-04 23:00:00'"


def test_batches_are_small_however_wide_a_row_is(make: Make) -> None:
    wide = "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) "
    database = make("CREATE TABLE t (a blob)", wide + "SELECT zeroblob(1000) FROM n")
    columns = database.read_columns(database.describe(Table("t")), ValueChoices())
    sizes = [batch.nbytes for batch in database.read(columns, "t", block_bytes=100_000)]
    assert sum(sizes) > 4_000_000
    assert max(sizes[1:]) < 150_000


def test_a_statement_that_takes_too_long_or_is_cancelled_ends(make: Make) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    database = make("CREATE TABLE t (a)", limits=SessionLimits(statement_seconds=0.05))
    with pytest.raises(DeadlineError, match="exceeded its time limit"):
        database.rows(endless)
    patient = make()
    ended: list[float] = []

    def cancel() -> None:
        time.sleep(0.05)
        patient.cancel()
        ended.append(time.monotonic())

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(RetriableError, match=r"was cancelled \(SQLITE_INTERRUPT\)"):
        patient.rows(endless)
    thread.join()
    assert time.monotonic() - ended[0] < 5


@pytest.mark.parametrize(
    ("host", "message"),
    [(None, "give the path"), ("/nowhere/shop.db", "there is no file"), (__file__, "cannot be opened as a database")],
)
def test_a_file_that_is_no_database_is_refused(host: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_database(Connection(conn_id="c", conn_type="sqlite", host=host), application_name="tests")


def test_a_locked_file_is_tried_again_later(make: Make, tmp_path: Path) -> None:
    make("CREATE TABLE t (a)")
    (file,) = tmp_path.glob("*.db")
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RetriableError, match="cannot be read at the moment"):
            make(limits=SessionLimits(connect_seconds=0.01))
