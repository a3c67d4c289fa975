"""A power cut right after a day counts as published: what was not brought to the disk is gone or empty."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import Intent, Publish
from airflow_provider_connect.stage.manifest import Manifest, PollResult, attempt_folder, data_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.delta.lab import KEY, MAY, Lab, age, rows_of

SCHEMA = pa.schema([("event", pa.string())])

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")


class Disk:
    """Knows what was brought to the disk under a folder, and can lose all else."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.files: dict[Path, bytes] = {}
        self.names: dict[Path, set[str]] = {}
        fsync = os.fsync

        def remembered(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            if path.is_dir():
                self.names[path] = {entry.name for entry in path.iterdir()}
            else:
                self.files[path] = path.read_bytes()
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", remembered)

    def lose_power(self) -> None:
        """Leave what the disk has: names that their folder's sync saw, and bytes that the file's own sync saw."""
        for path in sorted(self.root.rglob("*"), reverse=True):
            named = all(child.name in self.names.get(child.parent, ()) for child in self._down_to(path))
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
            elif path.is_file() and not named:
                path.unlink()
            elif path.is_file():
                path.write_bytes(self.files.get(path, b""))

    def _down_to(self, path: Path) -> list[Path]:
        return [path, *(parent for parent in path.parents if parent.is_relative_to(self.root))]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path / "table", monkeypatch)


class KilledError(BaseException):
    """A process ends here, and nothing of it runs any more."""


