"""Soft deletes in a Delta table: what a snapshot no longer has stays, marked, and nobody counts it as a row."""

from __future__ import annotations

import datetime as dt
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConfigError, DataError, OvertakenError, SupersededError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._delta.commit import Commit
from airflow_provider_connect.sinks._delta.eraser import DeltaEraser
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage import missing_rows
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import MAY, SCHEMA, Lab, age

DAYS = [MAY + number * ONE_DAY for number in range(9)]
KEYED = SCHEMA.append(pa.field("record_key", pa.string(), nullable=False))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "users", deletes="soft").make(KEYED, "snapshot")


def polled(day: dt.date, hour: int = 1) -> dt.datetime:
    return dt.datetime.combine(day + ONE_DAY, dt.time(hour), tzinfo=dt.UTC)


def stage(lab: Lab, day: dt.date, rows: list[str], token: str = "", **more: Any) -> Publish:
    more = {"schema": KEYED, "kind": "snapshot", "polled_at": polled(day)} | more
    return lab.stage(day, rows, token or f"t{day}", **more)


def put(lab: Lab, day: dt.date, rows: list[str], token: str = "", **more: Any) -> LedgerRow:
    return lab.commit(stage(lab, day, rows, token, **more))


def live(lab: Lab) -> list[str]:
    return sorted(event for event, at in shown(lab) if at is None)


def deleted(lab: Lab) -> list[tuple[str, dt.datetime]]:
    return sorted(row for row in shown(lab) if row[1] is not None)


def shown(lab: Lab) -> list[tuple[str, Any]]:
    """Read every row of the table with when it was deleted; each must say so in both columns."""
    table = DeltaTable(str(lab.root)).to_pyarrow_table(columns=["event", "__deleted", "__deleted_at"])
    rows = table.to_pylist()
    assert all(row["__deleted"] is (row["__deleted_at"] is not None) for row in rows)
    return [(row["event"], row["__deleted_at"]) for row in rows]


def test_a_row_through_insert_update_delete_and_back(lab: Lab) -> None:
    put(lab, DAYS[0], ["a=1", "b=1"])
    assert (live(lab), deleted(lab)) == (["a=1", "b=1"], [])
    assert put(lab, DAYS[1], ["a=2", "b=1", "c=1"]).counts["soft_deleted"] == 0
    assert (live(lab), deleted(lab)) == (["a=2", "b=1", "c=1"], [])
    row = put(lab, DAYS[2], ["c=1"])
    assert (row.rows, row.counts["soft_deleted"], row.counts["soft_deleted_in_all"]) == (1, 2, 2)
    assert (live(lab), deleted(lab)) == (["c=1"], [("a=2", polled(DAYS[2])), ("b=1", polled(DAYS[2]))])
    row = put(lab, DAYS[3], ["a=3"])
    assert (row.counts["soft_deleted"], row.counts["restored"], row.counts["soft_deleted_in_all"]) == (1, 1, 2)
    assert (live(lab), deleted(lab)) == (["a=3"], [("b=1", polled(DAYS[2])), ("c=1", polled(DAYS[3]))])
    put(lab, DAYS[4], ["a=3", "c=2"])
    put(lab, DAYS[5], ["c=2"])
    assert (live(lab), deleted(lab)) == (["c=2"], [("a=3", polled(DAYS[5])), ("b=1", polled(DAYS[2]))])
    assert lab.ledger.row(DAYS[5]).rows == lab.ledger.newest(MAY, "snapshot").rows == 1


def test_a_soft_delete_is_one_commit_and_its_retry_changes_nothing(lab: Lab) -> None:
    put(lab, DAYS[0], ["a", "b"])
    before = lab.version
    publish = stage(lab, DAYS[1], ["b"])
    row = lab.commit(publish)
    assert lab.version == before + 1
    put(lab, DAYS[2], ["b", "c"])
    before, there = lab.version, sorted(lab.root.rglob("*.parquet"))
    assert lab.commit(publish).generation == row.generation
    assert (lab.version, sorted(lab.root.rglob("*.parquet"))) == (before, there)


