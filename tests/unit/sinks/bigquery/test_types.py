"""One case for each row of the mapping, with the extreme values of its types."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._bigquery.columns.rows import convert_batch, staging_schema
from airflow_provider_connect.sinks._bigquery.columns.types import MAX_DESCRIPTION, make_columns, sql_type

DOCS = Path(__file__).parents[4] / "docs" / "bigquery.md"
US = dt.timedelta(microseconds=1)
FIRST, LAST = map(dt.datetime.fromisoformat, ("0001-01-01", "9999-12-31T23:59:59.999999"))
NUMERIC_MAX = Decimal("9" * 29 + "." + "9" * 9)
BIG = Decimal("9" * 38 + "." + "9" * 38)
SAME = object()


@dataclass
class Case:
    """What values of a type are sent as, and the target's type; none is refused, unless ``bad`` has it."""

    kind: pa.DataType
    values: list[Any]
    sql: str
    sent: list[Any] = field(default_factory=lambda: [SAME])
    bad: list[Any] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)


def ints(kind: pa.DataType, low: int, high: int, sql: str = "INT64") -> Case:
    return Case(kind, [low, 0, None, high], sql)


CASES: dict[str, list[Case]] = {
    "bool": [Case(pa.bool_(), [True, False, None], "BOOL")],
    "int8, int16, int32, int64": [
        ints(pa.int8(), -128, 127),
        ints(pa.int16(), -(2**15), 2**15 - 1),
        ints(pa.int32(), -(2**31), 2**31 - 1),
        ints(pa.int64(), -(2**63), 2**63 - 1),
    ],
    "uint8, uint16, uint32": [
        ints(pa.uint8(), 0, 255),
        ints(pa.uint16(), 0, 2**16 - 1),
        ints(pa.uint32(), 0, 2**32 - 1),
    ],
    "uint64": [ints(pa.uint64(), 0, 2**64 - 1, "NUMERIC")],
    "float16, float32, float64": [
        Case(kind, [float("-inf"), -0.0, 2**-14, None, 65504.0, float("inf")], "FLOAT64")
        for kind in (pa.float16(), pa.float32(), pa.float64())
    ]
    + [Case(pa.float64(), [-1.7976931348623157e308, 5e-324, 1.7976931348623157e308], "FLOAT64")],
    "decimal, at most 9 digits after and 29 before the point": [
        Case(pa.decimal128(38, 9), [NUMERIC_MAX.copy_negate(), None, Decimal("1E-9"), NUMERIC_MAX], "NUMERIC"),
        Case(pa.decimal128(29, 0), [Decimal("9" * 29)], "NUMERIC"),
        Case(pa.decimal128(5, -3), [Decimal("-9.9999E+7")], "NUMERIC"),
        Case(pa.decimal32(9, 9), [Decimal("0.999999999")], "NUMERIC"),
        Case(pa.decimal64(18, 2), [Decimal("-9999999999999999.99")], "NUMERIC"),
        Case(pa.decimal256(38, 9), [NUMERIC_MAX.copy_negate()], "NUMERIC"),
    ],
    "decimal, at most 38 digits after and 38 before the point": [
        Case(pa.decimal256(76, 38), [BIG.copy_negate(), None, Decimal("1E-38"), BIG], "BIGNUMERIC"),
        Case(pa.decimal128(38, 0), [Decimal("9" * 38)], "BIGNUMERIC"),
        Case(pa.decimal128(30, 0), [Decimal("9" * 30)], "BIGNUMERIC"),
        Case(pa.decimal128(10, 10), [Decimal("0.9999999999")], "BIGNUMERIC"),
    ],
    "decimal of more digits": [
        Case(pa.decimal256(39, 0), [], "refused"),
        Case(pa.decimal256(39, 39), [], "refused"),
    ],
    "string, large_string, string_view": [
        Case(kind, ["", None, "é\n\t\0", "🎉𐍈" * 1000, "\u2028\ufffd"], "STRING")
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    ],
    "string with field metadata `json`": [
        Case(
            pa.string(),
            ['{"a":"🎉"}', None, "null", "[" * 600 + "]" * 600, "1e400", '"\\ud83c\\udf89 \\ud800 \\\\ud800"'],
            "JSON",
            ['{"a":"🎉"}', None, "null", "[" * 600 + "]" * 600, "1e400", '"\\ud83c\\udf89 \\ufffd \\\\ud800"'],
            metadata={"json": "checked"},
        ),
        Case(
            pa.dictionary(pa.int8(), pa.large_string()),
            ["{}", None, "-1.5e-7", '"\\udfff"', "1e400", "[" * 5000 + "]" * 5000],
            "JSON",
            ["{}", None, "-1.5e-7", '"\\ufffd"', "1e400", "[" * 5000 + "]" * 5000],
            bad=["", "{", "NaN", "1e400e", "{'a':1}", "[" * 5000 + "]" * 4999],
            metadata={"json": "unchecked"},
        ),
    ],
    "binary, large_binary, binary_view, fixed_size_binary": [
        Case(kind, [b"", None, bytes(range(256))], "BYTES")
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    ]
    + [Case(pa.binary(2), [b"\0\xff", None], "BYTES")],
    "date32, date64": [
        Case(pa.date32(), [FIRST.date(), None, LAST.date()], "DATE", bad=[-719_163, 2_932_897, 2**31 - 1]),
        Case(pa.date64(), [FIRST.date(), None, LAST.date()], "DATE", bad=[-(2**31) * 86_400_000]),
    ],
    "time32, time64": [
        Case(pa.time32("s"), [dt.time(), None, dt.time(23, 59, 59)], "TIME", bad=[86_400, -1]),
        Case(pa.time32("ms"), [dt.time(), dt.time(23, 59, 59, 999000)], "TIME"),
        Case(pa.time64("us"), [dt.time(), LAST.time()], "TIME", bad=[86_400_000_000]),
        Case(pa.time64("ns"), [dt.time(), None, LAST.time()], "TIME", bad=[86_399_999_999_999, 1]),
    ],
    "timestamp with a zone": [
        Case(
            pa.timestamp("us", "UTC"),
            [FIRST.replace(tzinfo=dt.UTC), None, LAST.replace(tzinfo=dt.UTC)],
            "TIMESTAMP",
            bad=[-62_135_596_800_000_001, 253_402_300_800_000_000, 2**63 - 1],
        ),
        Case(pa.timestamp("s", "Asia/Kathmandu"), [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], "TIMESTAMP", bad=[2**62]),
        Case(pa.timestamp("ms", "+05:30"), [dt.datetime(1969, 12, 31, 23, 59, 59, 1000, tzinfo=dt.UTC)], "TIMESTAMP"),
        Case(
            pa.timestamp("ns", "UTC"), [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + US], "TIMESTAMP", bad=[-1, 10**18 + 1]
        ),
    ],
    "timestamp without a zone": [
        Case(pa.timestamp("us"), [FIRST, None, LAST], "DATETIME", bad=[-62_135_596_800_000_001]),
        Case(pa.timestamp("s"), [FIRST, LAST.replace(microsecond=0)], "DATETIME", bad=[253_402_300_800, -(2**63)]),
        Case(pa.timestamp("ms"), [FIRST, LAST.replace(microsecond=999000)], "DATETIME"),
        Case(
            pa.timestamp("ns"),
            [dt.datetime.fromisoformat("1677-09-22"), dt.datetime.fromisoformat("2262-04-11")],
            "DATETIME",
            bad=[2**63 - 1],
        ),
    ],
    "null": [Case(pa.null(), [None, None], "STRING")],
    "dictionary of T": [
        Case(pa.dictionary(pa.int8(), pa.string()), ["a", None, "a", ""], "STRING"),
        Case(pa.dictionary(pa.int32(), pa.int16()), [1, None], "INT64"),
    ],
    "struct": [
        Case(
            pa.struct([("a.b", pa.int8()), ("day", pa.date32()), ("none", pa.struct([]))]),
            [{"a.b": 1, "day": FIRST.date(), "none": {}}, None, {"a.b": None, "day": None, "none": None}],
            "STRUCT<`a_b_x?` INT64, `day` DATE>",
            [{"a_b_x?": 1, "day": FIRST.date()}, None, {"a_b_x?": None, "day": None}],
        ),
    ],
    "list, large_list, fixed_size_list, list_view of T": [
        Case(kind(pa.int8()), [[1, -128], [], None, [127]], "ARRAY<INT64>", [[1, -128], [], [], [127]], bad=[[1, None]])
        for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
    ]
    + [
        Case(pa.list_(pa.string()), [["🎉", ""], []], "ARRAY<STRING>", bad=[[None]]),
        Case(pa.list_(pa.int64()), [[2**63 - 1], None, []], "ARRAY<INT64>", [[2**63 - 1], [], []], bad=[[None]]),
        Case(pa.list_(pa.int64(), 2), [[1, 2], None], "ARRAY<INT64>", [[1, 2], []], bad=[[1, None]]),
        Case(
            pa.list_(pa.struct([("t", pa.timestamp("ns"))])),
            [[{"t": None}, {"t": dt.datetime.fromisoformat("2026-01-01")}], []],
            "ARRAY<STRUCT<`t` DATETIME>>",
            bad=[[None], [{"t": None}, {"t": 1}]],
        ),
    ],
    "list of lists of T": [
        Case(
            pa.list_(pa.list_(pa.int8())),
            [[[1], [], [2, 3]], [], None],
            "ARRAY<STRUCT<`items` ARRAY<INT64>>>",
            [[{"items": [1]}, {"items": []}, {"items": [2, 3]}], [], []],
            bad=[[None], [[1], [None]]],
        ),
    ],
    "map of K to V": [
        Case(
            pa.map_(pa.string(), pa.decimal128(3, 1)),
            [[("a", Decimal("1.5")), ("b", None)], [], None],
            "ARRAY<STRUCT<`key` STRING, `value` NUMERIC>>",
            [[{"key": "a", "value": Decimal("1.5")}, {"key": "b", "value": None}], [], []],
        ),
        Case(
            pa.map_(pa.int8(), pa.list_(pa.map_(pa.int8(), pa.int8()))),
            [[(1, [[(2, 3)], []])]],
            "ARRAY<STRUCT<`key` INT64, `value` ARRAY<STRUCT<`items` ARRAY<STRUCT<`key` INT64, `value` INT64>>>>>>",
            [[{"key": 1, "value": [{"items": [{"key": 2, "value": 3}]}, {"items": []}]}]],
            bad=[[(1, [None])]],
        ),
    ],
    "duration, interval, union, run_end_encoded, extension types": [
        Case(kind, [], "refused")
        for kind in (
            pa.duration("us"),
            pa.month_day_nano_interval(),
            pa.dense_union([pa.field("a", pa.int8())]),
            pa.run_end_encoded(pa.int32(), pa.string()),
            pa.uuid(),
            pa.json_(),
        )
    ],
}


