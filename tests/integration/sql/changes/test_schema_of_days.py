"""Tables that change between two days, and extreme values, loaded into Delta."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.sinks._delta.publisher import DeltaPublisher
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.spark.here import drive
from tests.equipment.sql.fixtures import OwnDatabase

pytestmark = pytest.mark.slow

DAYS = [Day(date=dt.date(2026, 10, 5) + number * ONE_DAY) for number in range(6)]
RUNS = count(1)


class Loads:
    """Loads of one table into a Delta table, day by day."""

    def __init__(self, database: OwnDatabase, folder: Path) -> None:
        self.own, self.folder = database, folder

    def run(self, day: Day, token: str = "", **sink: Any) -> JobReport:
        number = next(RUNS)
        job = JobConfig(
            source_name="sql",
            source={"conn_id": "sql_default", "table": "t", "day_column": "at", "retry_budget_seconds": 0.0},
            sink_name="delta",
            sink={"path": str(self.folder / "table")} | sink,
            days=(day,),
            intent=Intent(token=token or f"{number:032x}", run=f"dag/run-{number}/task"),
            attempt=f"{(token or f'{number:016x}')[:16]}-{number}",
            report=str(self.folder / f"run-{number}" / "report.json"),
            progress_seconds=1,
        )
        return drive(job, {"sql_default": self.own.connection()})

    def rows(self) -> list[dict[str, Any]]:
        rows = DeltaTable(str(self.folder / "table")).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: row["id"])


def outcome(report: JobReport) -> tuple[str, str]:
    """Return the type and text of a failure, or empty texts."""
    return (report.failure.type, report.failure.message) if report.failure else ("", "")


def add(database: OwnDatabase, number: int, day: Day) -> None:
    database.run(f"INSERT INTO t (id, at) VALUES ({number}, '{day.date} 12:00:00')")


def test_a_table_that_changes_between_days_is_followed_or_refused_by_contract(
    either: OwnDatabase, tmp_path: Path
) -> None:
    loads = Loads(either, tmp_path)
    is_postgres = either.server.conn_type == "postgres"
    either.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NULL, a numeric(10,2) DEFAULT 1.5, b varchar(9))")
    changes = [
        ("ALTER TABLE t ADD c int DEFAULT 7", "column 'c' is new; schema_contract='freeze'"),
        ("ALTER TABLE t DROP b", ""),
        ("ALTER TABLE t RENAME COLUMN c TO d", "column 'd' is new; schema_contract='freeze'"),
    ]
    add(either, 0, DAYS[0])
    assert outcome(loads.run(DAYS[0])) == ("", "")
    for number, (change, reason) in enumerate(changes, start=1):
        either.run(change)
        add(either, number, DAYS[number])
        kind, message = outcome(loads.run(DAYS[number], schema_contract="freeze"))
        assert kind == ("ConfigError" if reason else ""), message
        assert reason in message
        assert outcome(loads.run(DAYS[number])) == ("", "")
    seen = [[row.get(name) for name in ("id", "b", "c", "d")] for row in loads.rows()]
    assert seen == [[0, None, None, None], [1, None, 7, None], [2, None, 7, None], [3, None, None, 7]]

    either.run(f"ALTER TABLE t {'ALTER a TYPE' if is_postgres else 'MODIFY a'} numeric(12,4)")
    add(either, 4, DAYS[4])
    kind, message = outcome(loads.run(DAYS[4], schema_contract="freeze"))
    assert kind == "ConfigError"
    assert "column 'a' is decimal(10,2) in the table and decimal(12,4) now" in message
    assert len(loads.rows()) == 4
    assert outcome(loads.run(DAYS[4])) == ("", "")
    assert [row["a"] for row in loads.rows()][:4] == [Decimal("1.5")] * 4

    either.run(f"ALTER TABLE t {'ALTER a TYPE' if is_postgres else 'MODIFY a'} numeric(9,2)")
    add(either, 5, DAYS[5])
    kind, message = outcome(loads.run(DAYS[5]))
    assert kind == "ConfigError"
    assert "column 'a' is decimal(12,4) in the table and decimal(9,2) now" in message
    assert len(loads.rows()) == 5


def test_a_day_staged_before_the_table_was_altered_is_not_published(
    either: OwnDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second try of the same run finds the whole day staged with the old columns."""
    loads, token = Loads(either, tmp_path), "c" * 32
    either.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NULL)")
    add(either, 1, DAYS[0])

    def refuse(*_: object) -> None:
        raise RetriableError("the storage is away")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaPublisher, "commit", refuse)
        assert "the storage is away" in outcome(loads.run(DAYS[0], token))[1]
    either.run("ALTER TABLE t ADD c int DEFAULT 7")
    assert outcome(loads.run(DAYS[0], token)) == ("", "")
    assert [row["c"] for row in loads.rows()] == [7]


