"""JSON values: the same as a slow row-wise writer's, for every type, and nothing that is no JSON."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from airflow_provider_connect.sinks._kafka.converters import make_converter
from airflow_provider_connect.values.arrow import is_text, type_group
from airflow_provider_connect.values.converters import EncodedBatch
from tests.equipment.arrow_rows import batches, python_time

DAY = dt.date(2026, 10, 1)


def encode(batch: pa.RecordBatch, name: str = "json", value_field: str | None = None) -> EncodedBatch:
    return make_converter(name, batch.schema, DAY, record_name="a.B", value_field=value_field).encode(batch, None)


def one(array: pa.Array, **field: Any) -> EncodedBatch:
    return encode(pa.record_batch([array], schema=pa.schema([pa.field("c", array.type, **field)])))


def parsed(text: bytes | None) -> Any:
    assert text is not None
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def same(found: Any, value: Any, kind: pa.DataType) -> bool:
    """Tell whether parsed JSON is what a value of a type should have become."""
    if value is None:
        return found is None
    if pa.types.is_dictionary(kind):
        return same(found, value, kind.value_type)
    if pa.types.is_struct(kind):
        return list(found) == [f.name for f in kind] and all(same(found[f.name], value[f.name], f.type) for f in kind)
    if pa.types.is_map(kind):
        pairs = list(found.items()) if is_text(kind.key_type) else found
        return len(pairs) == len(value) and all(
            same(pair[0], key, kind.key_type) and same(pair[1], item, kind.item_type)
            for pair, (key, item) in zip(pairs, value, strict=True)
        )
    if isinstance(value, list):
        return len(found) == len(value) and all(same(a, b, kind.value_type) for a, b in zip(found, value, strict=True))
    return bool(leaf_same(found, value, kind))


def leaf_same(found: Any, value: Any, kind: pa.DataType) -> bool:
    if type_group(kind) == "binary":
        return bool(base64.b64decode(found) == value)
    if isinstance(value, float | np.floating):
        narrow = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width]
        return narrow(found) == narrow(value) and math.copysign(1, found) == math.copysign(1, value)
    value = python_time(value)
    if isinstance(value, dt.datetime):
        zone = "Z" if kind.tz else ""
        plain = value.astimezone(dt.UTC).replace(tzinfo=None) if kind.tz else value
        return bool(found == plain.isoformat(timespec="microseconds") + zone)
    if isinstance(value, dt.time):
        return bool(found == value.isoformat(timespec="microseconds"))
    if isinstance(value, dt.date):
        return bool(found == value.isoformat())
    return type(found) in (str, bool, Decimal) and found == value


@given(batches())
def test_every_row_is_what_a_slow_writer_makes_of_it(batch: pa.RecordBatch) -> None:
    made = encode(batch)
    assert made.refused == {}
    assert len(made.values) == batch.num_rows
    columns = [array.to_pylist() for array in batch.columns]
    for row, text in enumerate(made.values):
        found = parsed(text)
        assert list(found) == ["day", *batch.schema.names]
        assert found.pop("day") == "2026-10-01"
        for field, values in zip(batch.schema, columns, strict=True):
            assert same(found[field.name], values[row], field.type), field


def test_text_is_escaped_only_where_json_asks_for_it() -> None:
    texts = ['plain "quoted" \\ back', "é\u2028\U0001f600\x7f", "line\nfeed\x00", "", None]
    made = one(pa.array(texts))
    assert [parsed(value)["c"] for value in made.values] == texts
    assert made.values[1] == '{"day":"2026-10-01","c":"é\u2028\U0001f600\x7f"}'.encode()


@pytest.mark.parametrize("text", ["a\\b", 'a"b', "a\x1fb", "a\x7fb"])
def test_each_special_character_is_escaped_without_another_one_beside_it(text: str) -> None:
    made = one(pa.array(["x", text, None, ""]))
    assert [parsed(value)["c"] for value in made.values] == ["x", text, None, ""]


@pytest.mark.parametrize("kind", [pa.list_view(pa.string()), pa.large_list_view(pa.string())], ids=str)
def test_a_list_of_another_layout_is_a_list(kind: pa.DataType) -> None:
    array = pa.array([["x", None], None, [], ["y"]], kind)
    assert [parsed(value)["c"] for value in one(array).values] == array.to_pylist()
    assert [parsed(value)["c"] for value in one(array.slice(2)).values] == [[], ["y"]]


def test_a_checked_document_is_spliced_byte_for_byte_and_an_unchecked_one_is_parsed_before() -> None:
    text = '{ "b":1.0,\n"a" : [1e400, "\\ud800"]}'
    made = one(pa.array([text, None]), metadata={"json": "checked"})
    assert made.values == [f'{{"day":"2026-10-01","c":{text}}}'.encode(), b'{"day":"2026-10-01","c":null}']
    made = one(pa.array(["[1]", "NaN", "", '{"a":1} x', None]), metadata={"json": "unchecked"})
    assert made.refused == dict.fromkeys((1, 2, 3), ("c", "a text that is not JSON"))
    assert [value is None for value in made.values] == [False, True, True, True, False]


NAN = "NaN or an infinity, which JSON does not have"
UTF8 = "a text that is not UTF-8"
BAD = pa.array([b"ok", b"\xff", b"ok"]).view(pa.string())
LONG_AGO = pa.array([-(10**17), 0, 4 * 10**17]).view(pa.timestamp("us"))


@pytest.mark.parametrize(
    ("array", "refused"),
    [
        (pa.array([1.0, math.nan, -math.inf, None]), {1: NAN, 2: NAN}),
        (pa.array([[1.0], [], [2.0, math.nan]]), {2: NAN}),
        (pa.array([{"a": [math.inf]}, None, {"a": None}]), {0: NAN}),
        (pa.array([[("k", 1.0)], [("k", math.nan)]], pa.map_(pa.string(), pa.float64())), {1: NAN}),
        (BAD, {1: UTF8}),
        (pa.ListArray.from_arrays(pa.array([0, 0, 3], pa.int32()), BAD), {1: UTF8}),
        (pa.array([1, 2000], pa.timestamp("ns")), {0: "a time finer than a microsecond"}),
        (LONG_AGO, dict.fromkeys((0, 2), "a time outside of the years 1 to 9999")),
        (pa.array([-800_000, 0], pa.int32()).view(pa.date32()), {0: "a date outside of the years 1 to 9999"}),
        (
            pa.array([86_400, 0], pa.int32()).view(pa.time32("s")),
            {0: "a time of day outside of 00:00 to 23:59:59.999999"},
        ),
        (
            pa.array([[(1, "x"), (1, "y")], [(2, "z")], [(1, "q")]], pa.map_(pa.int32(), pa.string())),
            {0: "a map with a key that comes twice"},
        ),
    ],
    ids=str,
)
def test_what_json_cannot_say_is_refused_with_its_row_alone(array: pa.Array, refused: dict[int, str]) -> None:
    made = one(array)
    assert made.refused == {row: ("c", reason) for row, reason in refused.items()}
    assert [row for row, value in enumerate(made.values) if value is None] == sorted(refused)


def test_a_null_that_the_schema_rules_out_is_refused() -> None:
    made = one(pa.array([1, None]), nullable=False)
    assert made.refused == {1: ("c", "NULL, though the source's schema says that there is none")}


def test_a_binary_date_or_null_of_a_null_struct_is_no_fault() -> None:
    inner = pa.array([math.nan, 1.0])
    array = pa.StructArray.from_arrays([inner], names=["a"], mask=pa.array([True, False]))
    made = one(array)
    assert made.refused == {}
    assert made.values[0] == b'{"day":"2026-10-01","c":null}'


def test_problems_name_the_columns() -> None:
    schema = pa.schema(
        {
            "a": pa.duration("s"),
            "b": pa.list_(pa.duration("s")),
            "day": pa.string(),
            "c": pa.map_(pa.list_(pa.int8()), pa.int8()),
        }
    )
    found = make_converter("json", schema, DAY, record_name="a.B").problems()
    assert [text.partition(":")[0] for text in found] == [
        "column 'day' has the name of the field that holds the record's day",
        "column 'a'",
        "column 'b'",
        "column 'c'",
    ]
    without_day = make_converter("json", schema, None, record_name="a.B").problems()
    assert without_day == found[1:]


@pytest.mark.parametrize(
    ("name", "array", "values"),
    [
        ("string", pa.array(["é", None, ""]), ["é".encode(), None, b""]),
        ("string", pa.array(["x", "y"]).dictionary_encode(), [b"x", b"y"]),
        ("bytes", pa.array([b"\xff", None]), [b"\xff", None]),
        ("bytes", pa.array([b"abc"], pa.binary(3)), [b"abc"]),
        ("bytes", pa.array(["é"]), ["é".encode()]),
    ],
)
def test_a_raw_value_is_the_column_itself(name: str, array: pa.Array, values: list[bytes | None]) -> None:
    assert encode(pa.record_batch({"c": array}), name, "c") == EncodedBatch(values, {})
    made = make_converter(name, pa.schema({"c": array.type}), DAY, record_name="a.B", value_field="c")
    assert made.problems() == []


def test_a_raw_value_needs_a_column_that_can_be_one() -> None:
    schema = pa.schema({"n": pa.int64(), "b": pa.binary()})
    for name, field, said in [
        ("string", "b", "column 'b' is binary"),
        ("bytes", "n", "column 'n' is int64"),
    ]:
        (problem,) = make_converter(name, schema, DAY, record_name="a.B", value_field=field).problems()
        assert said in problem
    made = encode(pa.record_batch({"c": BAD}), "string", "c")
    assert made == EncodedBatch([b"ok", None, b"ok"], {1: ("c", UTF8)})


@pytest.mark.parametrize("name", ["json", "json_schema_envelope", "avro", "json_schema", "protobuf"])
def test_null_alone_inside_a_nested_type_is_refused_since_arrow_may_crash_on_it(name: str) -> None:
    kinds = [pa.map_(pa.string(), pa.null()), pa.struct([pa.field("a", pa.list_(pa.null()))]), pa.null(), pa.string()]
    schema = pa.schema([pa.field(f"c{number}", kind) for number, kind in enumerate(kinds)])
    found = make_converter(name, schema, DAY, record_name="r.R").problems()
    assert [text.split("'")[1] for text in found] == ["c0", "c1"]
    assert all("has no form for Arrow's" in text and "null" in text for text in found)