def raw(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """Make an array also of numbers that Python's calendar has no value for."""
    if pa.types.is_temporal(kind) and values and isinstance(values[0], int):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(kind)
    return pa.array(values, kind)


def page() -> dict[str, str]:
    """Return the columns that the page says, by Arrow type."""
    table = DOCS.read_text().partition("<!-- types -->\n")[2].partition("<!-- end of types -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    return {row[0]: row[1] for row in rows}


PAGE = page()


def test_every_row_of_the_page_has_cases():
    assert list(CASES) == list(PAGE)


@pytest.mark.parametrize(
    ("row", "case"), [pytest.param(row, case, id=f"{row}: {case.kind}") for row in CASES for case in CASES[row]]
)
def test_values_of_each_type_are_sent_as_the_page_says(row: str, case: Case):
    if PAGE[row].isalpha() and PAGE[row] not in ("T", "RECORD"):
        assert sql_type({"type": PAGE[row]}) == case.sql
    schema = pa.schema([pa.field("x", case.kind, metadata=case.metadata)])
    if case.sql == "refused":
        with pytest.raises(DataError, match=r"column 'x'.*cast it in the source"):
            make_columns(schema)
        return
    found = make_columns(schema)
    marked = row.startswith("struct")
    hashed = found[0].target.get("fields", [{"name": ""}])[0]["name"] if marked else ""
    assert sql_type(found[0].target) == case.sql.replace("a_b_x?", hashed)

    expected = case.values if case.sent == [SAME] else case.sent
    batch = pa.record_batch([raw(case.kind, case.values)], schema=schema)
    for start, end in ((0, batch.num_rows), (1, batch.num_rows)):  # a slice has offsets that are easily forgotten
        converted = convert_batch(batch.slice(start, end - start), found, start)
        assert converted.rejects == []
        assert converted.batch.schema.types == [found[0].arrow]
        converted.batch.validate(full=True)
        text = str(converted.batch.column(0).to_pylist()).replace(hashed or "\n", "a_b_x?")
        assert text == str(
            pa.array(expected[start:end], found[0].arrow).to_pylist() if not marked else expected[start:end]
        )

    for value in case.bad:
        array = pa.concat_arrays([raw(case.kind, case.values), raw(case.kind, [value])])
        bad = convert_batch(pa.record_batch([array], schema=schema), found, 10)
        assert [(row.position, row.column) for row in bad.rejects] == [(10 + len(case.values), "x")]
        assert bad.batch.equals(convert_batch(batch, found, 0).batch)


def test_columns_get_modes_and_descriptions_of_their_fields():
    schema = pa.schema(
        [
            pa.field("a", pa.string(), nullable=False, metadata={"comment": "What it is."}),
            pa.field("b.c", pa.list_(pa.int8()), nullable=False, metadata={"comment": "x" * 2000}),
            pa.field("s", pa.struct([pa.field("n", pa.int8(), nullable=False, metadata={"comment": "inner"})])),
        ]
    )
    a, b, s = make_columns(schema)
    assert a.target == {"name": "a", "type": "STRING", "mode": "REQUIRED", "description": "What it is."}
    assert a.staging == {"name": "a", "type": "STRING", "mode": "NULLABLE"}
    assert b.target["mode"] == "REPEATED"
    assert len(b.target["description"]) == MAX_DESCRIPTION
    assert b.target["description"].endswith("Source name: 'b.c'.")
    assert s.target["fields"] == [{"name": "n", "type": "INTEGER", "mode": "NULLABLE", "description": "inner"}]


def test_all_unsupported_columns_are_named():
    schema = pa.schema([("ok", pa.int8()), ("d", pa.duration("s")), ("s", pa.struct([("u", pa.list_(pa.uuid()))]))])
    with pytest.raises(DataError, match=r"column 'd': .*duration.*; column 's', field 'u': .*uuid"):
        make_columns(schema)


def test_a_source_without_usable_columns_is_refused():
    with pytest.raises(DataError, match="no column"):
        make_columns(pa.schema([("empty", pa.struct([])), ("list", pa.list_(pa.struct([])))]))


def test_columns_without_leaf_fields_are_left_out():
    schema = pa.schema([("empty", pa.list_(pa.struct([]))), ("a", pa.int8()), ("m", pa.map_(pa.int8(), pa.struct([])))])
    found = make_columns(schema)
    assert [sql_type(column.target) for column in found] == ["INT64", "ARRAY<STRUCT<`key` INT64>>"]
    batch = pa.record_batch([[[{}]], [1], [[(1, {})]]], schema=schema)
    assert convert_batch(batch, found, 0).batch.to_pylist() == [{"a": 1, "m": [{"key": 1}]}]


def old(name: str, kind: str, mode: str = "NULLABLE", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "mode": mode, **more}


def test_nested_fields_keep_the_tables_order_and_missing_ones_become_null():
    existing = [
        old("s", "RECORD", fields=[old("gone", "INTEGER", "REPEATED"), old("B", "INTEGER"), old("a", "STRING")])
    ]
    (column,) = make_columns(
        pa.schema([("s", pa.struct([("a", pa.string()), ("b", pa.int8()), ("B", pa.int8())]))]), existing
    )
    hashed = next(field["name"] for field in column.staging["fields"] if field["name"] not in "aB")
    assert [field["name"] for field in column.target["fields"]] == ["gone", "B", "a", hashed]
    fields = f"ARRAY<INT64>[] AS `gone`, `s`.`B` AS `B`, `s`.`a` AS `a`, `s`.`{hashed}` AS `{hashed}`"
    assert column.expression.replace("connect_s.", "") == f"IF(`s` IS NULL, NULL, STRUCT({fields}))"


def test_a_column_of_the_same_type_is_selected_without_a_cast():
    assert [
        c.expression for c in make_columns(pa.schema([("a", pa.int8()), ("s", pa.struct([("b", pa.int8())]))]))
    ] == [
        "connect_s.`a`",
        "connect_s.`s`",
    ]


def test_columns_with_letters_beyond_ascii_are_staged_in_ascii_and_have_their_names_in_the_target() -> None:
    inner = pa.struct([("größe", pa.int64()), ("n", pa.string())])
    schema = pa.schema([("größe", pa.int64()), ("s", inner), ("名前", pa.list_(inner)), ("breite", pa.int64())])
    existing = [{"name": "breite", "type": "NUMERIC"}, {"name": "größe", "type": "INTEGER"}]
    found = {column.source: column for column in make_columns(schema, existing)}
    assert [column.name for column in found.values()] == ["größe", "s", "名前", "breite"]
    assert staging_schema([*found.values()]).names == [column.staging["name"] for column in found.values()]
    every = [str(column.staging) + str(column.arrow) for column in found.values()]
    assert all(text.isascii() for text in every)
    short = found["größe"].staging["name"]
    assert found["größe"].expression == f"connect_s.`{short}`"
    assert found["größe"].target["name"] == "größe"
    record = "IF(S.`s` IS NULL, NULL, STRUCT(S.`s`.`short` AS `größe`, S.`s`.`n` AS `n`))"
    assert found["s"].expression == record.replace("S.", "connect_s.").replace("short", short)
    rows = "ARRAY(SELECT AS STRUCT E.`short` AS `größe`, E.`n` AS `n` FROM UNNEST(connect_s."
    assert rows.replace("E.", "connect_element0.").replace("short", short) in found["名前"].expression
    assert found["breite"].expression == "CAST(connect_s.`breite` AS NUMERIC)"
