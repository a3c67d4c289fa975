from __future__ import annotations

import datetime as dt
import json
import re
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_connect.sinks._bigquery.columns.rows import (
    MAX_RECORD_BYTES,
    convert_batch,
    staging_schema,
    summarize_rejects,
)
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sources._mixpanel.columns import schema as mixpanel_schema


def one(kind: pa.DataType, values: list[Any], *, nullable: bool = True, **metadata: str) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, kind)], schema=pa.schema([pa.field("x", kind, nullable, metadata)]))


def bad_rows(batch: pa.RecordBatch, **options: Any) -> list[tuple[int, str]]:
    found = convert_batch(batch, make_columns(batch.schema), 0, **options)
    assert found.batch.num_rows + len(found.rejects) == batch.num_rows
    return [(row.position, row.reason) for row in found.rejects]


def addresses(batch: pa.RecordBatch) -> list[int]:
    return [buffer.address for column in batch.columns for buffer in column.buffers() if buffer]


@pytest.fixture(scope="module")
def mixpanel() -> pa.RecordBatch:
    schema = mixpanel_schema((("plan", "plan", "string"),))
    rows = 24 * 1024
    properties = json.dumps({f"key {i}": {"name": ["some text"]} for i in range(18)} | {"é": "\U0001f389"})
    values = {"properties": properties, "time_local": None, "time": 10**15, "processing_time": 10**15}
    arrays = [pa.array([values.get(field.name, "some text of an event")] * rows, field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def test_a_correct_batch_is_not_copied(mixpanel: pa.RecordBatch):
    converted = convert_batch(mixpanel, make_columns(mixpanel.schema), 0)
    assert converted.rejects == []
    assert addresses(converted.batch) == addresses(mixpanel)


def test_a_correct_batch_costs_far_less_than_checking_each_row(mixpanel: pa.RecordBatch):
    found = make_columns(mixpanel.schema)

    def best(work: Callable[[], Any]) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return min(times)

    each_row = best(lambda: [column.to_pylist() for column in mixpanel.columns])
    assert best(lambda: convert_batch(mixpanel, found, 0)) < 0.5 * each_row  # a tenth, alone on the machine


def test_positions_count_rows_of_the_file_including_rejected_ones():
    batch = one(pa.time64("us"), [0, 86_400_000_000, 5])
    found = convert_batch(batch, make_columns(batch.schema), 100, position_column="connect_position")
    assert found.batch.column("connect_position").to_pylist() == [100, 102]
    assert found.batch.schema == staging_schema(make_columns(batch.schema), "connect_position")
    assert [row.position for row in found.rejects] == [101]


def test_null_in_a_required_column_is_rejected():
    reason = "NULL, although the source's schema allows none"
    assert bad_rows(one(pa.string(), ["a", None], nullable=False)) == [(1, reason)]
    assert bad_rows(one(pa.dictionary(pa.int8(), pa.string()), [None, "a"], nullable=False)) == [(0, reason)]


def test_texts_that_are_not_utf8_are_rejected():
    strings = pa.array([b"ok", b"\xff\xfe", None, b"", "é".encode()]).view(pa.string())
    batch = pa.record_batch([strings, pa.array(range(5))], ["x", "n"])
    assert bad_rows(batch) == [(1, "a text that is not UTF-8")]
    nested = pa.record_batch([pa.ListArray.from_arrays([0, 1, 1, 5], strings)], ["x"])
    assert [row for row, _ in bad_rows(nested)] == [0 + 2]


def test_rows_that_are_too_large_are_found_among_many():
    texts = ["x" * 10] * 3000
    texts[1234], texts[2999] = "y" * 5000, "z" * 5001
    reason = "a row of more than 5000 bytes"
    batch = pa.record_batch([texts, [[1, 2]] * 3000], ["x", "l"])
    assert bad_rows(batch, max_row_bytes=5000) == [(1234, reason), (2999, reason)]
    assert bad_rows(batch, max_row_bytes=6000) == []
    assert convert_batch(batch, make_columns(batch.schema), 0, max_row_bytes=5000).rejects[0].column == "x"


def test_a_bad_row_is_kept_as_json():
    values: dict[str, Any] = {
        "b": b"\0\xff",
        "d": Decimal("1.50"),
        "f": float("nan"),
        "t": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "l": [{"k": "é", "m": [("a", dt.date(2026, 1, 1))]}, None],
        "n": None,
    }
    types = {"l": pa.list_(pa.struct([("k", pa.string()), ("m", pa.map_(pa.string(), pa.date32()))]))}
    arrays = [pa.array([value], types.get(name)) for name, value in values.items()]
    batch = pa.record_batch([*arrays, pa.array([2**40]).view(pa.time64("us"))], [*values, "late"])
    (bad,) = convert_batch(batch, make_columns(batch.schema), 7).rejects
    assert (bad.position, bad.column) == (7, "l")
    record = json.loads(bad.record)
    assert record.pop("late")
    assert record == {
        "b": "AP8=",
        "d": "1.50",
        "f": "nan",
        "t": "2026-01-01T00:00:00+00:00",
        "l": [{"k": "é", "m": [["a", "2026-01-01"]]}, None],
        "n": None,
    }


def test_a_value_beyond_the_calendar_does_not_hide_the_row():
    batch = one(pa.timestamp("us"), [0]).set_column(0, "x", pa.array([2**62]).view(pa.timestamp("us")))
    (bad,) = convert_batch(batch, make_columns(batch.schema), 0).rejects
    assert bad.reason == "a time outside of the years 1 to 9999"
    assert set(json.loads(bad.record)) == {"x"}


def test_the_record_of_a_huge_row_is_cut_and_its_reason_says_so():
    batch = pa.record_batch([["é" * MAX_RECORD_BYTES]], ["x"])
    (bad,) = convert_batch(batch, make_columns(batch.schema), 0, max_row_bytes=1000).rejects
    assert MAX_RECORD_BYTES - 2 < len(bad.record) <= MAX_RECORD_BYTES
    assert bad.record.decode().endswith("é")
    assert "only the first 1000000 bytes" in bad.reason


def test_the_summary_names_columns_and_counts_and_no_value():
    batch = pa.record_batch(
        [pa.array([None, "SECRET{", "SECRET[", "1"]), pa.array([[1], [None], [None], [2]])],
        schema=pa.schema([pa.field("j", pa.string(), metadata={"json": "unchecked"}), ("l", pa.list_(pa.int8()))]),
    )
    bad = convert_batch(batch, make_columns(batch.schema), 0).rejects
    assert summarize_rejects(bad) == "column 'j': 2 rows with a text that is not JSON"
    assert "SECRET" not in summarize_rejects(bad)


def test_values_under_a_null_are_not_checked():
    lists = pa.array([[1], [None], [2]], pa.list_(pa.int8()))
    structs = pa.StructArray.from_arrays([lists], ["l"], mask=pa.array([False, True, False]))
    batch = pa.record_batch([structs], ["s"])
    found = convert_batch(batch, make_columns(batch.schema), 0)
    assert found.rejects == []
    assert found.batch.to_pylist() == [{"s": {"l": [1]}}, {"s": None}, {"s": {"l": [2]}}]


def test_a_column_that_is_left_out_is_not_checked():
    batch = pa.record_batch([pa.array([[None]], pa.list_(pa.int8())), pa.array([1])], ["l", "n"])
    kept = [column for column in make_columns(batch.schema) if column.name == "n"]
    found = convert_batch(batch, kept, 0)
    assert (found.rejects, found.batch.to_pylist()) == ([], [{"n": 1}])


def mend(text: str) -> str:
    batch = one(pa.string(), [None, text, "{}"], json="checked")
    none, mended, other = convert_batch(batch, make_columns(batch.schema), 0).batch.column("x").to_pylist()
    assert (none, other) == (None, "{}")
    return str(mended)


@given(st.text() | st.lists(st.sampled_from(["\\", "\ud83c", "\udf89", "ud83c", "u", "a", '"', "é"])).map("".join))
@example("\\ud83c\udf89")
@example("\\\ud83c\udf89")
def test_lone_surrogates_are_replaced_and_nothing_else_changes(text: str):
    document = json.dumps([text])
    whole = json.loads(document)[0]  # halves that stand side by side are one character
    assert json.loads(mend(document)) == [re.sub("[\ud800-\udfff]", "\ufffd", whole)]
    if not re.search("[\ud800-\udfff]", whole):
        assert mend(document) == document


def test_an_empty_batch_is_converted():
    batch = pa.record_batch([pa.array([], pa.map_(pa.string(), pa.int8()))], ["m"])
    assert convert_batch(batch, make_columns(batch.schema), 0).batch.num_rows == 0


# A reference in plain Python, for types that are nested in any way.


class RefusedError(Exception):
    pass


LEAVES = {
    pa.int8(): st.integers(-128, 127),
    pa.large_string(): st.text(max_size=3),
    pa.timestamp("ns"): st.integers(-2000, 2000),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", ""]),
}


def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    struct = st.lists(inner, min_size=1, max_size=2).map(
        lambda kinds: pa.struct([(f"f{i}", k) for i, k in enumerate(kinds)])
    )
    return struct | inner.map(pa.list_) | inner.map(pa.large_list) | inner.map(lambda kind: pa.map_(pa.int8(), kind))


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        some = st.fixed_dictionaries({kind.field(i).name: values(kind.field(i).type) for i in range(kind.num_fields)})
    elif pa.types.is_map(kind):
        some = st.lists(st.tuples(st.integers(-9, 9), values(kind.item_type)), max_size=2)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        some = st.lists(values(kind.value_type), max_size=3)
    else:
        some = LEAVES[kind]
    return some | some | some | st.none()


def reference(kind: pa.DataType, value: Any) -> Any:
    """Return what BigQuery should get for a value."""
    if pa.types.is_map(kind):
        return [{"key": key, "value": reference(kind.item_type, inner)} for key, inner in value or []]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if None in (value or []):
            raise RefusedError
        inner = [reference(kind.value_type, element) for element in value or []]
        return [{"items": element} for element in inner] if inner and isinstance(inner[0], list) else inner
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {name: reference(kind.field(name).type, inner) for name, inner in value.items()}
    if pa.types.is_timestamp(kind):
        if value % 1000:
            raise RefusedError
        return dt.datetime.fromisoformat("1970-01-01") + dt.timedelta(microseconds=value // 1000)
    return value


kinds = st.recursive(st.sampled_from(list(LEAVES)), nested, max_leaves=4)


@given(st.data())
def test_any_nesting_is_converted_as_the_reference_does(data: st.DataObject):
    kind = data.draw(kinds)
    rows = data.draw(st.lists(values(kind), max_size=6))
    start = data.draw(st.integers(0, len(rows)))
    batch = one(kind, rows).slice(start)
    good, bad = [], []
    for position, row in enumerate(rows[start:], start):
        try:
            good.append({"x": reference(kind, row)})
        except RefusedError:
            bad.append(position)
    found = convert_batch(batch, make_columns(batch.schema), start)
    found.batch.validate(full=True)
    assert [row.position for row in found.rejects] == bad
    assert found.batch.to_pylist() == good
