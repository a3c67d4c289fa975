"""Casts are exact or do not happen: each against plain Python."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.shapes import Cast, Chain
from airflow_provider_connect.values.ddl import PLAIN_TYPES, arrow_type, plain_type_name, spark_type

from .rows import TYPES, column, shaped

BIG = (-(2**63), 2**63 - 1)
EPOCH = dt.datetime.fromisoformat("1970-01-01T00:00:00+00:00")
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def within(low: int, high: int) -> Callable[[Any], int | None]:
    return lambda value: int(value) if low <= value <= high and int(value) == value else None


def whole_text(low: int, high: int) -> Callable[[str], int | None]:
    return lambda text: within(low, high)(int(text)) if re.fullmatch("-?[0-9]+", text, re.ASCII) else None


def as_decimal(value: Any) -> Decimal | None:
    text = repr(value) if isinstance(value, float) else str(value)
    if not NUMBER.fullmatch(text):
        return None
    try:
        number = Decimal(text).quantize(Decimal("0.01"), context=Context(prec=38, traps=[Inexact, InvalidOperation]))
    except (Inexact, InvalidOperation):
        return None
    return number + 0 if abs(number) < 10**8 else None  # no minus before nought


def as_float(text: str) -> float | None:
    return float(text) if NUMBER.fullmatch(text) and math.isfinite(float(text)) else None


def single(value: float) -> float | None:
    if not math.isfinite(value):
        return value
    try:
        near = float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return None
    return near if math.isfinite(near) else None


def finite(whole: Callable[[float], int | None]) -> Callable[[float], int | None]:
    return lambda value: whole(value) if math.isfinite(value) else None


def truth(text: str) -> bool | None:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower())


def utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def zulu(value: dt.datetime) -> str:
    return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


FRACTIONS = st.decimals(-(10**20), 10**20, places=9)
NUMBERS = st.one_of(
    st.sampled_from(
        ["", "0x1f", "+5", " 5", "1_000", "nan", "Infinity", "1e400", "-0", "007", "\u0661", "1.50", "1e2", "true", "é"]
    ),
    st.integers(-(2**65), 2**65).map(str),
    st.floats().map(repr),
    st.decimals(-(10**9), 10**9, places=3).map(str),
)
CASES: list[tuple[str, st.SearchStrategy[Any], str, Callable[[Any], Any]]] = [
    ("big", st.integers(*BIG), "TINYINT", within(-128, 127)),
    ("big", st.integers(-3, 3), "BOOLEAN", {0: False, 1: True}.get),
    ("big", st.integers(*BIG), "DOUBLE", lambda value: float(value) if abs(value) <= 2**53 else None),
    ("big", st.integers(-(10**9), 10**9), "DECIMAL(10,2)", as_decimal),
    ("big", st.integers(*BIG), "STRING", str),
    ("unsigned", st.integers(0, 2**64 - 1), "BIGINT", within(*BIG)),
    ("boolean", st.booleans(), "INT", int),
    ("boolean", st.booleans(), "STRING", lambda value: str(value).lower()),
    ("double", st.floats() | st.integers(-(2**62), 2**62).map(float), "BIGINT", finite(within(*BIG))),
    ("double", st.floats(), "FLOAT", single),
    ("double", st.floats() | st.decimals(-(10**9), 10**9, places=2).map(float), "DECIMAL(10,2)", as_decimal),
    ("decimal", st.integers(-(2**33), 2**33).map(Decimal) | FRACTIONS, "INT", within(-(2**31), 2**31 - 1)),
    ("decimal", st.decimals(-(10**9), 10**9, places=3), "DECIMAL(10,2)", as_decimal),
    ("decimal", st.decimals(-(10**20), 10**20, places=9), "DOUBLE", float),
    ("text", NUMBERS, "BIGINT", whole_text(*BIG)),
    ("text", NUMBERS, "TINYINT", whole_text(-128, 127)),
    ("text", NUMBERS, "DOUBLE", as_float),
    ("text", NUMBERS, "DECIMAL(10,2)", as_decimal),
    ("text", NUMBERS | st.sampled_from(["TRUE", "False", "1", "0", "yes"]), "BOOLEAN", truth),
    ("text", st.text(), "BINARY", str.encode),
    ("bytes", st.binary() | st.text().map(str.encode), "STRING", utf8),
    ("date", st.dates(), "STRING", dt.date.isoformat),
    ("date", st.dates(), "TIMESTAMP", lambda day: dt.datetime.combine(day, dt.time(), dt.UTC)),
    ("instant", TYPES["instant"][1], "DATE", dt.datetime.date),
    ("elsewhere", TYPES["elsewhere"][1], "DATE", dt.datetime.date),
    ("elsewhere", TYPES["elsewhere"][1], "TIMESTAMP_NTZ", lambda value: value.replace(tzinfo=None)),
    ("instant", TYPES["instant"][1], "STRING", zulu),
    ("wall", TYPES["wall"][1], "TIMESTAMP", lambda value: value.replace(tzinfo=dt.UTC)),
    ("time", TYPES["time"][1], "STRING", lambda value: value.isoformat(timespec="microseconds")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "wanted", "expected"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES])
@given(data=st.data())
def test_a_value_becomes_the_same_value_or_does_not_fit(
    name: str, values: Any, wanted: str, expected: Callable[[Any], Any], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.none() | values, max_size=5))
    batch = column(drawn, TYPES[name][0])
    told = [None if value is None else expected(value) for value in drawn]
    made, counts = shaped([{"cast": {"columns": {"a": wanted}, "on_error": "null"}}], batch)
    assert repr(made.column("a").to_pylist()).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == repr(
        told
    )
    assert counts["shape_0_cast"] == len(told) - told.count(None)
    assert counts["shape_0_cast_null"] == told.count(None) - drawn.count(None)


@pytest.mark.parametrize(
    ("wanted", "read", "not_read"),
    [
        ("DATE", {"2026-03-01": "2026-03-01"}, ["2026-02-30", "20260301", "2026-03-01T00:00:00"]),
        (
            "TIMESTAMP",
            {
                "2026-03-01T12:00:00+01:00": "2026-03-01T11:00:00+00:00",
                "2026-03-01 11:00": "2026-03-01T11:00:00+00:00",
                "2026-03-01": "2026-03-01T00:00:00+00:00",
            },
            ["1772362800", "2026-03-01T25:00:00", "now"],
        ),
        (
            "TIMESTAMP_NTZ",
            {"2026-03-01T12:00:00": "2026-03-01T12:00:00", "2026-03-01": "2026-03-01T00:00:00"},
            ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00-05:00", "2026-03-01 12:00:00+05"],
        ),
    ],
)
def test_times_are_iso_8601(wanted: str, read: dict[str, str], not_read: list[str]) -> None:
    batch = column([*read, *not_read, None])
    made, counts = shaped([{"cast": {"columns": {"a": wanted}, "on_error": "null"}}], batch)
    assert [value and value.isoformat() for value in made.column("a").to_pylist()] == [
        *read.values(),
        *[None] * (len(not_read) + 1),
    ]
    assert counts["shape_0_cast_null"] == len(not_read)


@given(numbers=st.lists(st.none() | st.integers(*BIG) | st.integers(-(10**12), 10**12), max_size=5))
@pytest.mark.parametrize(("form", "per_second"), [("epoch_s", 1), ("epoch_ms", 1000), ("epoch_us", 10**6)])
def test_numbers_tell_a_time_and_back(form: str, per_second: int, numbers: list[int | None]) -> None:
    def instant(number: int | None) -> dt.datetime | None:
        try:
            return None if number is None else EPOCH + dt.timedelta(microseconds=number * 10**6 // per_second)
        except OverflowError:
            return None

    one = {"cast": {"columns": {"a": "TIMESTAMP"}, "format": form, "on_error": "null"}}
    made, _ = shaped([one], column(numbers, pa.int64()))
    told = [instant(number) for number in numbers]
    assert made.column("a").to_pylist() == told
    back, _ = shaped([one, {"cast": {"columns": {"a": "BIGINT"}, "format": form}}], column(numbers, pa.int64()))
    assert back.column("a").to_pylist() == [
        number if time else None for number, time in zip(numbers, told, strict=True)
    ]


def test_parts_become_a_json_document() -> None:
    batch = column([{"x": 1, "y": [True, None], "z": {"t": 'é"'}}, None])
    made, _ = shaped([{"cast": {"columns": {"a": "STRING"}}}], batch)
    assert [text and json.loads(text) for text in made.column("a").to_pylist()] == batch.column("a").to_pylist()
    assert made.schema.field("a").metadata == {b"json": b"checked"}
    assert Chain.of([Cast(columns={"a": "BINARY"})]).result_schema(
        pa.schema([pa.field("a", pa.string(), metadata={"json": "checked"})])
    ).field("a").metadata is None  # fmt: skip


def test_a_value_that_does_not_fit_fails_the_day_and_is_not_told() -> None:
    batch = column(["secret-1", "2", None, "secret-3"])
    with pytest.raises(
        DataError, match=r"^shape\[0\] \(\w+\): of 4 rows, 2 values of column 'a' do not fit BIGINT\. .*on_error='null'"
    ) as error:
        shaped([{"cast": {"columns": {"a": "BIGINT"}}}], batch)
    assert "secret" not in str(error.value)


def test_a_column_without_null_may_have_it_where_misfits_become_null() -> None:
    schema = pa.schema([pa.field("a", pa.string(), nullable=False)])
    assert not Cast(columns={"a": "BIGINT"}).result_schema(schema).field("a").nullable
    assert Cast(columns={"a": "BIGINT"}, on_error="null").result_schema(schema).field("a").nullable


@pytest.mark.parametrize(
    ("kind", "wanted", "told"),
    [
        (pa.int64(), "TIMESTAMP", "set format to the unit of the numbers"),
        (pa.timestamp("us"), "BIGINT", "set format to the unit of the numbers"),
        (pa.list_(pa.int64()), "BIGINT", "nothing makes BIGINT of list"),
        (pa.duration("s"), "STRING", "nothing makes STRING of duration"),
        (pa.binary(), "BIGINT", "nothing makes BIGINT of binary"),
        (pa.bool_(), "DATE", "nothing makes DATE of bool"),
    ],
)
def test_what_nothing_casts_is_told_before_the_run(kind: pa.DataType, wanted: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"column 'a': {told}"):
        Cast(columns={"a": wanted}).result_schema(pa.schema([("a", kind)]))


def test_types_are_those_of_spark() -> None:
    for name in (*PLAIN_TYPES, "DECIMAL(10,2)", "DECIMAL(38,38)"):
        assert spark_type(arrow_type(name)) == name == plain_type_name(name.lower())
    for wrong, told in {
        "BIGIN": "did you mean 'BIGINT'?",
        "DECIMAL(39,1)": "up to 38 digits",
        "DECIMAL(2,3)": "up to 38",
        "?": "known: BOOLEAN",
    }.items():
        with pytest.raises(ConfigError, match=f"columns.a: .*{re.escape(told)}"):
            Cast(columns={"a": wrong})
