"""What others did to a stream's table is told before the source is asked, and hinders nobody."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import KEY, MAY, SCHEMA, Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path / "table").make()
    for i in range(8):
        lab.publish(MAY + i * ONE_DAY, ["a", "b", "c"] if i else [], f"t{i}")
    return lab


def told(lab: Lab, caplog: pytest.LogCaptureFixture) -> str:
    """Return what preflight tells; it never refuses, for a reload is what mends such a day."""
    caplog.clear()
    with caplog.at_level("WARNING", "airflow_provider_connect.sinks._delta"):
        assert lab.preflight() == []
    return caplog.text


def day(number: int) -> str:
    return str(MAY + dt.timedelta(days=number))


def foreign(rows: int, number: int) -> pa.Table:
    return pa.table({"event": ["foreign"] * rows, "day": pa.array([MAY + number * ONE_DAY] * rows, pa.date32())})


def test_unchanged_published_days_are_not_named(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.publish(MAY + 3 * ONE_DAY, ["reloaded"], "t9")
    assert told(lab, caplog) == ""
    lab.clean_log()
    assert told(lab, caplog) == ""


def test_a_day_with_rows_deleted_by_another_writer_is_named(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    DeltaTable(str(lab.root)).delete(f"day = '{day(2)}' and event = 'b'")
    DeltaTable(str(lab.root)).delete(f"day = '{day(4)}'")
    said = told(lab, caplog)
    assert f"{day(2)} (published 3 rows, now has 2), {day(4)} (published 3 rows, now has 0)." in said
    assert str(lab.root) in said
    assert "Clear their tasks to load them again" in said
    lab.clean_log()
    assert told(lab, caplog) == said, "also when the log has forgotten the commits"
    for number in (2, 4):
        lab.publish(MAY + number * ONE_DAY, ["a", "b", "c"], f"mended-{number}")
    assert told(lab, caplog) == ""


def test_a_day_overwritten_by_another_writer_is_named(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    more: dict[str, Any] = {"schema_mode": "merge"}
    write_deltalake(str(lab.root), foreign(3, 1), mode="overwrite", predicate=f"day = '{day(1)}'", **more)
    write_deltalake(str(lab.root), foreign(2, 0), mode="append", **more)
    said = told(lab, caplog)
    assert f"{day(0)} (published 0 rows, now has 2), {day(1)} (has foreign files)" in said


def test_a_day_updated_by_another_writer_is_named(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    DeltaTable(str(lab.root)).update(updates={"event": "'z'"}, predicate=f"day = '{day(5)}' and event = 'b'")
    assert f"{day(5)} (has foreign files)" in told(lab, caplog)


def test_days_restored_to_an_older_state_are_named(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    version = lab.version
    lab.publish(MAY + ONE_DAY, ["a"], "t9")
    DeltaTable(str(lab.root)).restore(version)
    assert f"{day(1)} (published 1 rows, now has 3)" in told(lab, caplog)


def test_a_compacted_table_is_as_it_was_published(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    write_deltalake(str(lab.root), foreign(1, 20), mode="append", schema_mode="merge")
    write_deltalake(str(lab.root), foreign(1, 20), mode="append", schema_mode="merge")
    DeltaTable(str(lab.root)).optimize.compact()
    assert told(lab, caplog) == "", "a day that was never published is nobody's business"


def test_many_changed_days_are_counted_and_not_all_named(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    DeltaTable(str(lab.root)).delete()
    said = told(lab, caplog)
    assert "and 2 more" in said
    assert day(7) not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_S3_ALLOW_UNSAFE_RENAME", "true"),
        ("AWS_CONDITIONAL_PUT", "disabled"),
        ("aws_s3_allow_unsafe_rename", "1"),
        ("AWS_S3_ALLOW_UNSAFE_RENAME", "on"),
        ("AWS_S3_ALLOW_UNSAFE_RENAME", "Y"),
        ("ALLOW_UNSAFE_RENAME", "YES"),
    ],
)
def test_an_environment_in_which_writers_overwrite_each_other_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_connect.sinks.delta import DeltaSink

    monkeypatch.setenv(name, value)
    (problem,) = DeltaSink(path="s3://bucket/table").open(KEY, {}).preflight(SCHEMA, (), "day")
    assert name.upper() in problem
    assert "Unset it" in problem
