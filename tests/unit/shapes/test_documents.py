"""``extract`` and ``flatten``: columns made of what is inside columns, against plain Python."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.shapes import Chain, Extract, Flatten
from airflow_provider_connect.shapes.documents import _BATCH_DOCUMENTS

from .rows import TYPES, column, shaped

CHECKED = pa.schema([pa.field("a", pa.string(), metadata={"json": "checked"})])
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abx"), inner, max_size=2)
)
DOCUMENTS = st.none() | st.dictionaries(st.sampled_from(["a", "b", "$x", "n.m"]), VALUES) | VALUES
PLACES = {"one": "$x", "two": "n.m", "three": "/a/b", "four": "/b/0", "a": None}


def at(document: Any, place: str | None, name: str) -> Any:
    for step in [place or name] if not (place or "").startswith("/") else str(place)[1:].split("/"):
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document


def fitting(value: Any, kind: str) -> Any:
    """Return what a value is in a column of a type; None if it does not fit."""
    if kind == "BOOLEAN":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind == "DOUBLE":
        return None if isinstance(value, int) and abs(value) > 2**53 else float(value)
    low, high = {"BIGINT": (-(2**63), 2**63 - 1), "TINYINT": (-128, 127)}[kind]
    return value if isinstance(value, int) and low <= value <= high else None


@pytest.mark.parametrize("is_checked", [True, False])
@pytest.mark.parametrize("kind", ["BIGINT", "TINYINT", "DOUBLE", "BOOLEAN", "STRING"])
@given(documents=st.lists(DOCUMENTS, max_size=5))
def test_values_are_found_or_null(kind: str, is_checked: bool, documents: list[Any]) -> None:
    into = {f"c_{name}": {"type": kind, "at": place or name} for name, place in PLACES.items()}
    texts = [None if document is None else json.dumps(document) for document in documents]
    schema = CHECKED if is_checked else pa.schema([("a", pa.string())])
    made, counts = shaped(
        [{"extract": {"column": "a", "into": into}}], pa.record_batch([pa.array(texts, pa.string())], schema=schema)
    )
    misfits = 0
    for name, place in PLACES.items():
        values = [at(document, place, name) for document in documents]
        found = made.column(f"c_{name}").to_pylist()
        if kind == "STRING":
            assert [
                text if isinstance(value, str) or text is None else json.loads(text)
                for text, value in zip(found, values, strict=True)
            ] == values
        else:
            assert found == [fitting(value, kind) for value in values]
        misfits += sum(value is not None and one is None for value, one in zip(values, found, strict=True))
    assert counts["shape_0_extract_null"] == misfits
    assert made.column("a").to_pylist() == texts


def test_a_batch_of_many_documents_is_read_in_pieces() -> None:
    count = 2 * _BATCH_DOCUMENTS + 5
    texts = [None if n % 7 == 0 else "[]" if n == _BATCH_DOCUMENTS else json.dumps({"x": n}) for n in range(count)]
    batch = pa.record_batch([pa.array(texts)], schema=CHECKED).slice(3)
    made, counts = shaped([{"extract": {"column": "a", "into": {"x": "BIGINT"}}}], batch)
    expected = [None if n % 7 == 0 or n == _BATCH_DOCUMENTS else n for n in range(count)][3:]
    assert made.column("x").to_pylist() == expected
    assert counts == {"shape_0_extract": len(expected) - expected.count(None)}


def test_each_type_is_read_exactly() -> None:
    document = (
        '{"d":0.10000000000000000001,"t":"2026-03-01T12:00:00+01:00","day":"2026-03-01","ms":1772362800123,'
        '"w":"2026-03-01T12:00:00","big":123456789012345678901234567890,"o":{"k": 1.0}}'
    )
    into = {
        "d": "DECIMAL(38,20)", "t": "TIMESTAMP", "on": {"type": "DATE", "at": "day"},
        "ms": {"type": "TIMESTAMP", "format": "epoch_ms"},
        "w": "TIMESTAMP_NTZ", "big": "STRING", "o": "STRING", "f": {"type": "FLOAT", "at": "/o/k"},
    }  # fmt: skip
    made, counts = shaped([{"extract": {"column": "a", "into": into}}], column([document]))
    assert made.to_pylist()[0] == {
        "a": document, "d": Decimal("0.10000000000000000001"), "t": dt.datetime(2026, 3, 1, 11, tzinfo=dt.UTC),
        "on": dt.date(2026, 3, 1), "ms": dt.datetime(2026, 3, 1, 11, 0, 0, 123000, dt.UTC),
        "w": dt.datetime.fromisoformat("2026-03-01T12:00:00"), "big": "123456789012345678901234567890",
        "o": '{"k": 1.0}', "f": 1.0,
    }  # fmt: skip
    assert counts == {"shape_0_extract": 8}


@pytest.mark.parametrize("odd", ["{", "", "[1,2", "1,2", '{"x":NaN}', '{"x":1}{"x":2}'])
def test_a_text_that_is_no_json_is_null_and_counted(odd: str) -> None:
    one = {"extract": {"column": "a", "into": {"x": "BIGINT"}}}
    made, counts = shaped([one], column(['{"x":1}', odd, None]))
    assert made.column("x").to_pylist() == [1, None, None]
    assert counts == {"shape_0_extract": 1, "shape_0_extract_null": 1}
    with pytest.raises(DataError, match=r"^shape\[0\] \(\w+\): of 3 rows, 1 texts of column 'a' are not JSON\. "):
        shaped([{"extract": one["extract"] | {"on_error": "fail"}}], column(['{"x":1}', odd, None]))


def test_half_a_character_is_replaced_and_its_neighbours_are_read() -> None:
    batch = pa.record_batch([pa.array(['{"x":"\\ud800"}', '{"x":"é"}', "[]"])], schema=CHECKED)
    made, counts = shaped([{"extract": {"column": "a", "into": {"x": "STRING"}}}], batch)
    assert made.column("x").to_pylist() == ["\ufffd", "é", None]
    assert counts["shape_0_extract_null"] == 0


def test_with_on_error_fail_a_misfit_fails_the_day_without_its_value() -> None:
    one = {"extract": {"column": "a", "into": {"x": "BIGINT"}, "on_error": "fail"}}
    with pytest.raises(DataError, match=r"1 values do not fit column 'x'") as error:
        shaped([one], column(['{"x":"secret"}']))
    assert "secret" not in str(error.value)


def test_documents_of_other_rows_are_not_read() -> None:
    when = {"column": "a", "operator": "matches", "value": ".*1.*"}
    made, counts = shaped(
        [{"extract": {"column": "a", "into": {"x": "BIGINT"}, "when": when}}], column(['{"x":1}', "?", None])
    )
    assert made.column("x").to_pylist() == [1, None, None]
    assert counts == {"shape_0_extract": 1}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"column": "a", "into": {"x": "BINARY"}}, "JSON has no bytes: use STRING"),
        ({"column": "a", "into": {"x": {"type": "STRING", "at": "/~2"}}}, "in a JSON Pointer '~' is written as '~0'"),
        ({"column": "a", "into": {}}, "into: Dictionary should have at least 1 item"),
    ],
)
def test_wrong_places_and_types_are_refused(options: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Extract(**options)


def test_what_extract_does_not_fit_is_told_at_once() -> None:
    schema = pa.schema([("a", pa.struct([("x", pa.int64())])), ("B", pa.string())])
    told = r"^another column is called 'b', ignoring case; column 'a' is struct<x: int64>, not text: use flatten"
    with pytest.raises(ConfigError, match=told):
        Extract(column="a", into={"b": "STRING"}).result_schema(schema)


def flat(value: Any, kind: pa.DataType, name: str, separator: str) -> dict[str, Any]:
    if not pa.types.is_struct(kind):
        return {name: value}
    found: dict[str, Any] = {}
    for field in kind:
        found |= flat(value and value[field.name], field.type, f"{name}{separator}{field.name}", separator)
    return found


@given(
    values=st.lists(st.none() | TYPES["struct"][1]), separator=st.sampled_from(["_", ".", "__"]), cut=st.integers(0, 2)
)
def test_structs_become_columns(values: list[Any], separator: str, cut: int) -> None:
    kind = TYPES["struct"][0]
    batch = column(values, kind).slice(cut)
    made, counts = shaped([{"flatten": {"separator": separator}}], batch)
    rows = [flat(value, kind, "a", separator) for value in batch.column("a").to_pylist()]
    assert made.to_pylist() == rows
    assert made.schema.names == [f"a{separator}a", f"a{separator}b{separator}c"]
    assert counts["shape_0_flatten"] == sum(value is not None for row in rows for value in row.values())


def test_fields_stand_where_their_struct_stood_and_lists_stay() -> None:
    inner = pa.field("y", pa.int64(), nullable=False, metadata={"comment": "Y."})
    lists = pa.list_(pa.struct([("z", pa.int64())]))
    schema = pa.schema(
        [
            ("p", pa.int64()),
            pa.field("s", pa.struct([inner]), nullable=False),
            pa.field("t", pa.struct([inner])),
            ("l", lists),
        ]
    )
    after = Flatten().result_schema(schema)
    assert after.names == ["p", "s_y", "t_y", "l"]
    assert (after.field("s_y").nullable, after.field("t_y").nullable) == (False, True)
    assert after.field("s_y").metadata == {b"comment": b"Y."}
    assert Flatten(columns=["t"]).result_schema(schema).names == ["p", "s", "t_y", "l"]
    assert Chain.of([Flatten()]).column_origins(schema) == {"p": ("p",), "s_y": ("s",), "t_y": ("t",), "l": ("l",)}


@pytest.mark.parametrize(
    ("schema", "columns", "told"),
    [
        (CHECKED, ["a"], "column 'a' is not a struct: it contains JSON documents, use extract"),
        (pa.schema([("a", pa.int64())]), ["a"], "column 'a' is not a struct$"),
        (
            pa.schema([("a", pa.struct([("b", pa.int64())])), ("A_b", pa.int64())]),
            [],
            "another column is called 'a_b', ignoring case",
        ),
        (pa.schema([("a", pa.struct([]))]), [], "no column would remain"),
    ],
)
def test_what_flatten_does_not_fit_is_told(schema: pa.Schema, columns: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Flatten(columns=columns).result_schema(schema)
