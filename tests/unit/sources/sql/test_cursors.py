"""Cursors: positions are formatted and parsed unchanged, and a table of SQLite is followed by a number."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.sources._sql.cursors import START_POSITION, SqlCursor, SqlCursorColumn
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.spark.here import drive
from tests.equipment.sql.events import Events, ids

DAYS = [Day(date=dt.date(2026, 10, 5) + number * ONE_DAY) for number in range(5)]
PAIR = SqlCursor((SqlCursorColumn("at", "instant"), SqlCursorColumn("id", "number")), "UTC", compares_rows=True)
WALL = SqlCursor((SqlCursorColumn("at", "wall"),), "US/Pacific", compares_rows=True)


@given(st.datetimes(timezones=st.just(dt.UTC)), st.integers(-(10**38), 10**38))
def test_a_formatted_position_is_parsed_unchanged(at: dt.datetime, number: int) -> None:
    assert PAIR.parse_position(PAIR.format_position((at, number))) == (at, number)
    wall = at.replace(tzinfo=None)
    assert WALL.parse_position(WALL.format_position((wall,))) == (wall,)


def test_an_instant_without_a_zone_is_in_utc() -> None:
    """MySQL returns instants without a zone."""
    naive = dt.datetime(2026, 10, 5, 12, 0, 0, 5, tzinfo=dt.UTC).replace(tzinfo=None)
    assert PAIR.format_position((naive, 7)) == '["2026-10-05T12:00:00.000005+00:00", "7"]'


@pytest.mark.parametrize(
    "text",
    ["", "{}", "null", '["7"]', '["2026-10-05T12:00:00", "7"]', '["2026-10-05T12:00:00+00:00", "x"]', '["a", "7"]'],
)
def test_a_position_of_other_columns_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="the position in the ledger does not fit at, id"):
        PAIR.parse_position(text)


def test_a_value_that_is_not_a_time_cannot_be_followed() -> None:
    with pytest.raises(DataError, match="column 'at' has a value that is not a time"):
        PAIR.format_position(("infinity", 1))
    with pytest.raises(DataError, match="column 'id' has a value that is not a whole number"):
        PAIR.format_position((dt.datetime.now(dt.UTC), Decimal("NaN")))


@given(st.lists(st.lists(st.integers(1, 9), max_size=4), min_size=1, max_size=4))
def test_every_row_is_read_once_however_many_are_added_between_runs(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[list[int]]
) -> None:
    events, last = Events(tmp_path_factory.mktemp("db")), 0
    after: str | None = None
    read: list[tuple[Day, str | None, str, list[int]]] = []
    for day, group in zip(DAYS, gaps, strict=False):
        for gap in group:
            last += gap
            events.add(last)
        end, numbers = events.increment(day, after)
        read.append((day, after, end, numbers))
        after = end
    assert sum(len(numbers) for *_, numbers in read) == sum(map(len, gaps[: len(read)]))
    for day, begin, end, numbers in read:
        assert events.increment(day, begin, end) == (end, numbers), "a load that is repeated"


def test_an_empty_table_has_the_position_before_all_rows(tmp_path: Path) -> None:
    events = Events(tmp_path)
    assert events.increment(DAYS[0], None) == (START_POSITION, [])
    events.add(3, 5)
    assert events.increment(DAYS[1], START_POSITION) == ('["5"]', [3, 5])
    assert events.increment(DAYS[0], None, START_POSITION) == (START_POSITION, []), "what was empty stays so"


def test_the_end_of_an_increment_respects_the_users_condition(tmp_path: Path) -> None:
    events = Events(tmp_path, where="id < 10 -- no more")
    events.add(3, 50)
    assert events.increment(DAYS[0], None) == ('["3"]', [3])


def test_no_data_reads_only_new_rows(tmp_path: Path) -> None:
    events = Events(tmp_path, snapshot_mode="no_data")
    events.add(3, 5)
    assert events.increment(DAYS[0], None) == ('["5"]', [])
    events.add(8)
    assert events.increment(DAYS[1], '["5"]') == ('["8"]', [8])


def test_a_plan_without_a_position_reads_from_the_beginning(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.add(3, 5)
    with events.open() as poller:
        assert ids(poller, DAYS[0]) == [3, 5]


def test_a_column_that_only_looks_like_a_number_is_refused(tmp_path: Path) -> None:
    events = Events(tmp_path, incrementing_column="name")
    with pytest.raises(ConfigError, match="incrementing_column: 'name' of type text is not a whole number"):
        events.increment(DAYS[0], None)


def test_a_timestamp_mode_is_refused_for_sqlite() -> None:
    source = SqlSource(conn_id="c", table="t", mode="timestamp", timestamp_column="at")
    problems = source.check(Connection(conn_id="c", conn_type="sqlite", host="/tmp/shop.db"))
    assert problems == ["mode: SQLite stores times as texts, which cannot be followed: use mode='incrementing'"]


def test_runs_follow_each_other_through_the_ledger_of_a_table(tmp_path: Path) -> None:
    """With the driver and a real sink, a run continues at the end of the run before, whatever its day."""
    events = Events(tmp_path, snapshot_mode="when_needed")
    events.add(1, 2)

    def run(number: int, day: Day, clear_number: int = 0) -> int:
        token = f"{clear_number:08x}{number:08x}"
        job = JobConfig(
            source_name="sql",
            source={"conn_id": "shop_db"} | events.options,
            sink_name="delta",
            sink={"path": str(tmp_path / "table")},
            days=(day,),
            intent=Intent(token=token * 2, run=f"dag/run-{number}/task", clear_number=clear_number),
            attempt=f"{token}-1",
            report=str(tmp_path / f"run-{number}-{clear_number}" / "report.json"),
            progress_seconds=1,
        )
        connection = Connection(conn_id="shop_db", conn_type="sqlite", host=str(events.file))
        (report,) = drive(job, {"shop_db": connection}).days
        assert report.failure is None
        return report.rows_written

    assert run(1, DAYS[1]) == 2
    events.add(7)
    assert run(2, DAYS[0]) == 1
    assert run(1, DAYS[1], 1) == 2, "a run that is cleared"
    assert run(3, DAYS[1]) == 0, "another run of its day"
    assert run(4, DAYS[2]) == 0
    numbers = DeltaTable(str(tmp_path / "table")).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    assert sorted(numbers) == [1, 2, 7]
    events.empty(sets_back=True)
    events.add(1, 3)
    assert [run(5, DAYS[3], clear_number) for clear_number in (0, 1)] == [2, 2], "it begins anew, and is cleared"
    assert run(6, DAYS[3]) == 0
    events.add(4)
    assert run(7, DAYS[4]) == 1
