"""A look at a table changes nothing; what a sweep would delete is listed as the sweep then deletes it."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa

from tests.equipment.delta.lab import MAY, SCHEMA, Lab


def everything(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*")}


def test_a_table_that_is_missing_is_not_made(tmp_path: Path) -> None:
    assert Lab(tmp_path / "t").publisher.inspect(SCHEMA, (), "day") == []
    assert not list(tmp_path.iterdir())
    [problem] = Lab(tmp_path / "none" / "t").publisher.inspect(SCHEMA, (), "day") or ()
    assert "does not exist: make it" in problem


def test_what_preflight_would_refuse_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "t").make()
    before = everything(tmp_path)
    assert lab.publisher.inspect(SCHEMA, (), "day") == []
    changed = pa.schema([SCHEMA.field("event").with_type(pa.int64()), *list(SCHEMA)[1:]])
    said = lab.publisher.inspect(changed, (), "day")
    assert everything(tmp_path) == before
    assert said == lab.preflight(changed)
    assert said
    assert "event" in said[0]


def test_leftovers_are_the_data_files_that_a_sweep_deletes(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "t", sweep_after=dt.timedelta(hours=1)).make()
    lab.publish(MAY, ["a"])
    dead = lab.stage(MAY, ["b"], "t2")
    assert lab.publisher.leftovers() == []
    for path in (tmp_path / "t").rglob("*"):
        os.utime(path, (0, 0))
    listed = lab.publisher.leftovers() or []
    files = {name for name in listed if not name.endswith("/")}
    assert files == {file.path for file in dead.manifest.polled.files}
    before = {str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("*.parquet")}
    lab.sweep()
    after = {str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("*.parquet")}
    assert {name for name in before - after if not name.startswith("_")} == files
    assert lab.publisher.leftovers() == []
