"""Several increments a day in one Delta table: their files, an erase, other writers, and tables of earlier versions."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import open_table
from airflow_provider_connect.sinks._delta.slots import DayFiles, Slot
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.testing import Bench, Target
from airflow_provider_connect.testing.bench import DAYS, KEY, MONDAY, SCHEMA, TUESDAY


def make_bench(root: Path, **options: Any) -> Bench:
    sink = DeltaSink(path=str(root), **options)
    publisher = sink.open(KEY, {})
    assert publisher.preflight(SCHEMA, DAYS, "increment") == []
    return Bench(Target(sink=sink, rows=list), publisher, root)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path / "table")


def publish(
    bench: Bench, number: int, rows: list[str], day: dt.date = MONDAY, clear_number: int = 0, **how: Any
) -> LedgerRow:
    attempt = f"{clear_number + 1}"
    staged = bench.stage(day, rows, number, attempt, kind="increment", to=str(number), clear_number=clear_number, **how)
    return bench.publish(staged)


def events(bench: Bench) -> list[str]:
    return sorted(DeltaTable(str(bench.root)).to_pyarrow_table(columns=["event"])["event"].to_pylist())


def view(bench: Bench) -> LedgerView:
    return LedgerView(Folder(str(bench.root)), open_table(str(bench.root)), KEY)


def test_an_erase_rewrites_each_increment_of_a_day_and_keeps_its_run(bench: Bench) -> None:
    publish(bench, 1, ["ann", "bob"])
    publish(bench, 2, ["cat", "ann"])
    publish(bench, 3, ["dan"])
    publish(bench, 4, ["ann"], TUESDAY)
    publisher: Any = bench.publisher
    erasure = publisher.erase("event", ["ann"], "increment")
    assert erasure.rows == {MONDAY: 2, TUESDAY: 1}
    assert events(bench) == ["bob", "cat", "dan"]
    slots = view(bench).slots_of(MONDAY)
    rows = [view(bench).newest_of(slot) for slot in slots]
    assert [(row.generation, row.rows, row.counts) for row in rows if row] == [
        (2, 1, {"erased": 1}),
        (2, 1, {"erased": 1}),
        (1, 1, {}),
    ]
    assert publish(bench, 2, ["cat2"], clear_number=1).generation == 3
    assert events(bench) == ["bob", "cat2", "dan"]
    assert publish(bench, 5, ["eve"]).span == Span(number=5, after="4", to="5", run="dag/run-5/task")


def test_a_merged_table_refuses_a_second_increment_of_a_day_by_name(tmp_path: Path) -> None:
    """Its tombstones and rows know their day alone: a clear of the first run could bring deleted rows back."""
    bench = make_bench(tmp_path / "merged", write_mode="merge", key=["event"], newest_by="time")
    publish(bench, 1, ["ann", "bob"])
    with pytest.raises(ConfigError, match=r"increment of run dag/run-1/task already, .* keeps one increment a day"):
        publish(bench, 2, ["bob"])
    assert publish(bench, 1, ["ann", "cat"], clear_number=1).generation == 2
    assert publish(bench, 2, ["dan"], TUESDAY).generation == 1
    with pytest.raises(ConfigError, match="keeps one increment a day"):
        publish(bench, 3, ["eve"])
    assert events(bench) == ["ann", "bob", "cat", "dan"]


def test_an_erase_of_compacted_increments_is_refused(bench: Bench) -> None:
    publish(bench, 1, ["ann"])
    publish(bench, 2, ["ann"])
    DeltaTable(str(bench.root)).optimize.compact()
    publisher: Any = bench.publisher
    with pytest.raises(ConfigError, match="cannot be told from those of the day's other increments"):
        publisher.erase("event", ["ann"], "increment")


def test_rejects_of_all_increments_of_a_day_are_found(bench: Bench) -> None:
    publish(bench, 1, ["a"], rejected=2)
    publish(bench, 2, ["b"])
    publish(bench, 3, ["c"], rejected=1)
    publish(bench, 4, ["d"], TUESDAY, rejected=4)
    publisher: Any = bench.publisher
    found = [(each.day, each.ledger_count, len([*each.records])) for each in publisher.rejects(MONDAY, TUESDAY, 9)]
    assert found == [(MONDAY, 3, 3), (TUESDAY, 4, 4)]
    publish(bench, 1, ["a", "a2", "a3"], clear_number=1)
    assert [(each.day, each.ledger_count) for each in publisher.rejects(MONDAY, MONDAY, 9)] == [(MONDAY, 1)]


def test_a_sweep_keeps_the_files_of_all_increments(bench: Bench) -> None:
    for number in (1, 2, 3):
        publish(bench, number, [str(number)])
    publish(bench, 2, ["two"], clear_number=1)
    sink = DeltaSink(path=str(bench.root), sweep_after=dt.timedelta(hours=1))
    sweeper: Any = sink.open(KEY, {})
    files = [path for path in bench.root.rglob("*") if path.is_file()]
    for path in files:
        past = path.stat().st_mtime - 7200
        os.utime(path, (past, past))
    sweeper.sweep()
    assert events(bench) == ["1", "3", "two"]
    assert DeltaTable(str(bench.root)).version() >= 0


def test_other_writers_changes_of_a_day_with_increments_are_seen(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    publish(bench, 1, ["a", "b"])
    publish(bench, 2, ["c"])
    assert bench.publisher.preflight(SCHEMA, DAYS, "increment") == []
    assert "another writer" not in caplog.text
    DeltaTable(str(bench.root)).delete("event = 'c'")
    assert bench.publisher.preflight(SCHEMA, DAYS, "increment") == []
    assert f"{MONDAY} (published 3 rows, now has 2)" in caplog.text


def test_a_day_of_increments_is_not_replaced_by_a_day(bench: Bench) -> None:
    publish(bench, 1, ["a"])
    publish(bench, 2, ["b"])
    with pytest.raises(ConfigError, match="holds 2 increments, which a day cannot replace"):
        bench.publish(bench.stage(MONDAY, ["x"], 9))
    assert events(bench) == ["a", "b"]


def test_a_new_span_keeps_rows_that_others_put_into_the_day(bench: Bench) -> None:

    publish(bench, 1, ["a"])
    write_deltalake(
        str(bench.root), pa.table({"event": ["theirs"], "day": [MONDAY]}), mode="append", schema_mode="merge"
    )
    publish(bench, 2, ["b"])
    assert events(bench) == ["a", "b", "theirs"]
    assert publish(bench, 2, ["b2"], clear_number=1).generation == 2
    assert events(bench) == ["a", "b2", "theirs"]


FILES = [(MONDAY, f"day={MONDAY}/{name}-00000-0.parquet", rows) for name, rows in (("one", 2), ("two", 3))]
MERGED = (MONDAY, f"day={MONDAY}/part-0.parquet", 5)


@pytest.mark.parametrize(
    ("files", "rows", "suffix", "expected"),
    [
        (FILES, {"": 2}, "", FILES),  # a day of one span takes all
        (FILES, {"": 2, "/increment/2": 3}, "", FILES[:1]),
        (FILES, {"": 2, "/increment/2": 3}, "/increment/2", FILES[1:]),
        ([FILES[0], (MONDAY, MERGED[1], 3)], {"": 2, "/increment/2": 3}, "/increment/2", [(MONDAY, MERGED[1], 3)]),
        ([FILES[1], (MONDAY, MERGED[1], 2)], {"": 2, "/increment/2": 3}, "", [(MONDAY, MERGED[1], 2)]),
        ([MERGED], {"": 2, "/increment/2": 3}, "", None),
        ([FILES[1], (MONDAY, MERGED[1], None)], {"": 2, "/increment/2": 3}, "", None),
        ([FILES[1]], {"": 2, "/increment/2": 3}, "", None),  # deleted by another writer
        ([FILES[1]], {"": 0, "/increment/2": 3}, "", []),
    ],
)
def test_files_belong_to_a_span_if_the_rows_add_up(
    files: list[Any], rows: dict[str, int], suffix: str, expected: list[Any] | None
) -> None:
    day_files = DayFiles(files, rows, {"two": "/increment/2"})
    slot = Slot(MONDAY, suffix, Span(number=2, to="9"))
    if expected is None:
        with pytest.raises(ConfigError, match="the rows of increment 2 cannot be told"):
            day_files.of_slot(slot, "/t")
    else:
        assert day_files.of_slot(slot, "/t") == expected


def test_a_day_with_several_increments_that_is_merged_later_is_erased_as_one_and_not_loaded_again(
    tmp_path: Path,
) -> None:
    """A merge writes rows of several runs into one file."""
    bench = make_bench(tmp_path / "merged")
    publish(bench, 1, ["ann", "bob"])
    publish(bench, 2, ["cat", "dan"])
    options = {"write_mode": "merge", "key": ["event"], "newest_by": "time"}
    sink = DeltaSink(path=str(bench.root), **options)
    merged = Bench(Target(sink=sink, rows=list), sink.open(KEY, {}), bench.root)
    publisher: Any = merged.publisher
    publisher.rewrite_by_key()
    DeltaTable(str(bench.root)).optimize.compact()
    with pytest.raises(ConfigError, match="has 2 increments from before the target was merged by key"):
        publish(merged, 1, ["ann"], clear_number=1)
    with pytest.raises(ConfigError, match="has 2 increments from before the target was merged by key"):
        publish(merged, 3, ["eve"])
    assert publisher.erase("event", ["ann", "cat"], "increment").rows == {MONDAY: 2}
    assert events(merged) == ["bob", "dan"]
    assert merged.ledger.row(MONDAY).rows == 2
    assert publish(merged, 3, ["eve"], TUESDAY).generation == 1
    assert events(merged) == ["bob", "dan", "eve"]
