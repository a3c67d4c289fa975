"""Merges that meet, die or lose an answer: the table is whole, and one merge follows the other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConfigError, OvertakenError, RetriableError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._delta.merge import commit as merge_commit
from airflow_provider_connect.sinks._delta.merge import tombstones
from airflow_provider_connect.sinks._delta.merge.commit import MergeCommit
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.storage import Folder
from tests.equipment.delta.lab import age
from tests.equipment.delta.merging import DAYS, MergeLab


class KilledError(BaseException):
    """The process is dead: nothing catches this."""


@pytest.fixture
def lab(tmp_path: Path) -> MergeLab:
    lab = MergeLab(tmp_path / "t", delete_where="gone").made()
    lab.put(DAYS[0], [(i, "a") for i in range(10)])
    return lab


def data_files(lab: MergeLab) -> set[str]:
    return {str(path) for path in lab.root.rglob("*.parquet") if "_delta_log" not in str(path)}


def live_files(lab: MergeLab) -> set[str]:
    return {path.removeprefix("file://") for path in DeltaTable(str(lab.root)).file_uris()}


def between(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Do something once between the writing of a merge's files and its commit."""
    whole = MergeCommit._commit_merge
    pending = [act]

    def commit(self: MergeCommit, *given: Any) -> bool:
        if pending:
            pending.pop()()
        return whole(self, *given)

    monkeypatch.setattr(MergeCommit, "_commit_merge", commit)


