"""Erasing from a merged Delta table: by a column of the key alone, from rows and from tombstones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.sinks._delta.merge import eraser
from airflow_provider_connect.sinks._delta.merge.eraser import MergedDayRewrite, MergeEraser
from airflow_provider_connect.sinks._delta.merge.tombstones import tombstones_file
from tests.equipment.delta.lab import age
from tests.equipment.delta.merging import DAYS, MergeLab


@pytest.fixture
def lab(tmp_path: Path) -> MergeLab:
    lab = MergeLab(tmp_path / "t", delete_where="gone").made()
    lab.put(DAYS[0], [(1, "a"), (2, "a"), (3, "a")])
    lab.put(DAYS[1], [(2, "b"), (4, "b"), (5, "b", None, True), (6, "b", None, True)])
    return lab


def tombstone_ids(lab: MergeLab) -> list[int]:
    return [i for path in lab.root.glob("_connect/tombstones/*") for i in pq.read_table(path)["id"].to_pylist()]


def test_rows_and_tombstones_of_all_days_are_erased(lab: MergeLab) -> None:
    assert lab.publisher.find("id", ["2", "3", "5"]) == {DAYS[0]: 1, DAYS[1]: 1}
    erasure = lab.publisher.erase("id", ["2", "3", "5"], "day")
    assert erasure.rows == {DAYS[0]: 1, DAYS[1]: 1}
    assert lab.shown() == [(1, "a"), (4, "b")]
    assert tombstone_ids(lab) == [6]
    assert [row.rows for row in lab.ledger.between(DAYS[0], DAYS[1])] == [1, 1]
    assert lab.publisher.erase("id", ["2"], "day").rows == {}
    lab.put(DAYS[2], [(1, "c")])
    lab.put(DAYS[0], [(6, "old")], "again")
    assert lab.shown() == [(1, "c"), (4, "b")]


def test_the_last_tombstones_may_be_erased(lab: MergeLab) -> None:
    lab.publisher.erase("id", ["5", "6"], "day")
    assert tombstone_ids(lab) == []
    lab.put(DAYS[2], [(4, "c", None, True)])
    assert lab.shown() == [(1, "a"), (2, "b"), (3, "a")]
    assert tombstone_ids(lab) == [4]


def test_another_column_is_refused_before_anything_changes(lab: MergeLab) -> None:
    before = lab.version
    for action in (lambda: lab.publisher.erase("value", ["a"], "day"), lambda: lab.publisher.find("value", ["a"])):
        with pytest.raises(ConfigError, match=r"by column 'value', which is not in the key"):
            action()
    assert (lab.version, lab.ledger.erased().version) == (before, 0)


def test_a_day_polled_before_an_erase_is_not_merged_after_it(lab: MergeLab) -> None:
    publish = lab.stage_rows(DAYS[2], [(2, "c"), (7, "c")])
    lab.publisher.erase("id", ["2"], "day")
    with pytest.raises(OvertakenError, match="rows were erased"):
        lab.commit(publish)
    assert lab.shown() == [(1, "a"), (3, "a"), (4, "b")]


def test_a_merge_during_an_erase_is_not_undone(lab: MergeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, pending = MergedDayRewrite._publish, [True]

    def merged_meanwhile(self: MergedDayRewrite, *given: Any) -> Any:
        if pending:
            pending.pop()
            lab.put(DAYS[2], [(1, "c"), (4, "c")])
        return commit(self, *given)

    monkeypatch.setattr(MergedDayRewrite, "_publish", merged_meanwhile)
    assert lab.publisher.erase("id", ["2", "3"], "day").rows == {DAYS[0]: 1, DAYS[1]: 1}
    assert lab.shown("id", "value", "day") == [(1, "c", DAYS[2]), (4, "c", DAYS[2])]


def test_a_killed_erase_is_completed_by_the_next(lab: MergeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(self: MergeEraser) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(MergeEraser, "_erase_tombstones", die)
        with pytest.raises(KeyboardInterrupt):
            lab.publisher.erase("id", ["2", "5"], "day")
    assert sorted(tombstone_ids(lab)) == [5, 6]
    lab.publisher.erase("id", ["2", "5"], "day")
    assert tombstone_ids(lab) == [6]


def test_an_erase_of_a_merged_snapshot_leaves_the_rows_of_other_days(tmp_path: Path) -> None:
    lab = MergeLab(tmp_path / "t", newest_by="version").made("snapshot")
    lab.put(DAYS[0], [(1, "a", 5.0), (2, "a", 1.0), (3, "a", 5.0)], kind="snapshot")
    assert lab.put(DAYS[1], [(1, "b", 4.0), (2, "b", 2.0), (3, "b", 4.0)], kind="snapshot").rows == 3
    assert lab.shown("id", "value", "day") == [(1, "a", DAYS[0]), (2, "b", DAYS[1]), (3, "a", DAYS[0])]
    assert lab.publisher.erase("id", ["1"], "snapshot").rows == {DAYS[0]: 1}
    assert lab.shown() == [(2, "b"), (3, "a")]
    assert lab.publisher.erase("id", ["2"], "snapshot").rows == {DAYS[1]: 1}
    assert lab.shown() == [(3, "a")]
    assert lab.ledger.newest(DAYS[1], "snapshot").rows == 1
    lab.put(DAYS[2], [(3, "c", 6.0)], kind="snapshot")
    assert lab.shown() == [(3, "c")]


def test_an_erase_that_loses_a_race_leaves_no_file_of_tombstones(
    lab: MergeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, pending = eraser.commit, [True]

    def commit(*given: Any, **named: Any) -> None:
        if pending and pending.pop():
            lab.put(DAYS[2], [(9, "c", None, True)])
        whole(*given, **named)

    monkeypatch.setattr(eraser, "commit", commit)
    lab.publisher.erase("id", ["5"], "day")
    named = tombstones_file(lab.ledger.view())
    assert sorted(tombstone_ids(lab)) == [5, 6, 6, 9], "the file that the other merge replaced is left to a sweep"
    age(lab.root)
    lab.sweep()
    assert [str(path.relative_to(lab.root)) for path in lab.root.glob("_connect/tombstones/*")] == [named]
    assert sorted(tombstone_ids(lab)) == [6, 9]


def test_a_sweep_deletes_the_tombstones_of_a_killed_erase(lab: MergeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as killed:
        killed.setattr(eraser, "commit", die)
        with pytest.raises(KilledError):
            lab.publisher.erase("id", ["5"], "day")
    assert sorted(tombstone_ids(lab)) == [5, 6, 6]
    age(lab.root)
    lab.sweep()
    assert sorted(tombstone_ids(lab)) == [5, 6]
    lab.publisher.erase("id", ["5"], "day")
    assert tombstone_ids(lab) == [6]


class KilledError(BaseException):
    """The process is dead: nothing catches this."""
