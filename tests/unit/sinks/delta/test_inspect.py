"""A look at a table changes nothing; what a sweep would delete is listed as the sweep then deletes it."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pytest

from tests.equipment.delta.lab import MAY, SCHEMA, Lab, files_of


def everything(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*")}


def test_a_table_that_is_missing_is_not_made(tmp_path: Path) -> None:
    assert Lab(tmp_path / "t").publisher.inspect(SCHEMA, (), "day") == []
    assert not list(tmp_path.iterdir())
    [problem] = Lab(tmp_path / "none" / "t").publisher.inspect(SCHEMA, (), "day") or ()
    assert "does not exist. Create it" in problem


def test_inspect_returns_the_problems_of_preflight_and_writes_no_file(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "t").make()
    before = everything(tmp_path)
    assert lab.publisher.inspect(SCHEMA, (), "day") == []
    changed = pa.schema([SCHEMA.field("event").with_type(pa.int64()), *list(SCHEMA)[1:]])
    said = lab.publisher.inspect(changed, (), "day")
    assert everything(tmp_path) == before
    assert said == lab.preflight(changed)
    assert said
    assert "event" in said[0]


def test_leftovers_are_the_files_that_a_sweep_deletes(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "t", sweep_after=dt.timedelta(hours=1)).make()
    lab.publish(MAY, ["a"])
    dead = lab.stage(MAY, ["b"], "t2")
    assert lab.publisher.leftovers() == []
    for path in (tmp_path / "t").rglob("*"):
        os.utime(path, (0, 0))
    listed, before = lab.publisher.leftovers() or [], files_of(tmp_path / "t")
    assert {*listed} > {file.path for file in dead.manifest.polled.files}
    assert lab.sweep() == len(listed)
    assert before - files_of(tmp_path / "t") == {*listed}
    assert lab.publisher.leftovers() == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path / "t")
    # Who runs tests may be root, whom no folder's mode stops.
    refused = {tmp_path}
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) not in refused)
    [problem] = lab.publisher.inspect(SCHEMA, (), "day") or ()
    assert f"{tmp_path} cannot be written by user" in problem
    refused = {lab.root}
    lab.make()
    [problem] = lab.publisher.inspect(SCHEMA, (), "day") or ()
    assert f"{lab.root} cannot be written by user" in problem


def test_soft_deletes_that_preflight_would_refuse_are_refused(tmp_path: Path) -> None:
    keyed = SCHEMA.append(pa.field("record_key", pa.string()))
    soft, hard = Lab(tmp_path / "t", deletes="soft"), Lab(tmp_path / "t")
    for schema, kind in ((SCHEMA, "snapshot"), (keyed, "day")):
        [problem] = soft.publisher.inspect(schema, (), kind) or ()
        assert "deletes='soft'" in problem
    assert not list(tmp_path.iterdir())
    hard.make(SCHEMA, "snapshot")
    hard.publish(MAY, ["a"], kind="snapshot")
    [problem] = soft.publisher.inspect(keyed, (), "snapshot") or ()
    assert "holds rows without record_key" in problem


def test_tables_of_a_template_are_looked_at_and_not_made(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lake" / "{event}")
    (tmp_path / "lake").mkdir()
    assert lab.publisher.inspect(SCHEMA, (), "day") == []
    assert not list((tmp_path / "lake").iterdir())
    [problem] = lab.publisher.inspect(pa.schema([SCHEMA.field("time")]), (), "day") or ()
    assert "has no column 'event'" in problem
    assert lab.preflight() == []
    before = everything(tmp_path)
    changed = pa.schema([*list(SCHEMA)[:1], pa.field("time", pa.int64())])
    said = lab.publisher.inspect(changed, (), "day")
    assert everything(tmp_path) == before
    assert said == lab.preflight(changed)
    assert said