def test_the_time_is_that_of_the_answer_whichever_try_commits_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    put(lab, DAYS[0], ["a", "b"])
    publish, commit = stage(lab, DAYS[1], ["b"]), Commit._commit

    def killed(self: Commit, *given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Commit, "_commit", killed)
    with pytest.raises(KeyboardInterrupt):
        lab.commit(publish)
    assert (live(lab), deleted(lab)) == (["a", "b"], [])
    monkeypatch.setattr(Commit, "_commit", commit)
    lab.commit(publish)
    assert (live(lab), deleted(lab)) == (["b"], [("a", polled(DAYS[1]))])


def test_an_older_snapshot_brings_nothing_back(lab: Lab) -> None:
    late = stage(lab, DAYS[1], ["a", "b", "late"], "late")
    put(lab, DAYS[0], ["a", "b"])
    put(lab, DAYS[2], ["b"])
    before = lab.version
    for publish in (late, stage(lab, DAYS[0], ["a", "b"], "again")):
        with pytest.raises(SupersededError):
            lab.commit(publish)
    assert (lab.version, live(lab), deleted(lab)) == (before, ["b"], [("a", polled(DAYS[2]))])


def test_a_reload_compares_with_what_it_replaces(lab: Lab) -> None:
    put(lab, DAYS[0], ["a", "b"])
    put(lab, DAYS[1], ["b", "c"])
    publish = stage(lab, DAYS[1], ["a", "b"], "again", polled_at=polled(DAYS[1], 9))
    found = lab.publisher.differences(publish)
    assert found is not None
    assert found.model_dump() == {"added": 1, "changed": 0, "vanished": 1}
    row = lab.commit(publish)
    assert (row.generation, row.rows) == (2, 2)
    assert (live(lab), deleted(lab)) == (["a", "b"], [("c", polled(DAYS[1], 9))])


@pytest.mark.parametrize(("mine", "theirs", "error"), [(1, 2, SupersededError), (2, 1, OvertakenError)])
def test_of_two_at_once_one_decides_what_is_deleted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, mine: int, theirs: int, error: type[Exception]
) -> None:
    put(lab, DAYS[0], ["a", "b", "c"])
    staged = [stage(lab, DAYS[number], ["abc"[number]]) for number in (mine, theirs)]
    commit, waiting = Commit._commit, [staged[1]]

    def interrupted(self: Commit, *given: Any) -> None:
        if waiting:
            lab.commit(waiting.pop())
        commit(self, *given)

    monkeypatch.setattr(Commit, "_commit", interrupted)
    with pytest.raises(error):
        lab.commit(staged[0])
    left = sorted({"a", "b", "c"} - {"abc"[theirs]})
    assert (live(lab), deleted(lab)) == (["abc"[theirs]], [(key, polled(DAYS[theirs])) for key in left])


