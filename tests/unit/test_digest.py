"""The digest of rows: the sum of their keys, whatever batches they come in."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.stage.key_digest import KeyDigest, sum_keys

SCHEMA = pa.schema([pa.field("event", pa.string()), pa.field("record_key", pa.string())])
KEYS = st.lists(st.integers(0, 2**128 - 1), max_size=50)


def column(keys: list[int]) -> pa.StringArray:
    return pa.array([f"{key:032x}" for key in keys], pa.string())


def batch(keys: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(len(keys), pa.string()), keys], ["event", "record_key"])


@given(KEYS)
def test_the_sum_of_a_column_is_that_of_its_keys(keys: list[int]) -> None:
    assert sum_keys(column(keys)) == sum(keys)


@given(KEYS, st.integers(0, 50), st.integers(0, 50))
def test_a_slice_counts_its_own_rows_alone(keys: list[int], start: int, length: int) -> None:
    assert sum_keys(column(keys).slice(min(start, len(keys)), length)) == sum(keys[start : start + length])


@given(st.lists(KEYS, max_size=4))
def test_a_digest_is_the_same_however_rows_are_cut_into_batches(batches: list[list[int]]) -> None:
    digest = KeyDigest(SCHEMA)
    for keys in batches:
        digest.add(batch(column(keys)))
    assert digest.text == f"{sum(map(sum, batches)) % 2**128:032x}"


def test_many_of_the_largest_keys_add_up_exactly() -> None:
    assert sum_keys(column([2**128 - 1] * 10_000)) == 10_000 * (2**128 - 1)


def test_rows_without_keys_have_no_digest() -> None:
    digest = KeyDigest(SCHEMA.remove(1))
    digest.add(pa.RecordBatch.from_arrays([pa.array(["a"])], ["event"]))
    assert digest.text is None


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["a" * 32, None]),
        pa.array(["a" * 31]),
        pa.array(["a" * 31, "a" * 33]),
        pa.array(["g" * 32]),
        pa.array(["é" * 16]),
        pa.array([7]),
        pa.array([b"a" * 32]),
    ],
)
def test_what_is_no_key_is_an_error_of_the_source_that_does_not_show_it(keys: pa.Array) -> None:
    with pytest.raises(ConnectError, match="column record_key holds a value that is not a key") as caught:
        KeyDigest(SCHEMA).add(batch(keys))
    assert "aaa" not in str(caught.value)
