"""Snapshots into a Delta table: the newest alone, or one a day; and the way from one to the other."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_connect.errors import ConfigError, OvertakenError, SupersededError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._delta.commit import Commit
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import MAY, Lab, rows_of

SECOND, THIRD = MAY + ONE_DAY, MAY + 2 * ONE_DAY


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "profiles").make()


def put(lab: Lab, day: Any, rows: list[str], token: str) -> LedgerRow:
    return lab.publish(day, rows, token, kind="snapshot")


def daily(lab: Lab) -> Lab:
    return Lab(lab.root, snapshot="daily")


def test_one_commit_removes_the_earlier_snapshot_and_adds_the_next(lab: Lab) -> None:
    put(lab, MAY, ["a", "b"], "t1")
    before = lab.version
    put(lab, SECOND, ["b", "c"], "t2")
    assert lab.version == before + 1
    assert (rows_of(lab.root), rows_of(lab.root, SECOND)) == (["b", "c"], ["b", "c"])
    assert DeltaTable(str(lab.root), version=before).file_uris()[0].rpartition("/")[0].endswith(f"day={MAY}")


def test_days_are_replaced_one_by_one_even_if_snapshots_would_replace_the_whole(lab: Lab) -> None:
    lab.publish(MAY, ["a"], "t1")
    lab.publish(SECOND, ["b"], "t2")
    assert rows_of(lab.root) == ["a", "b"]
    assert lab.ledger.newest(MAY, "day").day == MAY


def test_daily_keeps_the_snapshot_of_each_day_beside_the_others(lab: Lab) -> None:
    kept = daily(lab)
    put(kept, SECOND, ["b"], "t2")
    assert kept.ledger.newest(MAY, "snapshot") is None
    put(kept, MAY, ["a"], "t1")
    assert (rows_of(lab.root, MAY), rows_of(lab.root, SECOND)) == (["a"], ["b"])


def test_a_history_by_day_is_not_deleted_by_another_setting(lab: Lab) -> None:
    for day, token in ((MAY, "t1"), (SECOND, "t2"), (THIRD, "t3")):
        put(daily(lab), day, [token], token)
    staged = lab.stage(THIRD, ["new"], "t4", kind="snapshot")
    before = lab.version
    (problem,) = lab.preflight(kind="snapshot")
    assert "holds rows of 2026-05-01, 2026-05-02 besides the newest snapshot (2026-05-03)" in problem
    assert "snapshot='daily'" in problem
    with pytest.raises(ConfigError, match="would delete them"):
        lab.commit(staged)
    assert (lab.version, rows_of(lab.root)) == (before, ["t1", "t2", "t3"])
    assert lab.preflight() == []
    assert daily(lab).preflight(kind="snapshot") == []

    DeltaTable(str(lab.root)).delete(f"day <> '{THIRD}'")
    assert lab.preflight(kind="snapshot") == []
    lab.commit(staged)
    assert rows_of(lab.root) == ["new"]


@pytest.mark.parametrize("day", [MAY, None])
def test_rows_that_the_stream_never_published_are_not_deleted(lab: Lab, day: Any) -> None:
    rows = pa.table({"event": ["x"], "day": pa.array([day], pa.date32())})
    write_deltalake(str(lab.root), rows, mode="append", schema_mode="merge")
    (problem,) = lab.preflight(kind="snapshot")
    assert f"holds rows {'of 2026-05-01' if day else 'without a day'} besides" in problem
    with pytest.raises(ConfigError, match="delete those rows by hand"):
        put(lab, SECOND, ["a"], "t1")
    assert len(DeltaTable(str(lab.root)).file_uris()) == 1


def test_replaced_days_are_no_foreign_change(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    put(lab, MAY, ["a", "b"], "t1")
    put(lab, SECOND, ["c"], "t2")
    for settings in (lab, daily(lab)):
        with caplog.at_level(logging.WARNING):
            assert settings.preflight(kind="snapshot") == []
    assert not caplog.records
    put(daily(lab), THIRD, ["d"], "t3")
    assert rows_of(lab.root) == ["c", "d"]
    DeltaTable(str(lab.root)).delete(f"day = '{SECOND}'")
    with caplog.at_level(logging.WARNING):
        daily(lab).preflight(kind="snapshot")
    assert "2026-05-02 (published 1 rows, now has 0)" in caplog.text


def test_the_newest_snapshot_is_known_when_the_log_was_cleaned_up(lab: Lab) -> None:
    put(lab, MAY, ["a", "b"], "t1")
    put(lab, SECOND, ["c"], "t2")
    put(lab, THIRD, [], "t3")
    lab.clean_log()
    newest = lab.ledger.newest(MAY, "snapshot")
    assert (newest.day, newest.generation, newest.rows) == (THIRD, 1, 0)
    assert lab.ledger.newest(SECOND, "day").rows == 1, "what it had, to compare with"
    with pytest.raises(SupersededError, match=r"a snapshot of 2026-05-03 is published already \(generation 1\)"):
        put(lab, SECOND, ["c"], "t4")
    assert lab.ledger.published(MAY, "t1").generation == 1
    assert put(lab, THIRD, ["d"], "t5").generation == 2
    assert rows_of(lab.root) == ["d"]


@pytest.mark.parametrize(("mine", "theirs", "error"), [(MAY, SECOND, SupersededError), (SECOND, MAY, OvertakenError)])
def test_the_first_two_snapshots_at_once_leave_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, mine: Any, theirs: Any, error: type[Exception]
) -> None:
    """They remove no file and add none of the same day: only a transaction of both tells that they are in a race."""
    staged = [lab.stage(day, [str(day)], f"t-{day}", kind="snapshot") for day in (mine, theirs)]
    commit = Commit._commit
    waiting = [staged[1]]

    def interrupted(self: Commit, *given: Any) -> None:
        if waiting:
            lab.commit(waiting.pop())
        commit(self, *given)

    monkeypatch.setattr(Commit, "_commit", interrupted)
    with pytest.raises(error):
        lab.commit(staged[0])
    assert rows_of(lab.root) == [str(theirs)]


@pytest.mark.parametrize(("kind", "day"), [("snapshot", SECOND), ("day", MAY)])
def test_a_compaction_during_a_publish_leaves_nothing_of_what_is_replaced(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, kind: Any, day: Any
) -> None:
    lab.publish(MAY, ["a", "b"], "t1", kind=kind)
    write_deltalake(str(lab.root), DeltaTable(str(lab.root)).to_pyarrow_table(), mode="append")
    commit, waiting = Commit._commit, [True]

    def interrupted(self: Commit, *given: Any) -> None:
        if waiting:
            waiting.pop()
            DeltaTable(str(lab.root)).optimize.compact()
        commit(self, *given)

    monkeypatch.setattr(Commit, "_commit", interrupted)
    lab.publish(day, ["c"], "t2", kind=kind)
    assert rows_of(lab.root) == ["c"]


def test_vacuum_takes_the_replaced_snapshot_and_a_sweep_nothing_that_is_shown(lab: Lab) -> None:
    old = lab.stage(MAY, ["a"], "t1", kind="snapshot")
    lab.commit(old)
    new = lab.stage(SECOND, ["b"], "t2", kind="snapshot")
    lab.commit(new)
    lab.sweep()
    assert (lab.there(old), lab.there(new)) == (True, True)
    DeltaTable(str(lab.root)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert (lab.there(old), lab.there(new)) == (False, True)
    assert lab.commit(old).generation == 1
    assert rows_of(lab.root) == ["b"]


def test_a_sink_says_that_it_replaces_either_way(lab: Lab) -> None:
    assert lab.sink.replaces("snapshot")
    assert daily(lab).sink.replaces("snapshot")
    assert not daily(lab).sink.replaces_whole("snapshot")
    assert not lab.sink.replaces_whole("day")