def test_a_compaction_between_the_look_and_the_commit_is_seen(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files hold rows that are there beside deleted ones, and ours was made for files that are gone."""
    put(lab, DAYS[0], ["a", "b", "c"])
    put(lab, DAYS[1], ["b", "c"])
    commit, waiting = Commit._commit, [True]

    def interrupted(self: Commit, *given: Any) -> None:
        if waiting:
            waiting.pop()
            DeltaTable(str(lab.root)).optimize.compact()
        commit(self, *given)

    monkeypatch.setattr(Commit, "_commit", interrupted)
    put(lab, DAYS[2], ["c"])
    expected = [("a", polled(DAYS[1])), ("b", polled(DAYS[2]))]
    assert (live(lab), deleted(lab)) == (["c"], expected)
    written = [path for path in lab.root.rglob("*-deleted*.parquet") if f"day={DAYS[2]}" in str(path)]
    assert len(written) == 1, "what was made for another version is deleted"


def test_a_snapshot_without_rows_deletes_all_if_that_is_accepted(lab: Lab) -> None:
    put(lab, DAYS[0], ["a", "b"])
    row = put(lab, DAYS[1], [])
    assert (row.rows, row.counts["soft_deleted"]) == (0, 2)
    assert (live(lab), deleted(lab)) == ([], [("a", polled(DAYS[1])), ("b", polled(DAYS[1]))])
    put(lab, DAYS[2], ["a"])
    assert (live(lab), deleted(lab)) == (["a"], [("b", polled(DAYS[1]))])


def test_from_hard_to_soft_and_back(tmp_path: Path) -> None:
    hard = Lab(tmp_path / "users").make(KEYED, "snapshot")
    put(hard, DAYS[0], ["a", "b", "c"])
    put(hard, DAYS[1], ["a", "b"])
    soft = Lab(hard.root, deletes="soft", schema_contract="freeze").make(KEYED, "snapshot")
    put(soft, DAYS[2], ["a"])
    assert (live(soft), deleted(soft)) == (["a"], [("b", polled(DAYS[2]))])
    put(hard, DAYS[3], ["a"])
    rows = DeltaTable(str(hard.root)).to_pyarrow_table().to_pylist()
    assert [(row["event"], row["__deleted"]) for row in rows] == [("a", None)]
    put(soft, DAYS[4], ["d"])
    assert (live(soft), deleted(soft)) == (["d"], [("a", polled(DAYS[4]))])


def test_deleted_rows_keep_columns_that_the_source_has_lost_or_gained(lab: Lab) -> None:
    old = KEYED.append(pa.field("old", pa.int64()))
    new = KEYED.append(pa.field("new", pa.decimal128(40 - 2, 2)))
    put(lab, DAYS[0], ["a"], schema=old)
    put(lab, DAYS[1], ["b"], schema=new)
    put(lab, DAYS[2], ["c"], schema=new)
    assert (live(lab), [event for event, _ in deleted(lab)]) == (["c"], ["a", "b"])
    assert {"old", "new"} <= set(DeltaTable(str(lab.root)).to_pyarrow_table().column_names)


def test_deleted_rows_may_lack_a_column_that_is_never_null_now(lab: Lab) -> None:
    new = KEYED.append(pa.field("new", pa.string(), nullable=False))
    put(lab, DAYS[0], ["a", "b"])
    put(lab, DAYS[1], ["b", "c"], schema=new)
    put(lab, DAYS[2], ["c"], schema=new)
    assert (live(lab), [event for event, _ in deleted(lab)]) == (["c"], ["a", "b"])


def test_deleted_rows_are_no_foreign_change(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    put(lab, DAYS[0], ["a", "b"])
    put(lab, DAYS[1], ["b"])
    put(lab, DAYS[2], ["b"])
    with caplog.at_level(logging.WARNING):
        assert lab.preflight(KEYED, "snapshot") == []
    assert not caplog.records
    DeltaTable(str(lab.root)).delete("event = 'a'")
    with caplog.at_level(logging.WARNING):
        lab.preflight(KEYED, "snapshot")
    assert f"{DAYS[2]} (published 1 rows, now has 0)" in caplog.text


def test_a_sweep_keeps_the_files_of_deleted_rows_that_older_versions_show(lab: Lab) -> None:
    put(lab, DAYS[0], ["a", "b"])
    put(lab, DAYS[1], ["b"])
    older = lab.version
    put(lab, DAYS[2], ["c"])
    age(lab.root)
    lab.sweep()
    assert sorted(DeltaTable(str(lab.root), version=older).to_pyarrow_table()["event"].to_pylist()) == ["a", "b"]
    assert [event for event, _ in deleted(lab)] == ["a", "b"]


@pytest.mark.parametrize("log", ["there", "cleaned"])
def test_a_killed_trys_file_of_deleted_rows_is_swept(lab: Lab, monkeypatch: pytest.MonkeyPatch, log: str) -> None:
    put(lab, DAYS[0], ["a", "b"])
    publish = stage(lab, DAYS[1], ["b"])

    def killed(self: Commit, *given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Commit, "_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            lab.commit(publish)
    (lost,) = lab.root.glob(f"day={DAYS[1]}/*-deleted*.parquet")
    lab.commit(publish)
    (kept,) = {*lab.root.glob(f"day={DAYS[1]}/*-deleted*.parquet")} - {lost}
    older = lab.version
    put(lab, DAYS[2], ["c"])
    if log == "cleaned":
        lab.clean_log()
    age(lab.root)
    assert str(lost.relative_to(lab.root)) in lab.publisher.leftovers()
    lab.sweep()
    assert (lost.exists(), kept.exists()) == (False, True)
    if log == "there":
        assert sorted(DeltaTable(str(lab.root), version=older).to_pyarrow_table()["event"].to_pylist()) == ["a", "b"]


def test_a_killed_try_that_deleted_what_the_next_one_does_not(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    put(lab, DAYS[0], ["a"])
    publish = stage(lab, DAYS[1], ["a"])
    extra = lab.root / publish.manifest.polled.files[0].path.replace("-0.parquet", "-deleted00c0ffee.parquet")
    extra.write_bytes(b"of a try that found other files")
    lab.commit(publish)
    age(lab.root)
    lab.sweep()
    assert not extra.exists()


def test_an_erase_after_a_switch_to_hard_deletes_counts_no_deleted_row(lab: Lab) -> None:
    put(lab, DAYS[0], ["a", "b", "c"])
    put(lab, DAYS[1], ["b", "c"])
    hard = Lab(lab.root)
    assert dict(hard.publisher.erase("event", ["b"], "snapshot").rows) == {DAYS[1]: 1}
    row = hard.ledger.row(DAYS[1])
    assert (row.rows, row.counts["erased"], row.counts["soft_deleted_in_all"]) == (1, 1, 1)
    assert (live(lab), [event for event, _ in deleted(lab)]) == (["c"], ["a"])
    assert dict(hard.publisher.erase("event", ["a"], "snapshot").rows) == {DAYS[1]: 1}
    row = hard.ledger.row(DAYS[1])
    assert (row.rows, row.counts["erased"], row.counts["soft_deleted_in_all"]) == (1, 1, 0)
    assert put(hard, DAYS[2], ["c"]).rows == 1


def test_an_erase_takes_deleted_rows_too_and_only_them(lab: Lab) -> None:
    put(lab, DAYS[0], ["a", "b", "c"])
    put(lab, DAYS[1], ["c"])
    assert lab.publisher.find("event", ["a", "c"]) == {DAYS[1]: 2}
    assert dict(lab.publisher.erase("event", ["a"], "snapshot").rows) == {DAYS[1]: 1}
    assert (live(lab), deleted(lab)) == (["c"], [("b", polled(DAYS[1]))])
    row = lab.ledger.row(DAYS[1])
    assert (row.generation, row.rows, row.counts["erased"]) == (2, 1, 0)
    put(lab, DAYS[2], ["c", "d"])
    assert dict(lab.publisher.erase("event", ["c"], "snapshot").rows) == {DAYS[2]: 1}
    assert (live(lab), deleted(lab)) == (["d"], [("b", polled(DAYS[1]))])
    assert (lab.ledger.row(DAYS[2]).rows, lab.ledger.row(DAYS[2]).counts["erased"]) == (1, 1)
    put(lab, DAYS[3], ["d"])
    assert (live(lab), deleted(lab)) == (["d"], [("b", polled(DAYS[1]))]), "the erased did not vanish: they are gone"


def test_rows_of_the_erased_do_not_stay_if_the_erase_was_killed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    put(lab, DAYS[0], ["a", "b", "c"])
    with monkeypatch.context() as patch:
        patch.setattr(DeltaEraser, "_rewrite", lambda *_: 0)
        lab.publisher.erase("event", ["a"], "snapshot")
    row = put(lab, DAYS[1], ["c"])
    assert (live(lab), deleted(lab)) == (["c"], [("b", polled(DAYS[1]))])
    assert row.counts["soft_deleted"] == 1


def test_a_snapshot_with_rows_set_aside_deletes_nothing(lab: Lab) -> None:
    put(lab, DAYS[0], ["a", "b"])
    staged = stage(lab, DAYS[1], ["b"])
    aside = staged.manifest.polled.files[0].model_copy(update={"rows": 3})
    object.__setattr__(staged.manifest.polled, "rejects", (aside,))
    with pytest.raises(DataError, match="has set 3 rows of the snapshot aside"):
        lab.commit(staged)
    assert (live(lab), deleted(lab)) == (["a", "b"], [])


def test_more_rows_than_a_bucket_are_compared(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_rows, "_BUCKET_ROWS", 7)
    put(lab, DAYS[0], [f"{number:03}" for number in range(100)])
    put(lab, DAYS[1], [f"{number:03}" for number in range(0, 100, 3)])
    row = put(lab, DAYS[2], [f"{number:03}" for number in range(0, 100, 2)])
    assert live(lab) == [f"{number:03}" for number in range(0, 100, 2)]
    at = {False: polled(DAYS[1]), True: polled(DAYS[2])}
    assert deleted(lab) == [(f"{number:03}", at[number % 3 == 0]) for number in range(1, 100, 2)]
    assert (row.counts["soft_deleted"], row.counts["restored"]) == (17, 33)


def test_only_row_groups_that_hold_missing_rows_are_read_whole(lab: Lab) -> None:
    old = stage(lab, DAYS[0], [f"{number:03}" for number in range(100)])
    (file,) = old.manifest.polled.files
    path = lab.root / file.path
    pq.write_table(pq.read_table(path), path, row_group_size=10)
    polled_files = (file.model_copy(update={"size_bytes": path.stat().st_size}),)
    object.__setattr__(old.manifest.polled, "files", polled_files)
    lab.commit(old)
    put(lab, DAYS[1], [f"{number:03}" for number in range(100) if number not in (9, 10, 55)])
    assert [event for event, _ in deleted(lab)] == ["009", "010", "055"]


@pytest.mark.parametrize(
    ("schema", "kind", "says"),
    [
        (KEYED, "day", "This one polls days"),
        (KEYED, "increment", "This one polls increments"),
        (SCHEMA, "snapshot", "compares snapshots by record_key"),
        (KEYED.append(pa.field("__DELETED", pa.string())), "snapshot", "column '__DELETED' of the source"),
    ],
)
def test_preflight_refuses_rows_that_cannot_be_deleted_softly(
    tmp_path: Path, schema: Any, kind: Any, says: str
) -> None:
    (problem,) = Lab(tmp_path / "users", deletes="soft").preflight(schema, kind)
    assert "deletes='soft'" in problem
    assert says in problem
    assert not (tmp_path / "users" / "_delta_log").exists()


def test_published_rows_without_a_key_are_not_compared(tmp_path: Path) -> None:
    hard = Lab(tmp_path / "users").make(SCHEMA, "snapshot")
    put(hard, DAYS[0], ["a"], schema=SCHEMA)
    soft = Lab(hard.root, deletes="soft")
    (problem,) = soft.preflight(KEYED, "snapshot")
    assert "holds rows without record_key" in problem
    hard.make(KEYED, "snapshot")
    with pytest.raises(ConfigError, match="Publish one snapshot with deletes='hard' first"):
        put(soft, DAYS[1], ["a"])
    put(hard, DAYS[1], ["a"])
    soft.make(KEYED, "snapshot")
    put(soft, DAYS[2], ["b"])
    assert [event for event, _ in deleted(soft)] == ["a"]


@pytest.mark.parametrize("given", [{"snapshot": "daily"}, {"path": "/lake/{event}"}])
def test_soft_deletes_without_replaced_snapshots_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"deletes='soft' needs one table"):
        DeltaSink(**{"path": "/lake/users", "deletes": "soft"} | given)
