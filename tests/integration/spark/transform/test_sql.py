"""Spark SQL over polled days, under a real spark-submit, into a Delta table."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.stage.transform import Transform
from tests.standins.mixpanel.faults import Fault

pytestmark = pytest.mark.slow

DAYS = ["2026-10-05", "2026-10-06"]
EMPTY = "2026-10-07"


def requests(submit: Any) -> int:
    return sum(sum(by_status.values()) for by_status in submit.standin.stats["requests"].values())


def test_days_are_joined_with_another_table_and_a_retry_neither_polls_nor_transforms(
    submit: Any, tmp_path: Path
) -> None:
    served = {day: list(submit.standin.project.expected_rows(dt.date.fromisoformat(day))) for day in DAYS}
    submit.standin.faults.replace([Fault.from_json({"kind": "empty", "date": EMPTY})])
    names = sorted({row["event"] for rows in served.values() for row in rows})
    known = {name: f"kind {at % 2}" for at, name in enumerate(names[:-1])}
    pq.write_table(pa.table({"event": list(known), "kind": list(known.values())}), tmp_path / "kinds.parquet")
    submit.transform = Transform(
        sql=f"""
        -- what a day says of itself, and what another table knows of its events; an empty day says that it was
        SELECT p.record_key, p.event, k.kind, p.time, p.properties, :day AS loaded_for
        FROM polled AS p JOIN parquet.`{tmp_path / "kinds.parquet"}` AS k USING (event)
        WHERE p.time >= :start AND p.time < :end
        UNION ALL
        SELECT md5('nothing'), 'nothing', NULL, :start, '{{}}', :day
        FROM (SELECT count(*) AS n FROM polled) WHERE n = 0;
        """
    )
    ended = submit.run([*DAYS, EMPTY])
    assert ended.process.returncode == 0, ended.output
    report = ended.report
    kept = {day: [row for row in rows if row["event"] in known] for day, rows in served.items()}
    days = {str(day.day): day for day in report.days}
    for day in DAYS:
        told = days[day]
        assert (told.status, told.rows_read, told.duplicates) == ("published", 2050, 50)
        assert (told.counts["rows_polled"], told.rows_written) == (2000, len(kept[day]))
        assert told.transform_seconds
        assert told.polled_contents != told.result_contents
    assert (days[EMPTY].counts["rows_polled"], days[EMPTY].rows_written) == (0, 1)
    assert report.seconds["sql_session"] < report.seconds["start"] < report.seconds["total"]
    assert report.result_columns == {
        "record_key": "STRING", "event": "STRING", "kind": "STRING", "time": "TIMESTAMP", "properties": "STRING",
        "loaded_for": "DATE",
    }  # fmt: skip
    assert "connect: transform=SQL: Spark SQL took" in ended.output
    assert f"connect: day {DAYS[0]}: transformed into {len(kept[DAYS[0]]):,} rows in" in ended.output
    table = DeltaTable(str(submit.table)).to_pyarrow_table()
    found = {
        day: sorted((r["event"], r["kind"], str(r["loaded_for"])) for r in table.to_pylist() if str(r["day"]) == day)
        for day in [*DAYS, EMPTY]
    }
    assert found == {day: sorted((r["event"], known[r["event"]], day) for r in rows) for day, rows in kept.items()} | {
        EMPTY: [("nothing", None, EMPTY)]
    }
    assert table.schema.field("event").metadata[b"comment"] == b"Name of the event."
    assert not list((submit.table / "_connect" / "polled").rglob("*.*")), "polled days are deleted"
    assert not list(Path.cwd().glob("*-warehouse"))

    asked, version = requests(submit), DeltaTable(str(submit.table)).version()
    # The same intent again: the ledger knows, and no day is polled or transformed.
    again = submit.run([*DAYS, EMPTY])
    assert {day.status for day in again.report.days} == {"already_published"}
    assert (requests(submit), DeltaTable(str(submit.table)).version()) == (asked, version)
    assert all(day.counts["rows_polled"] == days[str(day.day)].counts["rows_polled"] for day in again.report.days)


def test_without_a_transform_there_is_no_sql_session(submit: Any) -> None:
    ended = submit.run(DAYS[:1], env={"SPARK_SUBMIT_OPTS": "-Xlog:class+load:file=/dev/stdout"})
    assert ended.process.returncode == 0, ended.output
    assert "org.apache.spark.SparkContext " in ended.output
    assert "org.apache.spark.sql.classic.SparkSession " not in ended.output
    assert "sql_session" not in ended.report.seconds
    assert ended.report.days[0].transform_seconds is None
