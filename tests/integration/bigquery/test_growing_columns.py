"""Columns that grow between two days, in a table and in its tombstones."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import Target
from tests.equipment.frozen import MONDAY, TUESDAY

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
