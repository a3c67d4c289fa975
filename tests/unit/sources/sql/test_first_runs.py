"""First runs of followed tables, their last runs, and the detection of a reset."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider_connect.clients.sql.database import ColumnCounter, SessionLimits, Table
from airflow_provider_connect.clients.sql.sqlite import SQLite
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._sql import chunks
from airflow_provider_connect.sources._sql.cursors import START_POSITION, SqlCursor, SqlCursorColumn, fraction_digits_of
from airflow_provider_connect.sources._sql.reset_detection import CLOCK_TOLERANCE, reset_reason
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.sql.events import Events, ids

DAYS = [Day(date=dt.date(2026, 10, 5) + number * ONE_DAY) for number in range(4)]
COUNTED = "id integer PRIMARY KEY AUTOINCREMENT, name text"
NOON = dt.datetime(2026, 10, 5, 12, tzinfo=dt.UTC)
INSTANT = SqlCursor((SqlCursorColumn("at", "instant"), SqlCursorColumn("id", "number")), "UTC", compares_rows=True)
BERLIN = SqlCursor((SqlCursorColumn("at", "wall"),), "Europe/Berlin", compares_rows=True)
NUMBER = SqlCursor((SqlCursorColumn("id", "number"),), "UTC", compares_rows=True)


@pytest.fixture
def sqlite() -> SQLite:
    return SQLite(sqlite3.connect(":memory:", isolation_level=None), "here", SessionLimits())


def test_a_stream_of_initial_only_ends_with_its_first_run(tmp_path: Path) -> None:
    events = Events(tmp_path, snapshot_mode="initial_only")
    events.add(3, 5)
    assert events.increment(DAYS[0], None) == ('["5"]', [3, 5])
    events.add(8)
    assert events.increment(DAYS[1], '["5"]') == ('["5"]', [])
    assert events.increment(DAYS[0], None, '["5"]') == ('["5"]', [3, 5]), "its first day is loaded again"
    assert events.increment(DAYS[1], '["5"]', '["5"]') == ('["5"]', [])


def test_initial_only_sends_no_query_after_its_first_run(tmp_path: Path) -> None:
    events = Events(tmp_path, snapshot_mode="initial_only")
    with events.open() as poller:
        events.file.unlink()
        assert poller.follow(DAYS[1], START_POSITION, None) == START_POSITION, "nor for one that was empty"


@pytest.mark.parametrize("columns", ["id integer PRIMARY KEY, name text", COUNTED], ids=["plain", "autoincrement"])
def test_a_table_that_counts_from_its_beginning_again_fails_the_run(tmp_path: Path, columns: str) -> None:
    events = Events(tmp_path, columns)
    events.add(3, 900)
    end, _ = events.increment(DAYS[0], None)
    events.empty(sets_back=True)
    for ids_here in ((), (1, 2)):
        events.add(*ids_here)
        with pytest.raises(ConfigError, match=r"shop_db\.events cannot be followed any more: .* gives 'id' its"):
            events.increment(DAYS[1], end)
        assert events.increment(DAYS[0], None, end)[0] == end, "a day that was there can be loaded again"
    events.add(901)
    assert events.increment(DAYS[1], end) == ('["901"]', [901]), "somebody let it go on"


def test_a_table_that_lost_rows_but_goes_on_counting_is_followed(tmp_path: Path) -> None:
    events = Events(tmp_path, COUNTED)
    events.add(3, 900)
    end, _ = events.increment(DAYS[0], None)
    events.run("DELETE FROM events WHERE id = 900")
    assert events.increment(DAYS[1], end) == (end, []), "its newest row"
    events.empty(sets_back=False)
    assert events.increment(DAYS[1], end) == (end, []), "all"
    events.run("INSERT INTO events (name) VALUES ('new')")
    assert events.increment(DAYS[2], end) == ('["901"]', [901])


def test_numbers_without_a_counter_are_no_reset(tmp_path: Path) -> None:
    events = Events(tmp_path, "id integer NOT NULL, name text")
    events.add(3, 900)
    end, _ = events.increment(DAYS[0], None)
    events.empty(sets_back=True)
    events.add(1)
    assert events.increment(DAYS[1], end) == (end, [])


def test_when_needed_reads_all_rows_again_and_goes_on_from_there(tmp_path: Path) -> None:
    events = Events(tmp_path, COUNTED, snapshot_mode="when_needed")
    events.add(3, 900)
    end, _ = events.increment(DAYS[0], None)
    events.empty(sets_back=True)
    assert events.increment(DAYS[1], end) == (START_POSITION, [])
    events.add(1, 2)
    restarted, numbers = events.increment(DAYS[1], end)
    assert (restarted, numbers) == ('["2"]', [1, 2])
    events.add(7)
    assert events.increment(DAYS[2], restarted) == ('["7"]', [7])
    assert events.increment(DAYS[1], end, restarted) == (restarted, [1, 2]), "the day that began anew is loaded again"
    events.options["snapshot_mode"] = "initial"
    assert events.increment(DAYS[1], end, restarted) == (restarted, [1, 2]), "whatever the mode is by then"


def test_a_counter_below_the_existing_numbers_is_no_reset(sqlite: SQLite, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a server that only receives another server's rows, the own sequence is never used."""
    sqlite.rows("CREATE TABLE t (id integer)")
    monkeypatch.setattr(SQLite, "column_counter", lambda *_: ColumnCounter("sequence s", 0))
    assert "sequence s" in reset_reason(sqlite, NUMBER, Table("t"), '["900"]', NOON)
    sqlite.rows("INSERT INTO t VALUES (800)")
    assert reset_reason(sqlite, NUMBER, Table("t"), '["900"]', NOON) == ""