def die_before_sync(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a process work that is killed before it brings anything to the disk."""

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "sync", killed)
        with pytest.raises(KilledError):
            work()


def staged(lab: Lab, rows: list[str], token: str, date: dt.date = MAY) -> Publish:
    """Freeze a day as executors and driver do."""
    day, attempt, folder = Day(date=date), f"{token}-{date}", Folder(str(lab.root))
    with RowWriter(folder, data_file(day, attempt, 0, "0"), SCHEMA) as writer:
        writer.write(pa.record_batch([pa.array(rows)], schema=SCHEMA))
    assert writer.file is not None
    polled = PollResult(files=(writer.file,), rows_read=len(rows), rows_written=len(rows))
    seen = seen_publish(lab.ledger.newest(date, "day"))
    manifest = Manifest(day=day, attempt=attempt, fingerprint="f", polled=polled, seen=seen)
    manifest_name = f"{attempt_folder(attempt)}/manifest.json"
    folder.write(manifest_name, manifest.model_dump_json().encode(), durable=True)
    intent = Intent(token=token, run="r")
    return Publish(key=KEY, day=day, intent=intent, manifest=manifest, schema=SCHEMA, stage=str(lab.root))


def test_a_published_day_is_whole_after_a_power_cut(tmp_path: Path, disk: Disk) -> None:
    lab = Lab(disk.root).make(SCHEMA)
    lab.commit(staged(lab, ["a"], "t1"))
    lab.commit(staged(lab, ["b", "c"], "t2"))
    disk.lose_power()
    assert rows_of(lab.root) == ["b", "c"]
    assert lab.ledger.row(MAY).generation == 2
    assert lab.ledger.published(MAY, "t1").rows == 1
    assert lab.preflight(SCHEMA) == []


def test_a_frozen_day_and_its_manifest_survive_a_power_cut_and_are_published(disk: Disk) -> None:
    lab = Lab(disk.root).make(SCHEMA)
    frozen = staged(lab, ["a"], "t1")
    disk.lose_power()
    found = (lab.root / attempt_folder(frozen.manifest.attempt) / "manifest.json").read_text()
    assert Manifest.model_validate_json(found) == frozen.manifest
    assert lab.commit(frozen).rows == 1
    assert rows_of(lab.root) == ["a"]


def test_a_checkpoint_that_a_publish_made_survives_it_too(disk: Disk) -> None:
    lab = Lab(disk.root).make(SCHEMA)
    DeltaTable(str(lab.root)).alter.set_table_properties({"delta.checkpointInterval": "2"})
    lab.commit(staged(lab, ["a"], "t1"))
    assert list((lab.root / "_delta_log").glob("*.checkpoint.parquet"))
    disk.lose_power()
    assert rows_of(lab.root) == ["a"]


def test_a_day_above_the_commit_of_a_killed_process_survives_it(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(disk.root).make(SCHEMA)
    first = staged(lab, ["a"], "t1")
    die_before_sync(lambda: lab.commit(first), monkeypatch)
    lab.commit(staged(lab, ["b"], "t2", MAY + ONE_DAY))
    disk.lose_power()
    assert rows_of(lab.root) == ["a", "b"]
    assert list(lab.ledger.days()) == [MAY, MAY + ONE_DAY]


@pytest.mark.parametrize("asked", ["published", "preflight", "commit"])
def test_a_day_that_a_retry_finds_published_survives_it(
    disk: Disk, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(disk.root).make(SCHEMA)
    publish = staged(lab, ["a"], "t1")
    die_before_sync(lambda: lab.commit(publish), monkeypatch)
    if asked == "published":
        assert lab.ledger.published(MAY, "t1").rows == 1
    elif asked == "preflight":
        assert lab.preflight(SCHEMA) == []
    else:
        assert lab.commit(publish).rows == 1
    disk.lose_power()
    assert rows_of(lab.root) == ["a"]
    assert lab.ledger.published(MAY, "t1").rows == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_swept_record_survives_a_power_cut(disk: Disk, monkeypatch: pytest.MonkeyPatch, *, killed: bool) -> None:
    lab = Lab(disk.root).make(SCHEMA)
    dead = staged(lab, ["dead"], "t1")
    age(lab.root)
    if killed:
        die_before_sync(lab.sweep, monkeypatch)
        assert lab.there(dead), "nothing is deleted on the word of a commit that a power cut may take"
    assert lab.sweep() > 0
    disk.lose_power()
    with pytest.raises(RetriableError, match="sweep found it dead"):
        lab.commit(dead)


def test_a_checkpoint_without_a_hint_that_readers_start_from_survives_it(disk: Disk) -> None:
    lab = Lab(disk.root).make(SCHEMA)
    lab.commit(staged(lab, ["a"], "t1"))
    lab.clean_log()
    (lab.root / "_delta_log" / "_last_checkpoint").unlink()
    lab.commit(staged(lab, ["b"], "t2", MAY + ONE_DAY))
    disk.lose_power()
    assert rows_of(lab.root) == ["a", "b"]


def test_a_commit_of_which_a_power_cut_left_the_name_alone_is_published_by_its_retry(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(disk.root).make(SCHEMA)
    lab.commit(staged(lab, ["a"], "t1"))
    lost = staged(lab, ["b"], "t2", MAY + ONE_DAY)
    die_before_sync(lambda: lab.commit(lost), monkeypatch)
    Folder(str(lab.root)).sync(["_delta_log/another"])  # the folder is, by another process, at just this instant
    disk.lose_power()
    assert (lab.root / "_delta_log" / f"{2:020}.json").read_bytes() == b""
    assert list(lab.ledger.days()) == [MAY]
    assert lab.preflight(SCHEMA) == []
    assert lab.commit(lost).generation == 1
    assert rows_of(lab.root) == ["a", "b"]


def test_commits_that_are_noted_are_not_brought_to_the_disk_again(disk: Disk) -> None:
    lab = Lab(disk.root).make(SCHEMA)
    lab.commit(staged(lab, ["a"], "t1"))
    disk.files.clear()
    assert lab.ledger.published(MAY, "t1").rows == 1
    assert lab.preflight(SCHEMA) == []
    assert disk.files == {}


@pytest.mark.parametrize("lost", ["data", "log"])
def test_this_disk_loses_what_is_not_synced(disk: Disk, lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests above can fail."""
    lab = Lab(disk.root).make(SCHEMA)
    sync: Callable[[Folder, list[str]], None] = Folder.sync
    skipped = {"data": "day=", "log": "_delta_log"}[lost]

    def partial(folder: Folder, names: list[str]) -> None:
        sync(folder, [name for name in names if not name.startswith(skipped)])

    monkeypatch.setattr(Folder, "sync", partial)
    lab.commit(staged(lab, ["a"], "t1"))
    disk.lose_power()
    try:
        found = rows_of(lab.root)
    except (OSError, pa.ArrowInvalid):
        found = []
    assert found == []
