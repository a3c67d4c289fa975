"""Names and types that Delta has not: refused with the remedy, or mapped by ``names`` and ``types``."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.window import Day
from tests.equipment.delta.lab import KEY
from tests.equipment.spark.here import drive

SAFE = {"names": "safe", "types": "safe"}
DAY = Day(date=dt.date(2026, 10, 5))


def load(folder: Path, columns: dict[str, str], token: str = "a", **sink: Any) -> JobReport:
    """Load a table of SQLite with one row."""
    file = folder / f"shop-{token}.db"
    with closing(sqlite3.connect(file)) as database, database:
        declared = ", ".join(f'"{name}" {value}' for name, value in columns.items())
        database.execute(f"CREATE TABLE t (id integer PRIMARY KEY, {declared})")
        database.execute("INSERT INTO t (id) VALUES (1)")
    job = JobConfig(
        source_name="sql",
        source={"conn_id": "shop", "table": "t", "snapshot": "replace", "retry_budget_seconds": 0.0},
        sink_name="delta",
        sink={"path": str(folder / "table")} | sink,
        days=(DAY,),
        intent=Intent(token=token * 32, run=f"dag/run-{token}/task"),
        attempt=token * 16,
        report=str(folder / f"run-{token}" / "report.json"),
        progress_seconds=1,
    )
    return drive(job, {"shop": Connection(conn_id="shop", conn_type="sqlite", host=str(file))})


COLUMNS = {"a b (c)": "text DEFAULT 'x'", "at": "time DEFAULT '01:02:03'", "plain": "text DEFAULT 'y'"}


def test_columns_are_mapped_and_all_others_stay(tmp_path: Path) -> None:
    assert load(tmp_path, COLUMNS, **SAFE).failure is None
    (row,) = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert {name: row[name] for name in ("id", "a_b__c_", "at", "plain")} == {
        "id": 1,
        "a_b__c_": "x",
        "at": row["at"],
        "plain": "y",
    }
    assert str(row["at"]).startswith("01:02:03")


def test_without_the_options_the_message_names_them_and_the_shape(tmp_path: Path) -> None:
    failure = load(tmp_path, COLUMNS).failure
    assert failure is not None
    assert "names='safe', or with shape=[Rename(columns={'a b (c)': 'a_b__c_'})]" in failure.message


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    failure = load(tmp_path, {"a b": "text", "a_b": "text"}, **SAFE).failure
    assert failure is not None
    assert failure.type == "ConfigError"
    assert "'a_b'" in failure.message
    assert not (tmp_path / "table").exists()


def test_times_of_day_become_text_with_six_digits() -> None:
    schema = pa.schema([("at", pa.time64("us")), ("n", pa.int64()), ("x;y", pa.time32("s"))])
    assert DeltaSink(path="/t").shapes_for(schema) == []
    assert DeltaSink(path="/t", types="safe").shapes_for(schema) == [
        {"cast": {"columns": {"at": "STRING", "x;y": "STRING"}}}
    ]
    assert DeltaSink(path="/t", names="safe").shapes_for(schema) == [{"rename": {"columns": {"x;y": "x_y"}}}]


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.uint32()])
def test_a_type_without_a_counterpart_is_refused_with_the_cast(tmp_path: Path, kind: pa.DataType) -> None:
    (problem,) = DeltaSink(path=str(tmp_path / "t")).open(KEY, {}).preflight(pa.schema([("c", kind)]), (), "day")
    assert "shape=[Cast(columns={'c': 'STRING'})]" in problem
    assert ("types='safe'" in problem) is (kind == pa.time64("us"))
