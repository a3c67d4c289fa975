"""Polls of a SQLite file: days, snapshots, keys, and errors that prevent lost rows."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.sql.sqlite import SQLite
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._sql import chunks
from airflow_provider_connect.sources._sql import poller as pollers
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 10, 5))
Read = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def read(file: Path) -> Read:
    def read(*statements: str, day: Day = DAY, **options: Any) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(file)) as database, database:
            for statement in statements:
                database.execute(statement)
        source = SqlSource(**{"conn_id": "shop_db", "stream": "s"} | options)
        found: list[dict[str, Any]] = []
        with source.open(Connection(conn_id="shop_db", conn_type="sqlite", host=str(file)), PollContext()) as poller:
            for part in poller.plan([day]):
                for _, batch in poller.poll(part, Tally(part.days)):
                    assert batch.schema.equals(poller.schema())
                    found += batch.to_pylist()
        return found

    return read


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


EVENTS = "CREATE TABLE events (id integer PRIMARY KEY, at timestamp, on_day date)"


def test_a_day_has_its_rows_in_the_zone_of_the_option(read: Read) -> None:
    values = "(1, '2026-10-05 06:59:59', NULL), (2, '2026-10-05T07:00:00', NULL), (3, '2026-10-06 06:59:59.9', NULL)"
    made = (EVENTS, f"INSERT INTO events VALUES {values}, (4, '2026-10-06 07:00:00', NULL), (5, NULL, NULL)")
    pacific = Day(date=DAY.date, zone="US/Pacific")
    options = {"table": "events", "day_column": "at", "columns": ["id"]}
    assert ids(read(*made, **options, zone="US/Pacific", day=pacific)) == [2, 3]
    assert ids(read(**options)) == [1, 2]
    # The same clock, said to hang in California.
    assert ids(read(**options, zone="US/Pacific", db_timezone="US/Pacific", day=pacific)) == [1, 2]


@pytest.mark.parametrize(("unit", "factor"), [("seconds", 1), ("milliseconds", 1000)])
def test_a_day_column_of_whole_numbers_counts_from_1970(read: Read, unit: str, factor: int) -> None:
    pacific = Day(date=DAY.date, zone="US/Pacific")
    first, end = (int(moment.timestamp()) * factor for moment in (pacific.start, pacific.end))
    made = (
        "CREATE TABLE t (id integer PRIMARY KEY, at bigint)",
        f"INSERT INTO t VALUES (1, {first - 1}), (2, {first}), (3, {end - 1}), (4, {end}), (5, NULL)",
    )
    options = {"table": "t", "day_column": "at", "zone": "US/Pacific", "day": pacific}
    assert ids(read(*made, **options, day_column_unit=unit)) == [2, 3]
    with pytest.raises(ConfigError, match=r"'at' of type bigint is a whole number.*set day_column_unit='seconds' or"):
        read(**options)
    with pytest.raises(DataError, match="'at' has values that SQLite cannot read as a time"):
        read("INSERT INTO t VALUES (6, 'late'), (7, 1.5)", **options, columns=["id"], day_column_unit=unit)


def test_a_unit_of_a_day_column_that_is_no_whole_number_is_refused(read: Read) -> None:
    with pytest.raises(ConfigError, match="day_column_unit: column 'at' has type timestamp, no whole number"):
        read(EVENTS, table="events", day_column="at", day_column_unit="seconds")


def test_decimals_without_a_precision_have_the_chosen_type(read: Read) -> None:
    made = (
        "CREATE TABLE t (id integer PRIMARY KEY, a decimal, b decimal(5,2))",
        "INSERT INTO t VALUES (1, 7, 5), (2, NULL, NULL)",
    )
    options = {"table": "t", "snapshot": "replace", "decimals": "decimal(38,9)"}
    rows = read(*made, **options)
    assert [(str(row["a"]), str(row["b"])) for row in rows] == [("7.000000000", "5.00"), ("None", "None")]
    with pytest.raises(DataError, match=r"column 'a' .*decimal128\(38, 9\)"):
        read("INSERT INTO t VALUES (3, 0.12345678901, NULL)", **options)


def test_a_date_column_has_dates_of_the_zone(read: Read) -> None:
    made = (EVENTS, "INSERT INTO events VALUES (1, NULL, '2026-10-05'), (2, NULL, '2026-10-06'), (3, NULL, NULL)")
    tokyo = Day(date=DAY.date, zone="Asia/Tokyo")
    assert ids(read(*made, table="events", day_column="on_day", zone="Asia/Tokyo", day=tokyo)) == [1]


@pytest.mark.parametrize("value", ["'0000-00-00'", "'yesterday'", "1790000000"])
def test_a_text_that_is_not_a_time_fails_the_day(read: Read, value: str) -> None:
    made = (EVENTS, f"INSERT INTO events VALUES (1, {value}, NULL)")
    with pytest.raises(DataError, match="'at' has values that SQLite cannot read as a time"):
        read(*made, table="events", day_column="at")
    assert read(table="events", day_column="at", where="id > 1 -- those that are") == []


def test_a_day_that_is_not_over_and_a_snapshot_of_a_past_day_are_refused(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pollers, "current_time", lambda: DAY.end + dt.timedelta(hours=25))
    with pytest.raises(ConfigError, match="rows that the database has now, but the day ended more than a day ago"):
        read(EVENTS, table="events", snapshot="daily")
    monkeypatch.setattr(pollers, "current_time", lambda: DAY.end - dt.timedelta(hours=2))
    with pytest.raises(ConfigError, match="is not over yet"):
        read(table="events", snapshot="daily")
    assert read(table="events", snapshot="replace") == []


def test_the_key_is_the_same_in_days_snapshots_and_queries(read: Read) -> None:
    made = (EVENTS, "INSERT INTO events VALUES (1, '2026-10-05 01:00:00', NULL), (2, '2026-10-05 02:00:00', NULL)")
    of_day = {row["id"]: row["record_key"] for row in read(*made, table="events", day_column="at")}
    assert len(set(of_day.values())) == 2
    assert {row["id"]: row["record_key"] for row in read(table="events", snapshot="replace")} == of_day
    query = "SELECT id, 'x' AS other FROM events -- all"
    found = read(query=query, key=["id"], snapshot="replace")
    assert {row["id"]: row["record_key"] for row in found} == of_day


def test_a_table_without_a_key_has_no_keys(read: Read) -> None:
    rows = read("CREATE TABLE log (line text)", "INSERT INTO log VALUES ('a'), ('a')", table="log", snapshot="replace")
    assert rows == [{"line": "a"}] * 2


def test_a_key_that_is_repeated_or_null_fails_the_day(read: Read) -> None:
    with pytest.raises(DataError, match="name does not identify a row: 1 of 3 rows have a key that occurred before"):
        read(
            "CREATE TABLE people (name text, email text)",
            "INSERT INTO people VALUES ('a', 'x'), ('b', 'y'), ('a', NULL)",
            table="people",
            key=["name"],
            snapshot="replace",
        )
    with pytest.raises(DataError, match="1 rows have no value in 'email'"):
        read(table="people", key=["email"], snapshot="replace")


def test_columns_come_in_the_order_of_the_option(read: Read) -> None:
    made = (EVENTS, "INSERT INTO events VALUES (1, '2026-10-05 01:00:00', '2026-10-04')")
    (row,) = read(*made, table="events", columns=["on_day", "id"], day_column="at")
    assert list(row) == ["on_day", "id", "record_key"]


def test_excluded_columns_are_not_read(read: Read) -> None:
    made = (EVENTS, "INSERT INTO events VALUES (1, '2026-10-05 01:00:00', '2026-10-04')")
    (row,) = read(*made, table="events", exclude_columns=["at"], day_column="at")
    assert list(row) == ["id", "on_day", "record_key"]
    with pytest.raises(ConfigError, match="exclude_columns: there is no column 'on_dya'; did you mean 'on_day'"):
        read(table="events", exclude_columns=["on_dya"], day_column="at")
    with pytest.raises(ConfigError, match="exclude_columns: leave out 'id' of the primary key"):
        read(table="events", exclude_columns=["id"], day_column="at")
    with pytest.raises(ConfigError, match="exclude_columns: it names every column"):
        read(table="events", exclude_columns=["id", "at", "on_day"], day_column="at")


def test_renamed_columns_have_other_names_in_the_rows_and_the_same_key(read: Read) -> None:
    made = (
        'CREATE TABLE t (id integer PRIMARY KEY, "Day" timestamp, "Id2" text)',
        "INSERT INTO t VALUES (1, '2026-10-05 01:00:00', 'x')",
    )
    (plain,) = read(*made, table="t", exclude_columns=["Day"], day_column="Day")
    names = {"Day": "at", "id": "number"}
    (row,) = read(table="t", rename=names, day_column="Day", where='id = 1 AND "Day" IS NOT NULL')
    assert row.pop("at").isoformat() == "2026-10-05T01:00:00"
    assert row == {"number": 1, "Id2": "x", "record_key": plain["record_key"]}


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({}, "column 'Day' has the name of a column of this package: set rename={'Day': 'Day_'}"),
        ({"Day": "at", "ID": "n"}, "rename: there is no column 'ID'; known: Day, id"),
        ({"Day": "ID"}, "several columns are named 'id' or differ only in case: give one another name with rename="),
        ({"Day": "Record_Key"}, "rename: 'Record_Key' is the name of a column of this package"),
    ],
)
def test_a_rename_that_collides_or_names_no_column_is_refused(read: Read, rename: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read('CREATE TABLE t (id integer PRIMARY KEY, "Day" date)', table="t", rename=rename, snapshot="replace")
    assert message in str(caught.value)


def test_a_key_that_is_repeated_is_told_by_the_database_s_name(read: Read) -> None:
    made = ("CREATE TABLE t (name text)", "INSERT INTO t VALUES ('a'), ('a')")
    with pytest.raises(DataError, match="key: name does not identify a row"):
        read(*made, table="t", key=["name"], rename={"name": "title"}, snapshot="replace")


def test_one_error_lists_all_wrong_names_with_the_nearest_ones(read: Read) -> None:
    with pytest.raises(ConfigError) as caught:
        read(EVENTS, table="events", columns=["id", "att"], day_column="on_dya", key=["id"])
    assert str(caught.value) == (
        "columns: there is no column 'att'; did you mean 'at'?; "
        "day_column: there is no column 'on_dya'; did you mean 'on_day'?"
    )


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        ("CREATE TABLE t (id integer PRIMARY KEY, day date)", {}, "column 'day' has the name of a column of"),
        ("CREATE TABLE t (a text, b text, PRIMARY KEY (a, b))", {"columns": ["a"]}, "add 'b' of the primary key"),
        ("CREATE TABLE t (a real PRIMARY KEY)", {}, "column 'a' of type real cannot identify a row"),
        ("CREATE TABLE t (a text)", {"snapshot": None, "day_column": "a"}, "'a' of type text is neither a timestamp"),
        ("CREATE TABLE other (a text)", {}, "there is no table 't'"),
        ("CREATE TABLE t (a text)", {"where": "b = 1"}, "no such column: b"),
    ],
)
def test_a_table_that_does_not_fit_the_options_is_refused(
    read: Read, made: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(made, **{"table": "t", "snapshot": "replace"} | options)
    assert message in str(caught.value)


@pytest.mark.parametrize("what", [{"table": "t"}, {"query": "SELECT * FROM t", "key": ["a"]}])
def test_a_wrong_condition_fails_the_plan(file: Path, read: Read, what: dict[str, Any]) -> None:
    read("CREATE TABLE t (a text PRIMARY KEY)", table="t", snapshot="replace")
    source = SqlSource(conn_id="shop_db", stream="s", snapshot="replace", where="b = 1", **what)
    connection = Connection(conn_id="shop_db", conn_type="sqlite", host=str(file))
    with source.open(connection, PollContext()) as poller, pytest.raises(ConfigError, match="no such column: b"):
        poller.schema()


@pytest.mark.parametrize(
    "what",
    [
        {"table": "t", "key": ["b"]},
        {"table": "t", "key": ["b"], "rename": {"b": "c"}},
        {"query": "SELECT b, a FROM t", "key": ["a"]},
        {"table": "t", "key": None},
    ],
)
def test_column_names_are_known_if_the_options_name_columns_and_key(
    file: Path, read: Read, what: dict[str, Any]
) -> None:
    read("CREATE TABLE t (a text, b text)", table="t", snapshot="replace")
    source = SqlSource(conn_id="shop_db", stream="s", snapshot="replace", columns=["b", "a"], **what)
    with source.open(Connection(conn_id="shop_db", conn_type="sqlite", host=str(file)), PollContext()) as poller:
        assert source.column_names() == (poller.schema().names if what["key"] else None)


def test_the_rows_are_those_of_one_moment(file: Path, read: Read) -> None:
    read("PRAGMA journal_mode = wal", "CREATE TABLE t (id integer PRIMARY KEY)", table="t", snapshot="replace")
    with closing(sqlite3.connect(file)) as writer:
        writer.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(5_000)])
        writer.commit()
        source = SqlSource(conn_id="shop_db", table="t", snapshot="replace")
        with source.open(Connection(conn_id="shop_db", conn_type="sqlite", host=str(file)), PollContext()) as poller:
            (part,) = poller.plan([DAY])
            batches = poller.poll(part, Tally(part.days))
            rows = next(batches)[1].num_rows
            writer.execute("INSERT INTO t VALUES (5000)")
            writer.execute("DELETE FROM t WHERE id = 4999")
            writer.commit()
            assert rows < 5_000
            last = [batch for _, batch in batches][-1]
    assert last.column("id").to_pylist()[-1] == 4_999


@pytest.fixture
def sharing(file: Path, monkeypatch: pytest.MonkeyPatch) -> list[SQLite]:
    """Make sessions of SQLite claim to share a snapshot. Returns the sessions that have exported one."""
    exported: list[SQLite] = []

    def export(database: SQLite) -> str:
        exported.append(database)
        return f"snapshot {len(exported)}"

    monkeypatch.setattr(SQLite, "shares_snapshots", True)
    monkeypatch.setattr(SQLite, "export_snapshot", export)
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 10)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE t (id integer PRIMARY KEY)")
        database.executemany("INSERT INTO t VALUES (?)", [(number * number,) for number in range(100)])
    return exported


def is_open(database: SQLite) -> bool:
    try:
        database.rows("SELECT 1")
    except RetriableError:
        return False
    return True


def test_the_session_of_a_shared_snapshot_stays_open_until_its_chunks_are_read(
    file: Path, sharing: list[SQLite]
) -> None:
    source = SqlSource(conn_id="shop_db", table="t", snapshot="replace")
    poller = source.open(Connection(conn_id="shop_db", conn_type="sqlite", host=str(file)), PollContext())
    assert [part.params["snapshot"] for part in poller.plan([DAY])] == ["snapshot 1"] * 4
    assert is_open(sharing[0])
    assert [part.params["snapshot"] for part in poller.plan([DAY])] == ["snapshot 2"] * 4, "a new try, a new snapshot"
    assert [is_open(each) for each in sharing] == [False, True]
    poller.accept(DAY, {})
    assert not is_open(sharing[1])
    poller.plan([DAY])
    poller.close()
    poller.close()
    assert not any(map(is_open, sharing))


def test_no_snapshot_is_exported_for_chunks_that_are_read_after_the_poller_is_closed(
    file: Path, sharing: list[SQLite]
) -> None:
    source = SqlSource(conn_id="shop_db", table="t", snapshot="replace", parallel_chunks=4)
    with source.open(
        Connection(conn_id="shop_db", conn_type="sqlite", host=str(file)), PollContext(is_closed_before_polls=True)
    ) as poller:
        assert len(poller.plan([DAY])) == 1
    assert sharing == []


def test_a_server_that_cannot_export_is_read_in_one_piece_and_refuses_parallel_chunks(
    file: Path, sharing: list[SQLite], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(database: SQLite) -> str:
        raise ConfigError("this one is a standby")

    monkeypatch.setattr(SQLite, "export_snapshot", refuse)
    connection = Connection(conn_id="shop_db", conn_type="sqlite", host=str(file))
    with SqlSource(conn_id="shop_db", table="t", snapshot="replace").open(connection, PollContext()) as poller:
        assert [part.params.get("snapshot") for part in poller.plan([DAY])] == [None]
    asked = SqlSource(conn_id="shop_db", table="t", snapshot="replace", parallel_chunks=2)
    with asked.open(connection, PollContext()) as poller, pytest.raises(ConfigError, match="this one is a standby"):
        poller.plan([DAY])


def test_tables_whose_key_may_be_null_are_not_split(file: Path, sharing: list[SQLite]) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE loose (k text PRIMARY KEY)")
        database.executemany("INSERT INTO loose VALUES (?)", [(str(number),) for number in range(100)])
    source = SqlSource(conn_id="shop_db", table="loose", snapshot="replace")
    with source.open(Connection(conn_id="shop_db", conn_type="sqlite", host=str(file)), PollContext()) as poller:
        assert len(poller.plan([DAY])) == 1
