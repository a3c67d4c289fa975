"""The check before the first run: findings, notes and problems."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sources._sql.preflight import PreflightReport, check
from airflow_provider_connect.sources.sql import SqlSource


@pytest.fixture
def shop(tmp_path: Path) -> Connection:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE orders (id integer PRIMARY KEY, at timestamp, sent date NOT NULL)")
        database.execute("CREATE INDEX by_sent ON orders (sent)")
    return Connection(conn_id="shop_db", conn_type="sqlite", host=str(tmp_path / "shop.db"))


def checked(shop: Connection, **options: Any) -> PreflightReport:
    return check(SqlSource(**{"conn_id": "shop_db", "table": "orders"} | options), shop)


def notes(report: PreflightReport) -> list[str]:
    return [f"{finding.level}: {finding.result}" for finding in report.findings if finding.level != "ok"]


def test_a_good_table_passes_without_notes(shop: Connection) -> None:
    report = checked(shop, day_column="sent")
    assert report.passed
    assert notes(report) == []
    assert str(report).startswith("Stream shop_db.orders works.\nOK the server: SQLite ")


def test_a_nullable_day_column_is_noted_and_no_index_that_sqlite_would_not_use(shop: Connection) -> None:
    report = checked(shop, day_column="at")
    assert report.passed
    assert notes(report) == ["note: it may be NULL, and rows with NULL are in no day"]


def test_a_key_without_an_index_is_noted(shop: Connection) -> None:
    (note,) = notes(checked(shop, snapshot="replace", key=["sent"]))
    assert "no unique index guarantees that sent identifies a row" in note


FOLLOWED = {"mode": "incrementing", "incrementing_column": "id"}
LATE = "a row that is committed after a later row was read is missed, and so are deletes"


def test_a_number_from_the_tables_counter_has_only_the_note_on_late_commits(shop: Connection) -> None:
    assert notes(checked(shop, **FOLLOWED)) == [f"note: {LATE}"]


def test_a_number_without_a_counter_is_noted(shop: Connection) -> None:
    with closing(sqlite3.connect(shop.host or "")) as database:
        database.execute("CREATE TABLE t (id integer)")
    report_notes = notes(checked(shop, table="t", **FOLLOWED))
    assert report_notes[1:] == [
        "note: it may be NULL, and rows with NULL are in no increment",
        "note: no index begins with it, so each run reads the whole table",
        "note: no unique index has only this column: a row with the same number as the last row is missed",
        "note: no sequence gives its numbers, so it is unknown whether they only grow, and a reset is not detected",
        f"note: {LATE}",
    ]
    (about_key,) = report_notes[:1]
    assert "the table has no primary key" in about_key


def test_the_index_of_a_query_is_unknown(shop: Connection) -> None:
    query = {"table": None, "query": "SELECT id FROM orders", "stream": "q", "key": ["id"]}
    assert "unknown: whether the query finds new rows by an index is unknown" in notes(
        checked(shop, **query, **FOLLOWED)
    )


def test_consistency_chunk_and_keys_that_cannot_be_split_are_noted(shop: Connection) -> None:
    (note,) = notes(checked(shop, snapshot="replace", consistency="chunk"))
    assert (
        "each chunk is read at another moment: a row that changes its key meanwhile may be read twice or never" in note
    )
    (*_, note) = notes(checked(shop, snapshot="replace", consistency="chunk", key=["at", "id"]))
    assert note == "note: one task reads all rows: 'at' of the key may be NULL"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "order", "snapshot": "replace"}, "there is no table 'order'. Did you mean 'orders'?"),
        ({"day_column": "att"}, "day_column: there is no column 'att'; did you mean 'at'?"),
        ({"snapshot": "replace", "where": "absent = 1"}, "no such column: absent"),
        ({"snapshot": "replace", "parallel_chunks": 3}, "cannot share a snapshot"),
    ],
)
def test_an_option_that_does_not_fit_the_database_is_a_problem(
    shop: Connection, options: dict[str, Any], message: str
) -> None:
    report = checked(shop, **options)
    assert not report.passed
    assert message in str(report)
    assert "does not work yet" in str(report)


@pytest.mark.parametrize(("price", "level"), [(12.125, "problem"), (12.5, "ok"), (12, "ok")])
def test_floating_numbers_in_a_decimal_column_of_sqlite_are_a_problem(
    shop: Connection, price: float, level: str
) -> None:
    with closing(sqlite3.connect(shop.host or "")) as database:
        database.execute("CREATE TABLE items (id integer PRIMARY KEY, price decimal(10,2))")
        database.execute("INSERT INTO items VALUES (1, ?)", [price])
        database.commit()
    report = checked(shop, table="items", snapshot="replace")
    assert report.passed == (level == "ok")
    problems = [finding for finding in report.findings if finding.level == "problem"]
    assert [finding.todo for finding in problems] == (["set decimals='double'"] if level == "problem" else [])
    assert checked(shop, table="items", snapshot="replace", decimals="double").passed