def test_a_counter_that_cannot_be_read_fails_no_run(sqlite: SQLite, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> ColumnCounter:
        raise ConfigError("there is no pg_sequence")

    sqlite.rows("CREATE TABLE t (id integer)")
    for counter in (lambda *_: ColumnCounter("sequence s", None), refuse):
        monkeypatch.setattr(SQLite, "column_counter", counter)
        assert reset_reason(sqlite, NUMBER, Table("t"), '["900"]', NOON) == ""


@pytest.mark.parametrize(
    ("cursor", "position", "is_lost"),
    [
        (INSTANT, INSTANT.format_position((NOON + CLOCK_TOLERANCE, 7)), False),
        (INSTANT, INSTANT.format_position((NOON + 2 * CLOCK_TOLERANCE, 7)), True),
        (BERLIN, '["2026-10-05T14:00:59"]', False),
        (BERLIN, '["2026-10-05T14:02:00"]', True),
        (INSTANT, START_POSITION, False),
    ],
)
def test_a_clock_that_was_set_back_is_detected(sqlite: SQLite, cursor: SqlCursor, position: str, is_lost: bool) -> None:
    assert bool(reset_reason(sqlite, cursor, Table("t"), position, NOON)) is is_lost


def test_the_hour_that_a_clock_shows_twice_is_not_taken_for_a_clock_that_was_set_back(sqlite: SQLite) -> None:
    second_two_o_clock = dt.datetime(2026, 10, 25, 1, 0, tzinfo=dt.UTC)
    assert reset_reason(sqlite, BERLIN, Table("t"), '["2026-10-25T02:59:00"]', second_two_o_clock) == ""


@pytest.mark.parametrize(
    ("kind", "digits"),
    [
        ("timestamp with time zone", 6),
        ("timestamp(3) without time zone", 3),
        ("timestamp(0) with time zone", 0),
        ("datetime", 0),
        ("timestamp", 0),
        ("datetime(6)", 6),
        ("datetime2(7)", 6),
    ],
)
def test_a_column_s_clock_ticks_as_finely_as_its_type(kind: str, digits: int) -> None:
    assert fraction_digits_of(kind) == digits


@pytest.mark.parametrize("numbers", [(1, 2, 3), (7, 7, 7)], ids=["other", "equal"])
@pytest.mark.parametrize("by", [("at",), ("at", "id")], ids="+".join)
def test_rows_of_one_time_are_read_once_even_if_some_are_written_after_the_run(
    by: tuple[str, ...], numbers: tuple[int, int, int]
) -> None:
    """PR #1093 of kafka-connect-jdbc: a run that ends among rows of one second must leave all of them to the next."""
    link = sqlite3.connect(":memory:", isolation_level=None, detect_types=sqlite3.PARSE_DECLTYPES)
    sqlite3.register_converter("moment", lambda text: dt.datetime.fromisoformat(text.decode()))
    columns = {"at": SqlCursorColumn("at", "wall", 0), "id": SqlCursorColumn("id", "number")}
    cursor = SqlCursor(tuple(columns[name] for name in by), "UTC", compares_rows=True)
    with closing(SQLite(link, "here", SessionLimits())) as database:
        database.rows("CREATE TABLE t (row text, id integer, at moment)")
        runs: list[list[str]] = []
        begin = None
        writes = (("a", 9, "'2026-10-05 11:59:59'"), ("b", numbers[2], "'2026-10-05 12:00:00'"), ("null", 5, "NULL"))
        later = [(), (("c", numbers[0], "'2026-10-05 12:00:00'"), ("d", numbers[1], "'2026-10-05 12:00:00'")), ()]
        for seconds, rows in zip((0.5, 0.9, 1.0), (writes, *later), strict=False):
            for row, number, at in rows:
                database.rows(f"INSERT INTO t VALUES ('{row}', {number}, {at})")
            until = NOON + dt.timedelta(seconds=seconds)
            end = cursor.find_end(database, "t", begin, row_condition="", until=until)
            where = cursor.condition(database, begin, end)
            runs.append(sorted(row for (row,) in database.rows(database.select(["row"], "t", where=where))))
            begin = end
    assert runs == [["a"], [], ["b", "c", "d"]]


def test_rows_with_the_last_number_that_are_written_later_are_missed(tmp_path: Path) -> None:
    events = Events(tmp_path, "id integer, name text")
    events.run("INSERT INTO events VALUES (1, 'a'), (2, 'b'), (2, 'c'), (NULL, 'never')")
    assert events.increment(DAYS[0], None) == ('["2"]', [1, 2, 2])
    events.run("INSERT INTO events VALUES (2, 'passed by'), (3, 'd')")
    assert events.increment(DAYS[1], '["2"]') == ('["3"]', [3])


@pytest.fixture
def sharing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make sessions of SQLite claim to share a snapshot, and split tables of ten rows."""
    exported: list[str] = []

    def export(_: SQLite) -> str:
        exported.append(f"snapshot {len(exported) + 1}")
        return exported[-1]

    begin: Callable[[SQLite], None] = SQLite.begin
    monkeypatch.setattr(SQLite, "shares_snapshots", True)
    monkeypatch.setattr(SQLite, "export_snapshot", export)
    monkeypatch.setattr(SQLite, "begin", lambda database, snapshot=None: begin(database))
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 10)
    return exported


def test_the_first_run_is_split_and_ends_at_the_last_row_of_its_start(tmp_path: Path, sharing: list[str]) -> None:
    events = Events(tmp_path, where="name <> 'y' -- no others")
    events.add(*range(1, 101))
    events.run("INSERT INTO events VALUES (50000, 'y')")
    with events.open() as poller:
        end = poller.follow(DAYS[0], None, None)
        events.add(*range(101, 201))
        parts = poller.plan([DAYS[0]])
        assert [part.params["snapshot"] for part in parts] == ["snapshot 1"] * 4
        assert ids(poller, DAYS[0]) == list(range(1, 101))
    assert events.increment(DAYS[1], end) == ('["200"]', list(range(101, 201)))
    assert len(sharing) == 2, "what came since is read in one piece"
    assert events.increment(DAYS[0], None, end) == (end, list(range(1, 101)))
    assert len(sharing) == 3, "the first day is cut whenever it is loaded"


@pytest.mark.parametrize(("mode", "pieces"), [("no_data", 1), ("initial_only", 4), ("when_needed", 4)])
def test_a_first_run_that_reads_all_rows_is_split(tmp_path: Path, sharing: list[str], mode: str, pieces: int) -> None:
    events = Events(tmp_path, snapshot_mode=mode)
    events.add(*range(1, 101))
    with events.open() as poller:
        end = poller.follow(DAYS[0], '["900"]' if mode == "when_needed" else None, None)
        assert end == '["100"]'
        assert len(poller.plan([DAYS[0]])) == pieces


def test_a_spark_read_is_not_split(tmp_path: Path, sharing: list[str]) -> None:
    events = Events(tmp_path)
    events.add(*range(1, 101))
    with events.open(PollContext(is_closed_before_polls=True)) as poller:
        assert len(poller.plan([DAYS[0]])) == 1
    assert sharing == []


def test_a_file_reports_the_counter_of_a_column(sqlite: SQLite) -> None:
    for columns, last_number in {
        "id integer PRIMARY KEY)": 7,
        "id integer PRIMARY KEY AUTOINCREMENT)": 9,
        "id int PRIMARY KEY)": None,
        "id integer NOT NULL)": None,
        "id integer PRIMARY KEY) WITHOUT ROWID": None,
        "id integer, b integer, PRIMARY KEY (id, b))": None,
    }.items():
        sqlite.rows(f"CREATE TABLE t ({columns}")
        for number in (9, 7):
            sqlite.rows(f"INSERT INTO t (id) VALUES ({number})")
        sqlite.rows("DELETE FROM t WHERE id = 9")
        counter = sqlite.column_counter(Table("t"), "id")
        assert (counter and counter.last_number) == last_number, columns
        sqlite.rows("DROP TABLE t")
