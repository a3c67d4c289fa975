"""Ten changes of a table, each between two runs of three ways into Delta: which stop, and what readers then see."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.spark.here import drive
from tests.equipment.sql.fixtures import OwnDatabase

pytestmark = pytest.mark.slow

MONDAY = dt.date(2026, 10, 5)
DAYS = [Day(date=MONDAY), Day(date=MONDAY + ONE_DAY)]
WAYS: dict[str, dict[str, Any]] = {
    "day_column": {"day_column": "at"},
    "snapshot": {"snapshot": "replace"},
    "mode": {"mode": "incrementing", "incrementing_column": "id"},
}
RUNS = count(1)
NOON = dt.datetime.combine(MONDAY, dt.time(12), tzinfo=dt.UTC)
ALL = ("day_column", "snapshot", "mode")


class Change(NamedTuple):
    """A change of table ``t``, whose column ``v`` holds a value of ``kind``.

    :param stops: the ways that the change stops.
    :param shown: column and value of the first row, and of the second one, which is written after the change.
    """

    statement: str
    kind: str
    value: str
    stops: tuple[str, ...]
    column: str
    shown: tuple[Any, Any]
    after: str = ""


CHANGES = {
    "add a column": Change("ADD w int DEFAULT 7", "int", "1", (), "w", (None, 7)),
    "drop a column": Change("DROP v", "int", "1", (), "v", (1, None)),
    "rename a column": Change("RENAME v TO w", "int", "1", (), "w", (None, 1)),
    "int to bigint": Change("ALTER v TYPE bigint", "int", "-1", (), "v", (-1, 2**40), str(2**40)),
    "numeric(10,2) to (12,2)": Change(
        "ALTER v TYPE numeric(12,2)", "numeric(10,2)", "1.50", (), "v", (Decimal("1.50"), Decimal("9999999999.25")),
        "9999999999.25",
    ),
    "date to timestamp": Change(
        "ALTER v TYPE timestamp", "date", "'2026-10-01'", (), "v",
        (dt.datetime.fromisoformat("2026-10-01"), dt.datetime.fromisoformat("2026-10-01 01:02:03")),
        "'2026-10-01 01:02:03'",
    ),
    "varchar(3) to varchar(9)": Change(
        "ALTER v TYPE varchar(9)", "varchar(3)", "'abc'", (), "v", ("abc", "abcdefghi"), "'abcdefghi'"
    ),
    "drop the key": Change("DROP CONSTRAINT t_pkey", "int", "1", (), "v", (1, 1)),
    "int to text": Change("ALTER v TYPE text", "int", "1", ("day_column", "mode"), "v", ("1", "x"), "'x'"),
    "timestamptz to timestamp": Change(
        "ALTER v TYPE timestamp USING v AT TIME ZONE 'UTC'", "timestamptz", f"'{NOON}'", ("day_column", "mode"), "v",
        (NOON.replace(tzinfo=None), NOON.replace(tzinfo=None)), f"'{NOON:%Y-%m-%d %H:%M}'",
    ),
}  # fmt: skip


def load(database: OwnDatabase, folder: Path, way: str, day: Day) -> JobReport:
    number = next(RUNS)
    job = JobConfig(
        source_name="sql",
        source={"conn_id": "sql_default", "table": "t", "retry_budget_seconds": 0.0} | WAYS[way],
        sink_name="delta",
        sink={"path": str(folder / "table")},
        days=(day,),
        intent=Intent(token=f"{number:032x}", run=f"dag/run-{number}/task"),
        attempt=f"{number:016x}-{number}",
        report=str(folder / f"run-{number}" / "report.json"),
        progress_seconds=1,
    )
    return drive(job, {"sql_default": database.connection()})


def run_change(database: OwnDatabase, folder: Path, way: str, change: Change) -> str:
    """Load a row, change the table, and load another row. Returns the text of the failure, or ""."""
    database.run(
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t (id int CONSTRAINT t_pkey PRIMARY KEY, at timestamp NOT NULL, v {change.kind})",
        f"INSERT INTO t VALUES (1, '{MONDAY} 12:00', {change.value})",
    )
    assert load(database, folder, way, DAYS[0]).failure is None
    database.run(f"ALTER TABLE t {change.statement}")
    columns = [name for (name,) in database.run("SELECT column_name FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position")]  # fmt: skip  # noqa: E501
    values = {"id": "2", "at": f"'{MONDAY + ONE_DAY} 12:00'", "v": change.after or change.value, "w": "7"}
    values |= {"w": change.value} if "RENAME" in change.statement else {}
    database.run(f"INSERT INTO t ({', '.join(columns)}) VALUES ({', '.join(values[name] for name in columns)})")
    failure = load(database, folder, way, DAYS[1]).failure
    return failure.message if failure else ""


@pytest.mark.parametrize("way", WAYS)
def test_ten_changes_of_a_table_between_two_runs(postgresql: OwnDatabase, tmp_path: Path, way: str) -> None:
    stopped = []
    for name, change in CHANGES.items():
        folder = tmp_path / name.replace(" ", "_")
        folder.mkdir()
        message = run_change(postgresql, folder, way, change)
        rows = sorted(DeltaTable(str(folder / "table")).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
        if message:
            stopped.append(name)
            assert "column 'v' is" in message, name
            assert [row["id"] for row in rows] == [1], "nothing has changed"
            continue
        assert [row["id"] for row in rows] == [1, 2], name
        first, second = (row.get(change.column) for row in rows)
        if way == "snapshot":  # both rows are of the second read
            assert second == change.shown[1], name
            continue
        assert (first, second) == change.shown, name
    assert stopped == [name for name, change in CHANGES.items() if way in change.stops]


def test_at_most_four_of_thirty_stop() -> None:
    stops = [(name, way) for name, change in CHANGES.items() for way in change.stops]
    assert (len(CHANGES) * len(WAYS), len(stops)) == (30, 4)
