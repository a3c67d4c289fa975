"""A list of shapes: made of data, checked against a schema, applied to batches, counted."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes import Chain, Drop, Select

SCHEMA = pa.schema(
    [pa.field("a", pa.int64(), nullable=False, metadata={"comment": "first"}), ("b", pa.string()), ("c", pa.bool_())],
    metadata={"record_name": "connect.a.Row"},
)
BATCH = pa.record_batch([pa.array([1, 2, 3]), pa.array(["x", None, "z"]), pa.array([None, None, True])], schema=SCHEMA)


def shaped(chain: Chain, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Counter[str]]:
    counts: Counter[str] = Counter()
    made = chain.bind(batch.schema, {})(batch, counts)
    made.validate(full=True)
    assert made.schema.equals(chain.result_schema(batch.schema), check_metadata=True)
    return made, counts


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ({"mask": {"columns": ["record_key"], "mode": "redact"}}, "column 'record_key' identifies rows"),
        ({"cast": {"columns": {"record_key": "BINARY"}}}, "column 'record_key' identifies rows"),
        ({"rename": {"columns": {"a": "record_key"}}}, "'record_key' is reserved"),
        ({"constant": {"column": "Day", "value": "x"}}, "'Day' is reserved"),
        ({"route": {"column": "day", "default": "x"}}, "'day' is reserved"),
        ({"extract": {"column": "a", "into": {"record_key": "STRING"}}}, "'record_key' is reserved"),
    ],
)
def test_the_key_of_a_row_is_left_as_it_is_and_no_column_takes_the_name_of_ours(shape: Any, told: str) -> None:
    schema = pa.schema([("a", pa.string()), pa.field("record_key", pa.string(), nullable=False)])
    with pytest.raises(ConfigError, match=told):
        Chain.of([shape]).result_schema(schema)
    assert Chain.of([{"drop": {"columns": ["record_key"]}}]).result_schema(schema).names == ["a"]


def test_an_empty_chain_is_false_and_changes_nothing() -> None:
    made, counts = shaped(Chain(), BATCH)
    assert not Chain.of([])
    assert made.equals(BATCH, check_metadata=True)
    assert counts == {}


def test_drop_leaves_columns_out_and_counts_their_values() -> None:
    made, counts = shaped(Chain.of([{"drop": {"columns": ["c", "b"]}}]), BATCH)
    assert made.equals(BATCH.select(["a"]), check_metadata=True)
    assert counts == {"shape_0_drop": 3}


def test_select_keeps_columns_in_its_order() -> None:
    made, counts = shaped(Chain.of([Select(columns=["c", "a"])]), BATCH.slice(1))
    assert made.equals(BATCH.slice(1).select(["c", "a"]), check_metadata=True)
    assert counts == {"shape_0_select": 1}


def test_shapes_follow_one_another() -> None:
    chain = Chain.of([Drop(columns=["a"]), {"select": {"columns": ["c"]}}])
    made, counts = shaped(chain, BATCH)
    assert made.schema.names == ["c"]
    assert counts == {"shape_0_drop": 3, "shape_1_select": 2}
    assert chain.column_origins(SCHEMA) == {"c": ("c",)}
    assert chain.hides_values
    assert chain.conn_ids == ()


def test_data_makes_the_same_chain_again() -> None:
    chain = Chain.of([Drop(columns=["a"]), Select(columns=["c"])])
    assert chain.serialize() == [{"drop": {"columns": ["a"]}}, {"select": {"columns": ["c"]}}]
    assert Chain.of(chain.serialize()) == chain == pickle.loads(pickle.dumps(chain))


def test_everything_wrong_in_a_list_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        Chain.of([{"dorp": {}}, {"drop": {"colums": ["a"]}}, {"select": {"columns": ["a", "a"]}}, {}, {"drop": 3}])
    assert str(error.value).split("; shape") == [
        "shape[0]: no shape is called 'dorp'; did you mean 'drop'?",
        "[1]: Drop: colums: unknown option; did you mean 'columns'?",
        "[2]: Select: columns: occurs twice: 'a'",
        "[3]: must be a shape, or a mapping with one name, such as {'drop': {'columns': […]}}",
        "[4]: drop: must be a mapping of options",
    ]


def test_a_shape_that_does_not_fit_is_told_with_its_place_and_all_that_is_wrong() -> None:
    chain = Chain.of([Drop(columns=["a"]), Select(columns=["a", "bb"])])
    told = r"^shape\[1\] \(select\): no column 'a'; known: b, c; no column 'bb'; did you mean 'b'\?$"
    with pytest.raises(ConfigError, match=told):
        chain.result_schema(SCHEMA)
    with pytest.raises(ConfigError, match=told):
        chain.bind(SCHEMA, {})
    with pytest.raises(ConfigError, match=r"^shape\[0\] \(drop\): no column would remain$"):
        Chain.of([Drop(columns=["a", "b", "c"])]).result_schema(SCHEMA)
