"""Bounds of a cursor, rows without a cursor value, and rows that a run reads again, on SQLite."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.definition import build_definition
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.sql.events import Events

DAYS = [Day(date=dt.date(2026, 10, 5) + number * ONE_DAY) for number in range(4)]
COLUMNS = "id integer, name text"
TIME: dict[str, Any] = {"mode": "timestamp", "timestamp_column": "at"}
NUMBER: dict[str, Any] = {"mode": "incrementing", "incrementing_column": "id"}
HOUR = dt.timedelta(hours=1)


def test_rows_outside_of_start_and_end_are_never_read(tmp_path: Path) -> None:
    events = Events(tmp_path, COLUMNS, start=3, end=6)
    events.add(1, 2, 3)
    assert events.increment(DAYS[0], None) == ('["3"]', [3])
    events.add(5, 6, 7)
    assert events.increment(DAYS[1], '["3"]') == ('["5"]', [5])
    assert events.increment(DAYS[2], '["5"]') == ('["5"]', [])
    events.options |= {"start": 8, "end": None}
    assert events.increment(DAYS[0], None) == ("[]", [])


def test_rows_without_a_value_are_left_out_refused_or_read_first(tmp_path: Path) -> None:
    events = Events(tmp_path, COLUMNS, nulls="first", start=2)
    events.run("INSERT INTO events VALUES (NULL, 'a'), (1, 'b'), (4, 'c')")
    assert events.increment(DAYS[0], None) == ('["4"]', [None, 4])
    events.run("INSERT INTO events VALUES (NULL, 'd'), (5, 'e')")
    assert events.increment(DAYS[1], '["4"]') == ('["5"]', [5])
    assert events.increment(DAYS[0], None, '["4"]') == ('["4"]', [None, None, 4]), "the first run again"
    events.options |= {"nulls": "leave_out"}
    assert events.increment(DAYS[0], None) == ('["5"]', [4, 5])
    events.options |= {"nulls": "fail", "start": None}
    with pytest.raises(DataError, match=r"shop_db.events has rows without a value in id, .* nulls='leave_out'"):
        events.increment(DAYS[2], '["5"]')
    assert events.increment(DAYS[0], None, '["4"]') == ('["4"]', [1, 4]), "a span that was read stays"
    events.run("DELETE FROM events WHERE id IS NULL")
    assert events.increment(DAYS[2], '["4"]') == ('["5"]', [5])


def test_rows_without_a_value_come_first_also_if_there_are_no_others(tmp_path: Path) -> None:
    events = Events(tmp_path, COLUMNS, nulls="first")
    events.run("INSERT INTO events VALUES (NULL, 'a')")
    assert events.increment(DAYS[0], None) == ("[]", [None])
    events.run("INSERT INTO events VALUES (NULL, 'b'), (1, 'c')")
    assert events.increment(DAYS[1], "[]") == ('["1"]', [1]), "the second run"


def test_a_late_row_within_the_overlap_is_read_by_a_later_run(tmp_path: Path) -> None:
    events = Events(tmp_path, COLUMNS, overlap=3)
    events.add(1, 2, 10)
    assert events.increment(DAYS[0], None) == ('["10"]', [1, 2, 10])
    events.add(8, 7, 6)
    assert events.increment(DAYS[1], '["10"]') == ('["10"]', [8, 10]), "also without newer rows. 7 is too far back"
    events.add(11)
    assert events.increment(DAYS[2], '["10"]') == ('["11"]', [8, 10, 11])
    assert events.increment(DAYS[0], None, '["10"]')[1] == [1, 2, 6, 7, 8, 10]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (NUMBER | {"start": "x"}, "start: 'x' is not a whole number"),
        (TIME | {"end": "5 o'clock"}, "is not a time such as '2026-01-01'"),
        (NUMBER | {"start": 5, "end": 5}, "end: it lies before start"),
        (TIME | {"start": dt.date(2026, 1, 2), "end": "2026-01-01"}, "end: it lies before start"),
        (TIME | {"overlap": 5}, r"overlap: mode='timestamp' needs a duration, datetime.timedelta\(hours=3\)"),
        (NUMBER | {"overlap": HOUR}, "overlap: mode='incrementing' needs a whole number"),
        (NUMBER | {"overlap": 0}, "overlap: it must be above 0"),
        (NUMBER | {"overlap": 5, "snapshot_mode": "initial_only"}, "has no later runs"),
        (NUMBER | {"nulls": "first", "snapshot_mode": "no_data"}, "loads no existing rows, so 'first' loads none"),
        ({"day_column": "at", "overlap": HOUR}, "overlap: only a mode uses it: set the operator's lookback_days"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        SqlSource(conn_id="shop", table="t", **options)


def test_options_survive_json_and_take_python_s_values() -> None:
    source = SqlSource(conn_id="s", table="t", start=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), overlap=3 * HOUR, **TIME)
    assert source.start == "2026-01-01T00:00:00+00:00"
    again = SqlSource.from_options(json.loads(json.dumps(source.serialize())))
    assert (again, again.overlap) == (source, 3 * HOUR)
    numbers = SqlSource.from_options(SqlSource(conn_id="s", table="t", overlap=5, **NUMBER).serialize())
    assert numbers.overlap == 5


def test_an_overlap_needs_a_sink_that_merges_by_key() -> None:
    source = SqlSource(conn_id="shop", table="t", overlap=HOUR, **TIME)
    with pytest.raises(ConfigError, match=r"overlap reads rows again, .* Set write_mode='merge' with a key"):
        ConnectOperator(task_id="t", source=source, sink=DeltaSink(path="/data/t"))
    ConnectOperator(task_id="t", source=source, sink=DeltaSink(path="/data/t", write_mode="merge", key=["id"]))


def test_the_definition_knows_them() -> None:
    connection = Connection(conn_id="shop", conn_type="postgres")
    given: dict[str, Any] = {"start": "2026-01-01", "end": "2027-01-01", "nulls": "fail", "overlap": HOUR}
    source = SqlSource(conn_id="shop", table="t", **TIME | given)
    narrowing = build_definition(source, source.serialize(), connection).narrowing
    assert {name: narrowing[name] for name in given} == {
        "start": "2026-01-01",
        "end": "2027-01-01",
        "nulls": "fail",
        "overlap": "PT1H",
    }