def test_values_of_the_edge_are_the_same_in_delta(every: OwnDatabase, tmp_path: Path) -> None:
    digits = "12345678901234567890.123456789012345678"
    if every.server.conn_type == "postgres":
        columns = "d numeric(38,18), u numeric(20), x bytea, s text"
        values = f"{digits}, 18446744073709551615, '\\x0000ff', E'a\\\\\"b\\n'"
        text = 'a\\"b\n'
    else:
        columns = "d decimal(38,18), u bigint unsigned, x longblob, s longtext"
        values = f"{digits}, 18446744073709551615, x'0000ff', 'a\\\\\"b\\n\\0'"
        text = 'a\\"b\n\0'
    every.run(f"CREATE TABLE t (id int PRIMARY KEY, at timestamp NULL, {columns})")
    every.run(f"INSERT INTO t VALUES (1, '2026-10-05 12:00:00', {values})", "INSERT INTO t (id, at) VALUES (2, '2026-10-05 13:00:00')")  # fmt: skip  # noqa: E501
    loads = Loads(every, tmp_path)
    assert outcome(loads.run(DAYS[0])) == ("", "")
    found = [tuple(row[name] for name in "duxs") for row in loads.rows()]
    assert found == [(Decimal(digits), Decimal(2**64 - 1), b"\0\0\xff", text), (None, None, None, None)]


def test_a_primary_key_that_is_dropped_is_told_and_rows_are_loaded_without_a_key(
    either: OwnDatabase, tmp_path: Path
) -> None:
    loads = Loads(either, tmp_path)
    either.run("CREATE TABLE t (id int, at timestamp NULL, CONSTRAINT t_pkey PRIMARY KEY (id))")
    add(either, 1, DAYS[0])
    assert outcome(loads.run(DAYS[0])) == ("", "")
    either.run(f"ALTER TABLE t DROP {'CONSTRAINT t_pkey' if either.server.conn_type == 'postgres' else 'PRIMARY KEY'}")
    add(either, 2, DAYS[1])
    report = loads.run(DAYS[1])
    assert outcome(report) == ("", "")
    assert any("rows have no key any more, it was (id: n)" in text for text in report.warnings), report.warnings
    assert outcome(loads.run(DAYS[0])) == ("", ""), "an earlier day is loaded again"
    assert [(row["id"], row["record_key"] is None) for row in loads.rows()] == [(1, True), (2, True)]


def test_times_of_day_and_names_that_delta_has_not_are_loaded_as_the_options_say(
    either: OwnDatabase, tmp_path: Path
) -> None:
    loads = Loads(either, tmp_path)
    name = '"a b"' if either.server.conn_type == "postgres" else "`a b`"
    either.run(f"CREATE TABLE t (id int PRIMARY KEY, at timestamp NULL, {name} time(6))")
    either.run("INSERT INTO t VALUES (1, '2026-10-05 12:00:00', '01:02:03.000004')")
    assert "names='safe', or with shape=" in outcome(loads.run(DAYS[0]))[1]
    assert outcome(loads.run(DAYS[0], names="safe", types="safe")) == ("", "")
    assert [row["a_b"] for row in loads.rows()] == ["01:02:03.000004"]
