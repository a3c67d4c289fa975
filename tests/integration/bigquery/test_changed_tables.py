"""Tables that are there: columns that grow between two days, and another write mode than before."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.sinks._bigquery.merge import write_mode
from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import Target
from tests.equipment.frozen import MONDAY, TUESDAY, events

pytestmark = pytest.mark.slow

BIG = pa.decimal128(20, 0)


@pytest.fixture
def bench(bigquery_target: Target, tmp_path: Path) -> SinkBench:
    return bench_of(bigquery_target, tmp_path)


def rows_of(kind: pa.DataType, *rows: tuple[int, str, bool]) -> pa.Table:
    schema = pa.schema([("id", kind), ("event", pa.string()), ("gone", pa.bool_())])
    ids, events, gone = zip(*rows, strict=True)
    values: Any = ids if pa.types.is_integer(kind) else [Decimal(value) for value in ids]
    return pa.table([pa.array(values, kind), pa.array(events), pa.array(gone)], schema=schema)


@pytest.mark.parametrize("merges", [True, False], ids=["merge", "replace"])
def test_a_column_grows_between_two_days(bench: SinkBench, merges: bool) -> None:
    options: dict[str, Any] = {"write_mode": "merge", "key": ("id",), "delete_where": "gone"} if merges else {}
    first = rows_of(pa.int64(), (1, "a", False), (2, "b", False))
    older = bench.having(first.schema, **options)
    assert older.preflight() == []
    older.publish(older.stage(MONDAY, first))
    second = rows_of(BIG, (2**63, "big", False), (2, "b2", merges))
    newer = bench.having(second.schema, **options)
    assert newer.preflight() == []
    newer.publish(newer.stage(TUESDAY, second))
    assert newer.rows(MONDAY) == (["a"] if merges else ["a", "b"])
    assert newer.rows(TUESDAY) == (["big"] if merges else ["b2", "big"])
    # A day that was read before the column grew is cast to its new type.
    older.publish(older.stage(MONDAY, rows_of(pa.int64(), (1, "again", False), (2, "late", False)), order=2))
    assert older.rows(MONDAY) == (["again"] if merges else ["again", "late"])


def test_a_table_of_days_is_not_merged(bench: SinkBench, monkeypatch: pytest.MonkeyPatch) -> None:
    replacing, merging = bench.having(), bench.having(write_mode="merge", key=("event",))
    assert replacing.preflight() == merging.preflight() == replacing.preflight() == [], "nothing is published"
    replacing.publish(replacing.stage(MONDAY, events("a", "b")))
    replacing.publish(replacing.stage(TUESDAY, events("a")))
    for _ in range(2):
        [problem] = merging.preflight()
        assert "was written with write_mode='replace', so a key may have several rows" in problem
        monkeypatch.setattr(write_mode, "MODE_LABEL", "connect_other")  # as if by an earlier version
    assert replacing.preflight() == []
    assert bench.having(write_mode="append").preflight() == []


def test_a_merged_table_is_neither_replaced_nor_appended_to(bench: SinkBench, monkeypatch: pytest.MonkeyPatch) -> None:
    merging = bench.having(write_mode="merge", key=("event",))
    assert merging.preflight() == []
    merging.publish(merging.stage(MONDAY, events("a", "b")))
    merging.publish(merging.stage(TUESDAY, events("a")))
    for mode in ("replace", "append"):
        [problem] = bench.having(write_mode=mode).preflight()
        assert "was written with write_mode='merge', and this mode would delete or double rows" in problem
    monkeypatch.setattr(write_mode, "MODE_LABEL", "connect_other")
    assert merging.preflight() == [], "merged by an earlier version"
    [problem] = bench.having().preflight()
    assert "was written with write_mode='merge'" in problem
