"""The SQL source over JDBC: chunks lose no row, unsupported options are refused, and Spark's batches are converted."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.sql.database import Table
from airflow_provider_connect.clients.sql.jdbc.session import JdbcDatabase
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext
from airflow_provider_connect.sources._sql.jdbc import even_bounds, range_conditions
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.values.numbers import plain_text
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 10, 5))
ERP = Connection(conn_id="erp", conn_type="jdbc", host="jdbc:derby:shop")
LAST = 2**63 - 1
GOLDEN = json.loads((Path(__file__).parent / "golden" / "keys.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("bounds", [(0, 9), (-LAST, LAST), (5, 5), (0, 1), (Decimal("-0.5"), Decimal("7.5"))])
def test_chunks_hold_every_row_once_including_null_and_later_rows(bounds: tuple[Any, Any]) -> None:
    database = JdbcDatabase(None, ERP, '"', 0)
    conditions = range_conditions(database, '"k"', even_bounds(*bounds, 4))
    rows = [None, -LAST, -1, -0.5, 0, 0, 1, 4, 7.5, 9, 10, LAST]
    with sqlite3.connect(":memory:") as link:
        link.execute('CREATE TABLE t ("k")')
        link.executemany("INSERT INTO t VALUES (?)", [(row,) for row in rows])
        keys = [
            key for condition in conditions for (key,) in link.execute(f"SELECT k FROM t WHERE {condition or '1 = 1'}")
        ]
    assert sorted(map(str, keys)) == sorted(map(str, rows))


def test_dates_and_times_are_spread_evenly() -> None:
    assert even_bounds(dt.date(2026, 1, 1), dt.date(2026, 1, 5), 2) == [dt.date(2026, 1, 3)]
    first, last = (dt.datetime.fromisoformat(text) for text in ("0001-01-01", "9999-12-31 23:59:59.999999"))
    (middle,) = even_bounds(first, last, 2)
    assert first < middle < last


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "incrementing", "incrementing_column": "id"}, "mode"),
        ({"snapshot": "replace", "zero_dates": "null"}, "zero_dates"),
    ],
)
def test_options_that_jdbc_does_not_support_are_refused(options: dict[str, Any], told: str) -> None:
    (problem,) = SqlSource(conn_id="erp", table="T", **options).check(ERP)
    assert problem.startswith(told)


def test_a_jdbc_read_without_spark_is_a_config_error() -> None:
    with (
        SqlSource(conn_id="erp", table="T", snapshot="replace").open(ERP, PollContext()) as poller,
        pytest.raises(ConfigError, match="read by Spark's own reader"),
    ):
        poller.schema()


def rows_of(*batches: pa.RecordBatch, is_unique: bool, **options: Any) -> list[dict[str, Any]]:
    columns = [["ID", "decimal(10,2)", "decimal(10,2)", True], ["S", "smallint", "smallint", True]]
    params = {"columns": columns, "key": ["ID"], "is_unique": is_unique, "where": ""}
    part = InputPartition(days=(DAY,), params=params)
    with SqlSource(conn_id="erp", table="T", snapshot="replace", **options).open(ERP, PollContext()) as poller:
        rows = [batch for _, batch in poller.rows_of(part, iter(batches), Tally(part.days))]
    return [row for batch in rows for row in batch.to_pylist()]


def batch(*ids: str | None) -> pa.RecordBatch:
    numbers = [None if number is None else Decimal(number) for number in ids]
    return pa.record_batch({"c0": pa.array(numbers, pa.decimal128(10, 2)), "c1": pa.array([7] * len(ids), pa.int32())})


def test_sparks_batches_get_their_types_and_the_same_keys_as_other_ways() -> None:
    (row,) = rows_of(batch("1.00"), batch(), is_unique=False)
    assert (row["ID"], row["S"]) == (Decimal("1.00"), 7)
    assert row["record_key"] == GOLDEN["numeric 1.00"]["key"]


def test_decimals_as_text_have_all_their_digits_and_the_same_key() -> None:
    found = rows_of(batch("1.50", "0.00"), is_unique=False, decimals="string")
    assert [row["ID"] for row in found] == ["1.50", "0.00"]
    assert found[0]["record_key"] == rows_of(batch("1.50"), is_unique=False)[0]["record_key"]
    small = pa.array([Decimal("0.0000000001"), None, Decimal("-1.5000000000")], pa.decimal128(12, 10))
    assert plain_text(small).to_pylist() == ["0.0000000001", None, "-1.5000000000"]


def test_a_key_that_is_missing_or_repeated_fails() -> None:
    with pytest.raises(DataError, match="does not identify a row"):
        rows_of(batch("1"), batch("1.00"), is_unique=False)
    with pytest.raises(DataError, match="part of the key"):
        rows_of(batch(None), is_unique=True)


class Driver:
    """Answers the one question for an old date as a driver does: with Java's text of it, or with an error."""

    def __init__(self, answer: str | None) -> None:
        self.answer, self.sql, self.max_rows = answer, "", 0

    def createStatement(self) -> Driver:  # noqa: N802  # JDBC's own name
        return self

    getMetaData = createStatement  # noqa: N815

    def executeQuery(self, sql: str) -> Driver:  # noqa: N802
        if self.answer is None:
            raise RuntimeError("datetime out of range")
        self.sql, self.left = sql, [self.answer] if self.answer else []
        return self

    def next(self) -> bool:
        return bool(self.left and self.left.pop())

    def getDate(self, _: int) -> Any:  # noqa: N802
        return SimpleNamespace(toString=lambda: self.answer)

    def setMaxRows(self, rows: int) -> None:  # noqa: N802
        self.max_rows = rows

    def getColumnCount(self) -> int:  # noqa: N802
        return 1

    def getColumnType(self, _: int) -> int:  # noqa: N802
        return 91

    def setQueryTimeout(self, seconds: int) -> None: ...  # noqa: N802
    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [("1500-03-01", True), ("1500-02-20", False), ("1500-03-10", False), ("", True), (None, False)],
)
def test_a_driver_is_asked_for_an_old_date(answer: str | None, is_right: bool) -> None:
    driver = Driver(answer)
    database = JdbcDatabase(driver, ERP, '"', 0)
    assert database.reads_old_dates(Table("T")) is is_right
    assert driver.max_rows == 1
    if answer is not None:
        assert "{d '1500-03-01'}" in driver.sql


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_old_dates_of_a_driver_that_shifts_them_fail_the_day(kind: pa.DataType) -> None:
    base = {"date32[day]": "date", "timestamp[us]": "timestamp"}.get(str(kind), "timestamp with time zone")
    params = {"columns": [["D", base, base, True]], "key": [], "is_unique": True, "where": ""}

    def read(value: str, *, old_dates: bool) -> list[Any]:
        part = InputPartition(days=(DAY,), params=params | {"old_dates": old_dates})
        dates = pa.array([dt.date.fromisoformat(value), None], pa.date32())
        batches = iter([pa.record_batch({"c0": dates.cast(pa.timestamp("us")).cast(kind)})])
        with SqlSource(conn_id="erp", table="T", snapshot="replace").open(ERP, PollContext()) as poller:
            return [row for _, batch in poller.rows_of(part, batches, Tally(part.days)) for row in batch.to_pylist()]

    assert len(read("1500-02-28", old_dates=True)) == 2
    assert len(read("1582-10-15", old_dates=False)) == 2
    with pytest.raises(DataError, match=r"'D'.* has a date before 1582-10-15, .* select it as text in a query"):
        read("1582-10-14", old_dates=False)