def test_of_two_merges_of_different_days_one_follows_the_other(lab: MergeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    first = lab.stage_rows(DAYS[1], [(1, "b"), (2, "b", None, True), (20, "b")])
    second = lab.stage_rows(DAYS[2], [(1, "c"), (2, "c"), (3, "c", None, True), (30, "c")])
    between(monkeypatch, lambda: lab.commit(second))
    assert lab.commit(first).rows == 1
    expected = dict.fromkeys(range(10), "a") | {1: "c", 2: "c", 20: "b", 30: "c"}
    expected.pop(3)
    assert dict(lab.shown()) == expected
    lab.put(DAYS[0], [(2, "old"), (3, "old")], "again")
    assert dict(lab.shown()) == expected, "both days' tombstones are there"


def test_of_two_merges_that_add_the_same_key_the_second_sees_the_first(
    lab: MergeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = lab.stage_rows(DAYS[1], [(50, "b")]), lab.stage_rows(DAYS[2], [(50, "c")])
    between(monkeypatch, lambda: lab.commit(second))
    assert lab.commit(first).rows == 0
    assert lab.shown()[-1] == (50, "c")


def test_of_two_merges_of_one_day_the_second_is_overtaken(lab: MergeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lab.stage_rows(DAYS[1], [(1, "b")], "one"), lab.stage_rows(DAYS[1], [(1, "c")], "two")
    between(monkeypatch, lambda: lab.commit(second))
    with pytest.raises(OvertakenError):
        lab.commit(first)
    assert lab.shown()[1] == (1, "c")


def test_seven_days_at_once_end_as_if_one_followed_the_other(lab: MergeLab) -> None:
    days = [DAYS[0].replace(day=1 + number) for number in range(8)]
    publishes = [
        lab.stage_rows(day, [(1, str(day)), (100 + day.day, "own"), (3, "x", None, day.day == 5)], f"n{day}")
        for day in days[1:]
    ]
    barrier = threading.Barrier(len(publishes))

    def commit(publish: Any) -> LedgerRow:
        barrier.wait(60)
        return lab.commit(publish)

    with ThreadPoolExecutor(len(publishes)) as pool:
        rows = list(pool.map(commit, publishes))
    assert [row.generation for row in rows] == [1] * len(publishes)
    shown = dict(lab.shown())
    assert (shown[1], shown[3]) == (str(days[-1]), "x")
    assert {key for key in shown if key > 100} == {100 + day.day for day in days[1:]}
    assert len(shown) == 10 + len(publishes)


def test_files_of_a_lost_race_are_deleted(lab: MergeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lab.stage_rows(DAYS[1], [(1, "b")]), lab.stage_rows(DAYS[2], [(2, "c")])
    between(monkeypatch, lambda: lab.commit(second))
    before = data_files(lab)
    lab.commit(first)
    staged = {str(lab.root / file.path) for publish in (first, second) for file in publish.manifest.polled.files}
    assert data_files(lab) - before <= live_files(lab) | older_files(lab)
    assert not data_files(lab) & staged


def older_files(lab: MergeLab) -> set[str]:
    """Return the files of all versions, which time travel needs until a vacuum."""
    versions = range(lab.version + 1)
    return {uri for version in versions for uri in DeltaTable(str(lab.root), version=version).file_uris()}


@pytest.mark.parametrize("step", ["added rows", "rewritten", "tombstones", "commit", "flush"])
def test_a_kill_leaves_the_table_whole_and_the_retry_completes_it(
    lab: MergeLab, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    publish = lab.stage_rows(DAYS[1], [(1, "b"), (2, "b", None, True), (20, "b")])

    def die(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as killed:
        if step in ("added rows", "rewritten"):
            killed.setattr(RowWriter, "__exit__", die)
        if step == "rewritten":
            killed.setattr(merge_commit.MergedFiles, "write_added", lambda *_: None)
        if step == "tombstones":
            killed.setattr(tombstones.TombstoneWriter, "write", die)
        if step == "commit":
            killed.setattr(MergeCommit, "_commit_merge", die)
        if step == "flush":
            killed.setattr("airflow_provider_connect.sinks._delta.commit.flush_log", die)
        killed.setattr(Folder, "delete", die)
        with pytest.raises(KilledError):
            lab.commit(publish)
    old = [(i, "a") for i in range(10)]
    new = [(0, "a"), (1, "b"), *old[3:], (20, "b")]
    assert lab.shown() == (new if step == "flush" else old)
    assert lab.commit(publish).generation == 1
    assert lab.shown() == new
    age(lab.root)
    lab.sweep()
    assert lab.shown() == new
    assert data_files(lab) - older_files(lab) == {str(path) for path in lab.root.glob("_connect/tombstones/*")}
    assert len(list(lab.root.glob("_connect/tombstones/*"))) == 1
    lab.put(DAYS[0], [(2, "old")], "again")
    assert lab.shown() == new


def test_a_dead_merge_is_swept_and_can_publish_no_more(lab: MergeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = lab.stage_rows(DAYS[1], [(1, "b"), (2, "b", None, True)])
    before = data_files(lab) - {str(lab.root / file.path) for file in publish.manifest.polled.files}

    def sweep() -> None:
        age(lab.root)
        leftovers = lab.publisher.leftovers()
        lab.sweep()
        assert len([name for name in leftovers if name.endswith(".parquet")]) >= 3
        assert data_files(lab) == before

    between(monkeypatch, sweep)
    with pytest.raises(RetriableError, match="a sweep found it dead"):
        lab.commit(publish)
    assert lab.shown() == [(i, "a") for i in range(10)]


def test_older_versions_stay_readable_past_a_sweep(lab: MergeLab) -> None:
    for number in range(1, 4):
        lab.put(DAYS[number], [(number, "b"), (9, str(number))])
    age(lab.root)
    lab.sweep()
    assert older_files(lab) <= data_files(lab)


def test_replaced_tombstones_are_swept_and_lost_ones_stop_the_merge(lab: MergeLab) -> None:
    for number in range(1, 4):
        lab.put(DAYS[number], [(number, "b", None, True)])
    files = list(lab.root.glob("_connect/tombstones/*"))
    assert len(files) == 3
    assert len(lab.publisher.leftovers()) == 2
    lab.sweep()
    (file,) = lab.root.glob("_connect/tombstones/*")
    file.unlink()
    before = lab.version
    with pytest.raises(ConfigError, match=r"names the tombstones .* which are gone. Restore the file"):
        lab.put(DAYS[5], [(1, "c")])
    assert lab.version == before


def test_a_merge_whose_tombstones_were_just_replaced_decides_again(
    lab: MergeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.put(DAYS[1], [(1, "b", None, True)])
    publish, find = lab.stage_rows(DAYS[3], [(1, "c"), (4, "c")]), tombstones.tombstones_file
    pending = [True]

    def replaced(view: Any) -> str | None:
        if pending:
            pending.pop()
            lab.put(DAYS[2], [(2, "b", None, True)])
            lab.sweep()
        return find(view)

    monkeypatch.setattr(merge_commit, "tombstones_file", replaced)
    assert lab.commit(publish).generation == 1
    assert lab.shown() == [(0, "a"), (1, "c"), (3, "a"), (4, "c"), *((i, "a") for i in range(5, 10))]


def test_an_older_answer_of_the_same_day_is_refused(lab: MergeLab) -> None:
    stale = lab.stage_rows(DAYS[1], [(1, "stale")], "stale")
    lab.put(DAYS[1], [(1, "new")], "new")
    with pytest.raises(OvertakenError):
        lab.commit(stale)
    assert lab.shown()[1] == (1, "new")


def test_a_file_that_was_just_cleaned_up_ends_the_try_as_retriable(lab: MergeLab) -> None:
    before = lab.version
    (file,) = live_files(lab)
    content = Path(file).read_bytes()
    Path(file).unlink()
    publish = lab.stage_rows(DAYS[1], [(1, "b")])
    with pytest.raises(RetriableError, match="a file that its log names is gone"):
        lab.commit(publish)
    assert lab.version == before
    Path(file).write_bytes(content)
    assert lab.commit(publish).rows == 1
