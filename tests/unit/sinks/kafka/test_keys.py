"""Keys of records: one string as it is, everything else as JSON."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.sinks._kafka.converters import KeyEncoder
from airflow_provider_connect.values.converters import EncodedBatch
from tests.equipment.arrow_rows import TEXT

BATCH = pa.record_batch(
    {
        "s": ["é", None, ""],
        "few": pa.array(["x", "y", None]).dictionary_encode(),
        "n": [1, None, 3],
        "f": [1.5, math.nan, None],
    }
)


def keys(batch: pa.RecordBatch, fields: tuple[str, ...]) -> EncodedBatch:
    return KeyEncoder("string", batch.schema, fields, "R").encode(batch, None)


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ((), [None, None, None]),
        (("s",), ["é".encode(), None, b""]),
        (("few",), [b"x", b"y", None]),
        (("n",), [b"1", None, b"3"]),
        (("s", "n"), ['["é",1]'.encode(), b"[null,null]", b'["",3]']),
    ],
)
def test_each_key_converter_writes_the_documented_bytes(fields: tuple[str, ...], values: list[bytes | None]) -> None:
    assert keys(BATCH, fields) == EncodedBatch(values, {})
    assert keys(BATCH.slice(1), fields).values == values[1:]


def test_a_key_that_cannot_be_written_refuses_its_row() -> None:
    refused = {1: ("f", "NaN or an infinity, which JSON does not have")}
    assert keys(BATCH, ("f",)) == EncodedBatch([b"1.5", None, None], refused)
    assert keys(BATCH, ("f", "n")) == EncodedBatch([b"[1.5,1]", None, b"[null,3]"], refused)
    bad = pa.record_batch({"s": pa.array([b"\xff", b"a"]).view(pa.string())})
    assert keys(bad, ("s",)) == EncodedBatch([None, b"a"], {0: ("s", "a text that is not UTF-8")})


@given(st.lists(st.tuples(TEXT, st.none() | st.booleans()), max_size=6))
def test_keys_of_several_fields_differ_where_the_fields_do(rows: list[tuple[str, bool | None]]) -> None:
    batch = pa.record_batch(
        {"a": pa.array([a for a, _ in rows], pa.string()), "b": pa.array([b for _, b in rows], pa.bool_())}
    )
    assert [tuple(json.loads(key or b"")) for key in keys(batch, ("a", "b")).values] == rows
