"""The digest of an answer: the same for the same rows however they come, another for whatever differs."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.stage.answer_digest import AnswerDigest, combine_answer_digests

TEXTS = st.text(max_size=6) | st.sampled_from(["", "\0", "a", "aa", "\x00\x00"])
FIELDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "bytes": (pa.binary(), st.binary(max_size=6)),
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int16(), st.integers(-5, 5)),
    "float": (pa.float64(), st.floats(allow_nan=False)),
    "truth": (pa.bool_(), st.booleans()),
    "time": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "date": (pa.date32(), st.dates()),
    "money": (pa.decimal128(10, 2), st.integers(-9999, 9999).map(lambda cents: Decimal(cents) / 100)),
    "list": (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        st.fixed_dictionaries({"x": st.none() | st.integers(0, 3), "y": st.none() | TEXTS}),
    ),
    "lists": (pa.list_(pa.list_(pa.int8())), st.lists(st.none() | st.lists(st.integers(0, 3), max_size=2), max_size=2)),
    "map": (pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(TEXTS, st.none() | st.integers(0, 3)), max_size=2)),
    "pair": (pa.list_(pa.float32(), 2), st.lists(st.integers(0, 3).map(float), min_size=2, max_size=2)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in FIELDS.items()])
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in FIELDS.items()}), max_size=6)


def batch(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


def digest(*batches: pa.RecordBatch, schema: pa.Schema | None = None) -> str:
    contents = AnswerDigest(batches[0].schema if schema is None else schema)
    for each in batches:
        contents.add(each)
    assert contents.text is not None
    return contents.text


def of(values: list[Any], kind: pa.DataType) -> str:
    return digest(pa.RecordBatch.from_arrays([pa.array(values, kind)], ["c"]))


def multiset(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(row) for row in batch(rows).to_pylist())


@given(ROWS, st.data())
def test_neither_order_nor_batches_nor_partitions_matter(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    cut, other = sorted((data.draw(st.integers(0, len(rows))), data.draw(st.integers(0, len(rows)))))
    whole = digest(batch(rows))
    mixed = batch(list(shuffled))
    assert digest(mixed.slice(cut, other - cut), mixed.slice(0, cut), mixed.slice(other)) == whole
    parts = [digest(mixed.slice(0, cut)), digest(mixed.slice(cut))]
    assert combine_answer_digests(parts) == whole


@given(ROWS, ROWS)
def test_other_rows_have_another_digest(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    assert (digest(batch(rows)) == digest(batch(others))) == (multiset(rows) == multiset(others))


@given(ROWS.filter(bool), st.data())
def test_one_changed_value_changes_the_answer_digest(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FIELDS)))
    changed = dict(rows[0]) | {name: data.draw(st.none() | FIELDS[name][1])}
    others = [changed, *rows[1:]]
    assert (digest(batch(rows)) == digest(batch(others))) == (multiset(rows) == multiset(others))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([None], [""]),
        (["a", ""], ["", "a", None]),
        (["a"], ["a", "a"]),
        (["ab"], ["a", "b"]),
        ([""], []),
    ],
)
def test_null_empty_and_twice_are_three_things(one: list[Any], other: list[Any]) -> None:
    assert of(one, pa.string()) != of(other, pa.string())


def test_the_border_between_two_texts_counts() -> None:
    """Columns that are only laid end to end would say the same."""
    names = ["a", "b"]
    one = pa.RecordBatch.from_arrays([pa.array(["x", "yz"]), pa.array(["yz", "x"])], names)
    other = pa.RecordBatch.from_arrays([pa.array(["xy", "yzx"]), pa.array(["z", ""])], names)
    assert digest(one) != digest(other)


def test_values_that_change_places_between_rows_count() -> None:
    """Columns that are added up each for itself would say the same."""
    one = pa.RecordBatch.from_arrays([pa.array(["x", "y"]), pa.array([1, 2])], ["a", "b"])
    other = pa.RecordBatch.from_arrays([pa.array(["x", "y"]), pa.array([2, 1])], ["a", "b"])
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (
            ["a", None, "b", "a"],
            [
                pa.string(),
                pa.large_string(),
                pa.string_view(),
                pa.dictionary(pa.int8(), pa.string()),
                pa.dictionary(pa.int32(), pa.large_string()),
            ],
        ),
        ([b"a", None, b""], [pa.binary(), pa.large_binary(), pa.binary_view()]),
        ([["a", None], None, []], [pa.list_(pa.string()), pa.large_list(pa.large_string())]),
        ([{"x": "a"}, {"x": None}, None], [pa.struct([("x", kind)]) for kind in (pa.string(), pa.large_string())]),
    ],
)
def test_the_encoding_of_values_does_not_matter(values: list[Any], kinds: list[pa.DataType]) -> None:
    assert len({of(values, kind) for kind in kinds}) == 1


def test_runs_of_a_value_count_as_the_values() -> None:
    plain = pa.array([1, 1, 2, None], pa.int64())
    runs = pc.run_end_encode(plain)
    assert digest(pa.RecordBatch.from_arrays([runs], ["c"])) == digest(pa.RecordBatch.from_arrays([plain], ["c"]))


def test_bytes_below_a_null_do_not_count() -> None:
    noisy = pa.Array.from_buffers(
        pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer((5).to_bytes(8, "little") + b"\xff" * 8)]
    )
    assert noisy.to_pylist() == [5, None]
    assert digest(pa.RecordBatch.from_arrays([noisy], ["c"])) == of([5, None], pa.int64())


@pytest.mark.parametrize(
    "other",
    [
        pa.schema([("d", pa.int64())]),
        pa.schema([("c", pa.int32())]),
        pa.schema([("c", pa.int64()), ("d", pa.int64())]),
        pa.schema([("c", pa.timestamp("us"))]),
        pa.schema([("c", pa.timestamp("us", "UTC"))]),
    ],
)
def test_names_and_types_count_even_of_no_rows(other: pa.Schema) -> None:
    schema = pa.schema([("c", pa.int64())])
    assert digest(schema=schema) != digest(schema=other)
    assert digest(schema=schema) == digest(schema=schema.with_metadata({"some": "comment"}))
    assert combine_answer_digests([digest(schema=schema), digest(schema=other)]) is None


def test_rejects_change_the_answer_digest() -> None:
    def rejecting(*rejects: tuple[str, bytes]) -> str | None:
        contents = AnswerDigest(SCHEMA)
        contents.add_rejects(rejects)
        return contents.text

    one, other = ("no JSON", b"zz"), ("no JSON", b"yy")
    assert len({rejecting(), rejecting(one), rejecting(other), rejecting(one, one), rejecting(one, other)}) == 5
    assert rejecting(one, other) == rejecting(other, one)


def test_rows_of_a_type_that_cannot_be_read_have_no_digest() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    for column in (union, pa.StructArray.from_arrays([union], ["u"])):
        rows = pa.RecordBatch.from_arrays([column], ["c"])
        contents = AnswerDigest(rows.schema)
        contents.add(rows)
        assert contents.text is None
    assert combine_answer_digests([contents.text, digest(schema=SCHEMA)]) is None
    assert combine_answer_digests([]) is None


def test_a_large_batch_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(["x" * 1000] * 5000), pa.array(range(5000))], ["a", "b"])
    whole = digest(rows)
    monkeypatch.setattr("airflow_provider_connect.stage.answer_digest._SLICE_BYTES", 10_000)
    assert digest(rows) == whole
    monkeypatch.setattr("airflow_provider_connect.stage.answer_digest._SLICE_BYTES", 1)
    assert digest(rows.slice(0, 100)) == digest(rows.slice(50, 50), rows.slice(0, 50))


def test_the_digest_of_given_rows_is_what_it_was() -> None:
    """Another process reads it from a ledger: nothing of this one may be in it, such as a seed."""
    rows = [dict.fromkeys(FIELDS), {"text": "é", "number": -1, "list": ["a", None], "map": [("k", 1)]}]
    assert digest(batch(rows)) == "8f0d7a0580d1ff0836020bef6c62dc67b146e69893bab6b5"
