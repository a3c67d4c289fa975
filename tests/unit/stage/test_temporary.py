"""A stage that its sink does not keep."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.manifest import Manifest, PollResult, StagedFile, attempt_folder, data_file
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import (
    delete_staged_day,
    describe_polled_copies,
    describe_staged_copies,
    local_stage,
    local_stage_path,
    polled_root,
    sweep_stage,
)
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 10, 5))
NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def attempt(folder: Folder, name: str, age: dt.timedelta = dt.timedelta()) -> Manifest:
    path, control = data_file(DAY, name, 0, "0"), attempt_folder(name)
    for each in (path, f"{control}/rejects-00000.parquet", f"{control}/manifest.json"):
        folder.write(each, b"x")
        when = (NOW - age).timestamp()
        os.utime(folder.path_in_filesystem(each), (when, when))
    polled = PollResult(files=(StagedFile(path=path, rows=1, size_bytes=1),))
    return Manifest(day=DAY, attempt=name, fingerprint="f", polled=polled)


def names(folder: Folder) -> set[str]:
    return {file.name for file in folder.files()}


def test_every_try_finds_the_same_folder_and_nobody_else_enters_it(temp: Path) -> None:
    first = local_stage("mixpanel/a.export bigquery://p.d.t")
    assert first == local_stage("mixpanel/a.export bigquery://p.d.t")
    assert first != local_stage("mixpanel/b.export bigquery://p.d.t")
    for folder in (Path(first), Path(first).parent):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("trap", ["parent", "folder", "dangling link"])
def test_a_foreign_file_where_a_stage_should_be_is_named_with_the_ways_out(temp: Path, trap: str) -> None:
    folder = local_stage_path("any")
    place = folder if trap == "folder" else folder.parent
    place.parent.mkdir(mode=0o700, exist_ok=True)
    if trap == "dangling link":
        place.symlink_to(temp / "nowhere")
    else:
        place.write_text("mine")
    with pytest.raises(ConfigError, match=r"connect-stage-.* must be a folder .*remove it, or set staging="):
        local_stage("any")
    assert place.is_symlink() or place.read_text() == "mine"


@pytest.mark.parametrize("trap", ["open", "link"])
def test_a_folder_that_others_could_have_made_is_refused(temp: Path, trap: str) -> None:
    parent = temp / f"connect-stage-{os.getuid()}"
    if trap == "open":
        parent.mkdir()
        parent.chmod(0o777)
    else:
        (temp / "elsewhere").mkdir(mode=0o700)
        parent.symlink_to(temp / "elsewhere")
    with pytest.raises(ConfigError, match="staging="):
        local_stage("any")


def test_only_the_published_days_staged_files_are_deleted(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    published = attempt(folder, "aaaa-1-20261005")
    attempt(folder, "bbbb-1-20261005")
    others = {name for name in names(folder) if "bbbb" in name}
    delete_staged_day(folder, published)
    assert names(folder) == others
    delete_staged_day(folder, published)


def test_a_sweep_deletes_what_is_silent_and_spares_what_is_alive_or_foreign(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    attempt(folder, "dead-1-20261005", dt.timedelta(days=2))
    attempt(folder, "late-1-20261005", dt.timedelta(days=2))
    folder.write(f"{attempt_folder('late-1-20261005')}/progress-00000.json", b"{}")
    attempt(folder, "live-1-20261005")
    folder.write("somebody/elses.parquet", b"x")
    alive = {name for name in names(folder) if "dead" not in name}
    assert sweep_stage(folder, NOW - dt.timedelta(days=1)) == 3
    assert names(folder) == alive


def test_a_sweep_deletes_what_was_dealt_out_to_tables(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    attempt(folder, "dead", age=dt.timedelta(days=2))
    for name in ("dead", "alive"):
        folder.write(f"sign-up/{data_file(DAY, name, 0, '1')}", b"x")
    os.utime(tmp_path / "sign-up" / data_file(DAY, "dead", 0, "1"), (0, 0))
    assert sweep_stage(folder, NOW - dt.timedelta(days=1)) == 4
    assert names(folder) == {f"sign-up/{data_file(DAY, 'alive', 0, '1')}"}


def test_a_link_among_the_attempts_leads_a_sweep_to_no_file_of_others(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "manifest.json").write_text("theirs")
    (tmp_path / "others" / "evil-1-20261005-00000-0.parquet").write_text("theirs")
    folder = Folder(str(tmp_path / "stage"))
    attempt(folder, "dead-1-20261005", dt.timedelta(days=2))
    (tmp_path / "stage" / "_connect" / "attempts" / "evil-1-20261005").symlink_to(tmp_path / "others")
    (tmp_path / "stage" / "day=2026-10-06").symlink_to(tmp_path / "others")
    for path in (tmp_path / "others").iterdir():
        os.utime(path, ((NOW - dt.timedelta(days=2)).timestamp(),) * 2)
    sweep_stage(folder, NOW - dt.timedelta(days=1))
    assert len(list((tmp_path / "others").iterdir())) == 2
    assert not [name for name in names(folder) if "dead" in name]


def test_unpublished_days_and_days_of_a_transform_are_described(tmp_path: Path) -> None:
    """Also those that may still live: an erase says where its people's rows may be."""
    folder = Folder(str(tmp_path))
    assert describe_staged_copies(folder) == []
    folder.write("somebody/elses.parquet", b"x")
    assert describe_staged_copies(folder) == []
    attempt(folder, "live-1-20261005")
    attempt(polled_root(folder), "live-2-20261005")
    staged, polled = describe_staged_copies(folder)
    assert staged.startswith("unpublished staged days (3 files under")
    assert polled.startswith("days polled for a transform (3 files under")
    assert describe_polled_copies(folder) == [polled]
