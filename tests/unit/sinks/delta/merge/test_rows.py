"""Rows of a merged Delta table: one for each key, the newest, whatever the order in which days are published."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import DataError, SupersededError
from airflow_provider_connect.sinks._delta.merge import files, matching, row_source
from tests.equipment.delta.merging import DAYS, ROWS, MergeLab

NAN = float("nan")
MICROSECOND = dt.timedelta(microseconds=1)
LOCAL = dt.datetime.combine(DAYS[0], dt.time(12))


@pytest.fixture
def lab(tmp_path: Path) -> MergeLab:
    return MergeLab(tmp_path / "t", delete_where="gone").made()


def test_a_later_day_updates_and_inserts(lab: MergeLab) -> None:
    assert lab.put(DAYS[0], [(1, "a"), (2, "b")]).rows == 2
    row = lab.put(DAYS[1], [(2, "b2"), (3, "c")])
    assert (row.rows, row.generation) == (2, 1)
    assert lab.shown("id", "value", "day") == [(1, "a", DAYS[0]), (2, "b2", DAYS[1]), (3, "c", DAYS[1])]


def test_the_last_row_of_a_day_wins_over_files_too(lab: MergeLab) -> None:
    lab.put(DAYS[0], [(1, "first"), (2, "b"), (1, "last")])
    assert lab.shown() == [(1, "last"), (2, "b")]


def test_an_older_day_loaded_later_only_adds_unknown_keys(lab: MergeLab) -> None:
    lab.put(DAYS[1], [(1, "new")])
    row = lab.put(DAYS[0], [(1, "old"), (2, "old")])
    assert row.rows == 1
    assert lab.shown("id", "value", "day") == [(1, "new", DAYS[1]), (2, "old", DAYS[0])]


def test_a_reload_updates_the_day_and_leaves_newer_rows(lab: MergeLab) -> None:
    lab.put(DAYS[0], [(1, "a"), (2, "b"), (3, "c")])
    lab.put(DAYS[1], [(1, "newer")])
    assert lab.put(DAYS[0], [(1, "x"), (2, "y")], "again").generation == 2
    assert lab.shown() == [(1, "newer"), (2, "y"), (3, "c")]


def test_data_and_ledger_row_are_one_commit_and_a_retry_changes_nothing(lab: MergeLab) -> None:
    lab.put(DAYS[0], [(1, "a"), (2, "b")])
    before = lab.version
    publish = lab.stage_rows(DAYS[1], [(1, "a2"), (3, "c"), (4, "d", None, True)])
    row = lab.commit(publish)
    assert lab.version == before + 1
    paths = sorted(lab.root.rglob("*.parquet"))
    assert lab.commit(publish).generation == row.generation
    assert (lab.version, sorted(lab.root.rglob("*.parquet"))) == (before + 1, paths)
    assert lab.ledger.row(DAYS[1]).rows == 2


def test_an_empty_day_changes_no_row(lab: MergeLab) -> None:
    lab.put(DAYS[0], [(1, "a")])
    assert lab.put(DAYS[1], []).rows == 0
    assert lab.put(DAYS[0], [], "again").rows == 1
    assert lab.shown() == [(1, "a")]


@pytest.mark.parametrize("empty", [None, NAN])
def test_the_highest_value_of_newest_by_wins_over_days_too(tmp_path: Path, empty: Any) -> None:
    lab = MergeLab(tmp_path / "t", newest_by="version").made()
    lab.put(DAYS[2], [(1, "low", 1.0), (1, "high", 5.0), (1, "last", 4.0), (2, "b", empty), (3, "c", 5.0)])
    assert lab.shown() == [(1, "high"), (2, "b"), (3, "c")]
    lab.put(DAYS[3], [(1, "lower", 4.0), (2, "filled", 1.0), (3, "same", 5.0)])
    assert lab.shown() == [(1, "high"), (2, "filled"), (3, "same")]
    lab.put(DAYS[0], [(1, "older day, higher", 6.0), (2, "empty", empty), (3, "older day, same", 5.0)])
    assert lab.shown() == [(1, "older day, higher"), (2, "filled"), (3, "same")]


def test_a_deleted_key_is_gone_and_an_older_day_does_not_bring_it_back(lab: MergeLab) -> None:
    lab.put(DAYS[0], [(1, "a"), (2, "b")])
    lab.put(DAYS[2], [(1, "a", None, True), (3, "never there", None, True)])
    assert lab.shown() == [(2, "b")]
    lab.put(DAYS[1], [(1, "old"), (3, "old"), (4, "old")])
    assert lab.shown() == [(2, "b"), (4, "old")]
    lab.put(DAYS[0], [(1, "reloaded"), (2, "b2")], "again")
    assert lab.shown() == [(2, "b2"), (4, "old")]
    lab.put(DAYS[3], [(1, "back")])
    assert lab.shown() == [(1, "back"), (2, "b2"), (4, "old")]


def test_deletes_are_remembered_past_a_reload_that_keeps_them_and_forgotten_by_one_that_does_not(lab: MergeLab) -> None:
    lab.put(DAYS[2], [(1, "a", None, True), (2, "b", None, True)])
    lab.put(DAYS[2], [(1, "a", None, True)], "again")
    lab.put(DAYS[1], [(1, "old"), (2, "old")])
    assert lab.shown() == [(2, "old")]
    lab.put(DAYS[2], [], "and again")
    lab.put(DAYS[1], [(1, "old"), (2, "old")], "again")
    assert lab.shown() == [(1, "old"), (2, "old")]


def test_a_delete_and_a_row_of_one_day_end_as_the_last_of_them(lab: MergeLab) -> None:
    lab.put(DAYS[0], [(1, "a"), (1, "a", None, True), (2, "b", None, True), (2, "b2"), (3, "c", None, None)])
    assert lab.shown() == [(2, "b2"), (3, "c")]


def test_a_delete_that_is_older_than_the_row_deletes_nothing(tmp_path: Path) -> None:
    lab = MergeLab(tmp_path / "t", newest_by="version", delete_where="gone").made()
    lab.put(DAYS[0], [(1, "a", 5.0), (2, "b", 5.0)])
    lab.put(DAYS[1], [(1, "a", 4.0, True), (2, "b", 6.0, True)])
    assert lab.shown() == [(1, "a")]
    lab.put(DAYS[2], [(2, "lower than the delete", 5.5)])
    assert lab.shown() == [(1, "a")]
    lab.put(DAYS[0], [(2, "higher than the delete", 7.0)], "again")
    assert lab.shown() == [(1, "a"), (2, "higher than the delete")]


def test_rows_without_a_key_are_refused_and_nothing_changes(lab: MergeLab) -> None:
    lab.put(DAYS[0], [(1, "a")])
    before = lab.version
    with pytest.raises(DataError, match=r"2 rows up to 2026-05-02 have NULL in the key \(id\)"):
        lab.put(DAYS[1], [(None, "x"), (1, "b"), (None, "y")])
    assert (lab.version, lab.shown()) == (before, [(1, "a")])


def test_a_key_of_several_columns_is_equal_only_in_all_of_them(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("value", pa.string())])
    lab = MergeLab(tmp_path / "t", schema, key=("a", "b")).made()
    lab.put(DAYS[0], [("1:x", "y", "1"), ("1", "x:y", "2"), ("", "1:x:y", "3"), ("é", "", "4")])
    lab.put(DAYS[1], [("1:x", "y", "new"), ("é", "", "newer")])
    assert lab.shown("a", "value") == [("", "3"), ("1", "2"), ("1:x", "new"), ("é", "newer")]
    with pytest.raises(DataError, match=r"1 rows up to 2026-05-03 have NULL in the key \(a, b\)"):
        lab.put(DAYS[2], [("1", None, "x")])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a", "b", "c"]),
        (pa.binary(), [b"\xff", b"", b"\x00"]),
        (pa.bool_(), [True, False, None]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(2026, 1, 1), dt.date(9999, 12, 31)]),
        (pa.timestamp("us"), [LOCAL, LOCAL + MICROSECOND, LOCAL - MICROSECOND]),
        (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 1, 0, 0, 0, i, tzinfo=dt.UTC) for i in (1, 2, 999_999)]),
        (pa.decimal128(38, 9), [decimal.Decimal("1.000000001"), decimal.Decimal("1"), decimal.Decimal("-" + "9" * 20)]),
        (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    ],
)
@pytest.mark.parametrize("composite", [False, True])
def test_keys_of_each_type(tmp_path: Path, kind: pa.DataType, values: list[Any], composite: bool) -> None:
    values = [value for value in values if value is not None]
    schema = pa.schema([("id", kind), ("value", pa.string()), ("other", pa.int64())])
    lab = MergeLab(tmp_path / "t", schema, key=("id", "other") if composite else ("id",)).made()
    lab.put(DAYS[0], [(value, "old", 1) for value in values])
    lab.put(DAYS[1], [(values[0], "new", 1)])
    assert lab.shown() == sorted([(values[0], "new"), *((value, "old") for value in values[1:])])


def test_new_columns_are_added_and_old_rows_read_as_null(lab: MergeLab) -> None:
    lab.put(DAYS[0], [(1, "a"), (2, "b")])
    wider = ROWS.append(pa.field("size", pa.int64()))
    lab.put(DAYS[1], [(1, "a2", None, None, 7)], schema=wider)
    assert lab.shown("id", "value", "size") == [(1, "a2", 7), (2, "b", None)]
    lab.put(DAYS[2], [(2, "b2")])
    assert lab.shown("id", "value", "size") == [(1, "a2", 7), (2, "b2", None)]


def test_newest_by_may_be_a_new_column_of_old_files(tmp_path: Path) -> None:
    lab = MergeLab(tmp_path / "t", pa.schema([("id", pa.int64()), ("value", pa.string())]))
    lab.schema = ROWS
    lab.made().put(DAYS[1], [(1, "a"), (2, "b")])
    (tmp_path / "v").mkdir()
    versioned = MergeLab(tmp_path / "v/t", newest_by="version").made()
    versioned.put(DAYS[1], [(1, "a")], schema=ROWS)
    versioned.put(DAYS[0], [(1, "filled", 1.0)])
    assert versioned.shown() == [(1, "filled")]


def test_a_snapshot_deletes_vanished_keys_and_an_older_one_is_superseded(tmp_path: Path) -> None:
    lab = MergeLab(tmp_path / "t").made("snapshot")
    lab.put(DAYS[0], [(1, "a"), (2, "b"), (3, "c")], kind="snapshot")
    row = lab.put(DAYS[1], [(1, "a2"), (4, "d")], kind="snapshot")
    assert (row.rows, row.counts["vanished"]) == (2, 2)
    assert lab.shown("id", "value", "day") == [(1, "a2", DAYS[1]), (4, "d", DAYS[1])]
    with pytest.raises(SupersededError):
        lab.put(DAYS[0], [(1, "old")], "again", kind="snapshot")
    row = lab.put(DAYS[2], [], kind="snapshot", token="empty")
    assert (row.rows, row.counts["vanished"], lab.shown()) == (0, 2, [])


def test_daily_snapshots_are_merged_as_days(tmp_path: Path) -> None:
    lab = MergeLab(tmp_path / "t", snapshot="daily").made("snapshot")
    lab.put(DAYS[1], [(1, "a"), (2, "b")], kind="snapshot")
    lab.put(DAYS[0], [(1, "old"), (3, "c")], kind="snapshot")
    assert lab.shown() == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("kind", ["day", "snapshot"])
def test_many_keys_are_merged_in_rounds_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    monkeypatch.setattr(matching, "ROUND_BYTES", 2000)
    monkeypatch.setattr(row_source, "_PIECE_ROWS", 64)
    monkeypatch.setattr(files, "FILE_BYTES", 1000)
    lab = MergeLab(tmp_path / "t", newest_by="version", delete_where="gone").made(kind)
    lab.put(DAYS[1], [(i, f"a{i}", 1.0) for i in range(500)], kind=kind)
    assert len(DeltaTable(str(lab.root)).file_uris()) == 1  # one row group
    changes = [(i, f"b{i}", float(i % 3), i % 7 == 0) for i in range(100, 400)]
    lab.put(DAYS[2], changes, kind=kind)
    expected = {} if kind == "snapshot" else {i: f"a{i}" for i in range(500)}
    for i, value, version, gone in changes:
        if version < 1:
            expected[i] = f"a{i}"
        elif gone:
            expected.pop(i, None)
        else:
            expected[i] = value
    assert dict(lab.shown()) == expected


def test_a_file_without_a_merged_key_is_neither_read_nor_written(
    lab: MergeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        lab.put(DAYS[number], [(10 * number + i, "a") for i in range(10)])
    opened, open_parquet = [], row_source.open_parquet

    def noted(folder: Any, path: str, *rest: Any) -> Any:
        opened.append(path[:14])
        return open_parquet(folder, path, *rest)

    monkeypatch.setattr(row_source, "open_parquet", noted)
    before = set(DeltaTable(str(lab.root)).file_uris())
    lab.put(DAYS[5], [(15, "b"), (17, "b"), (99, "c")])
    assert sorted(set(opened)) == ["day=2026-05-02", "day=2026-05-06"]
    removed = before - set(DeltaTable(str(lab.root)).file_uris())
    assert len(removed) == 1
    assert len(lab.shown()) == 41


def test_a_compacted_table_is_merged(lab: MergeLab) -> None:
    lab.put(DAYS[0], [(i, "a") for i in range(20)])
    for number in range(1, 4):
        lab.put(DAYS[0], [(number, "b")], f"t{number}")
    DeltaTable(str(lab.root)).optimize.compact()
    DeltaTable(str(lab.root)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    lab.put(DAYS[1], [(1, "c"), (19, "c")])
    assert dict(lab.shown()) == dict.fromkeys(range(20), "a") | {2: "b", 3: "b", 1: "c", 19: "c"}
    assert lab.preflight(ROWS) == []


def test_nested_columns_and_a_name_with_a_dot(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("a.b", pa.int64()),
            ("value", pa.string()),
            ("a", pa.struct([("b", pa.int64())])),
            ("many", pa.list_(pa.string())),
            ("pairs", pa.map_(pa.string(), pa.int64())),
        ]
    )
    lab = MergeLab(tmp_path / "t", schema).made()
    lab.put(DAYS[0], [(i, "a", {"b": -i}, [str(i)], [("k", i)]) for i in range(5)])
    lab.put(DAYS[1], [(3, "b", {"b": 7}, None, None), (9, "b", None, [], [])])
    rows = DeltaTable(str(lab.root)).to_pyarrow_table().to_pylist()
    assert sorted((row["a.b"], row["a"], row["many"], row["pairs"]) for row in rows if row["a.b"] in (2, 3)) == [
        (2, {"b": -2}, ["2"], [("k", 2)]),
        (3, {"b": 7}, None, None),
    ]
    assert [key for key, _ in lab.shown()] == [0, 1, 2, 3, 4, 9]
