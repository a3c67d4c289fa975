from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.stage.rows import json_column_problems, read_json_documents


def write(folder: Path, table: pa.Table) -> str:
    pq.write_table(table, folder / "f.parquet")
    return "f.parquet"


def test_each_row_is_an_object_and_each_batch_says_where_it_begins(tmp_path: Path) -> None:
    path = write(tmp_path, pa.table({"a": [1, 2, 3], "b": ["x", None, "ä"]}))
    found: list[tuple[int, list[Any]]] = list(read_json_documents(str(tmp_path), path, 32))
    rows = [json.loads(text) for _, texts in found for text in texts]
    assert rows == [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": "ä"}]
    assert len(found) > 1
    assert [first for first, _ in found] == [sum(len(t) for _, t in found[:n]) for n in range(len(found))]


def test_a_value_without_a_json_form_is_named_by_row_and_column(tmp_path: Path) -> None:
    path = write(tmp_path, pa.table({"a": [1.0, float("nan")]}))
    with pytest.raises(DataError, match=r"f\.parquet: row 1, column 'a'"):
        list(read_json_documents(str(tmp_path), path, 1 << 20))


def test_a_column_without_a_json_form_is_refused_before_the_poll() -> None:
    assert json_column_problems(pa.schema([("a", pa.int64())])) == []
    (problem,) = json_column_problems(pa.schema([("a", pa.duration("us"))]))
    assert "'a'" in problem
