"""``rename``, ``constant`` and ``route``: names, values and places of columns."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes import Chain, Constant, Rename, Route
from airflow_provider_connect.stage.tables import TableTemplate

from .rows import batches, column, shaped

IS_BUY = {"column": "event", "operator": "equals", "value": "buy"}


@given(batch=batches())
def test_rename_carries_everything_but_the_name(batch: pa.RecordBatch) -> None:
    first = batch.schema.names[0]
    made, counts = shaped([{"rename": {"columns": {first: "Other"}}}], batch)
    assert made.schema.names == ["Other", *batch.schema.names[1:]]
    assert made.schema.field(0).with_name(first).equals(batch.schema.field(0), check_metadata=True)
    assert [column.buffers() for column in made.columns] == [column.buffers() for column in batch.columns]  # NaN too
    assert counts["shape_0_rename"] == batch.num_rows - batch.column(0).null_count


def test_two_columns_may_change_names_with_each_other() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    chain = Chain.of([Rename(columns={"a": "b", "b": "a"})])
    assert chain.result_schema(schema).names == ["b", "a"]
    assert chain.column_origins(schema) == {"b": ("a",), "a": ("b",)}


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"a": "b"}, "another column is called 'b'"),
        ({"a": "B"}, "another column is called 'B', ignoring case"),
        ({"a": "c", "b": "C"}, "another column is called 'c', ignoring case; another column is called 'C'"),
        ({"a": ""}, "column 'a': the new name is empty"),
        ({"x": "y", "a": "b"}, "no column 'x'; known: a, b; another column is called 'b'"),
    ],
)
def test_names_that_clash_are_told_at_once(columns: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}"):
        Rename(columns=columns).result_schema(pa.schema([("a", pa.int64()), ("b", pa.string())]))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("STRING", "x", "x"),
        ("BIGINT", 5, 5),
        ("DOUBLE", 1, 1.0),
        ("BOOLEAN", False, False),
        ("DECIMAL(10,2)", "9.9", Decimal("9.90")),
        ("DATE", "2026-03-01", dt.date(2026, 3, 1)),
        ("TIMESTAMP", "2026-03-01T12:00:00+01:00", dt.datetime(2026, 3, 1, 11, tzinfo=dt.UTC)),
    ],
)
def test_a_constant_is_of_its_type(kind: str, value: Any, expected: Any) -> None:
    batch = pa.record_batch({"event": ["buy", "look", None]})
    made, counts = shaped([{"constant": {"column": "c", "type": kind, "value": value}}], batch)
    assert made.column("c").to_pylist() == [expected] * 3
    assert not made.schema.field("c").nullable
    assert counts == {"shape_0_constant": 3}
    made, counts = shaped([{"constant": {"column": "c", "type": kind, "value": value, "when": IS_BUY}}], batch)
    assert made.column("c").to_pylist() == [expected, None, None]
    assert counts == {"shape_0_constant": 1}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"column": "A", "value": "x"}, "another column is called 'A'"),
        ({"column": "c", "value": 5}, "value: it is not a STRING"),
        ({"column": "c", "type": "TINYINT", "value": 300}, "value: it is not a TINYINT"),
        ({"column": "c", "type": "BIGINT", "value": True}, "value: it is not a BIGINT"),
        ({"column": "c", "type": "DATE", "value": "soon"}, "value: it is not a DATE"),
        ({"column": "c", "value": "x", "when": {"column": "b", "operator": "is_null"}}, "no column 'b'"),
    ],
)
def test_a_constant_that_does_not_fit_is_told_before_the_run(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Constant(**options).result_schema(pa.schema([("a", pa.int64())]))


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "event": st.none() | st.sampled_from(["buy", "sell"]),
                "n": st.none() | st.integers(0, 3),
                "at": st.dates(),
            }
        )
    )
)
def test_the_first_case_that_holds_says_where_a_row_goes(rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([("event", pa.string()), ("n", pa.int64()), ("at", pa.date32())])
    more = {"column": "n", "operator": "at_least", "value": 2}
    one = {
        "column": "t",
        "cases": [{"to": "many_{event}", "when": more}, {"to": "buys", "when": IS_BUY}],
        "default": "x_{at:%Y_%m}",
    }
    made, counts = shaped([{"route": one}], pa.RecordBatch.from_pylist(rows, schema))

    def place(row: dict[str, Any]) -> str | None:
        if row["n"] is not None and row["n"] >= 2:
            return None if row["event"] is None else f"many_{row['event']}"
        return "buys" if row["event"] == "buy" else f"x_{row['at'].year:04}_{row['at'].month:02}"

    places = [place(row) for row in rows]
    assert made.column("t").to_pylist() == places
    assert counts["shape_0_route"] == len(places) - places.count(None)


def test_a_sink_s_template_reads_the_column() -> None:
    batch = pa.record_batch({"event": ["buy", "look"]})
    made, _ = shaped(
        [{"route": {"column": "table", "default": "rest", "cases": [{"to": "buys", "when": IS_BUY}]}}], batch
    )
    tables = TableTemplate(template="shop_{table}", most=5)
    assert tables.column in made.schema.names
    assert [tables.folder_name(value) for value in made.column("table").to_pylist()] == ["shop_buys", "shop_rest"]
    assert not made.schema.field("table").nullable


@pytest.mark.parametrize(
    ("values", "kind", "template", "expected"),
    [
        ([dt.datetime(2026, 3, 1, 2, tzinfo=dt.UTC)], pa.timestamp("us", "US/Pacific"), "{a:%Y%m%d-%H}", "20260301-02"),
        ([dt.date(2026, 3, 1)], pa.date32(), "{a}", "2026-03-01"),
        ([True], pa.bool_(), "is_{a}", "is_true"),
        ([-5], pa.int8(), "{a}{a}", "-5-5"),
        (["x"], pa.dictionary(pa.int8(), pa.string()), "{a}", "x"),
    ],
)
def test_columns_in_braces_stand_for_their_values(values: Any, kind: Any, template: str, expected: str) -> None:
    made, _ = shaped([{"route": {"column": "t", "default": template}}], column(values, kind))
    assert made.column("t").to_pylist() == [expected]
    assert Chain.of([Route(column="t", default=template)]).column_origins(column(values, kind).schema)["t"] == ("a",)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{b}", "no column 'b'"),
        ("{a}", r"column 'a': timestamp\[us\] cannot name a table or topic. Add a format, such as {a:%Y_%m}"),
        ("{f}", "column 'f': double cannot name a table or topic"),
        ("{f:%Y}", "column 'f': '%Y' is for times and dates, but the column is double"),
    ],
)
def test_templates_that_do_not_fit_are_told_before_the_run(template: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Route(column="t", default=template).result_schema(pa.schema([("a", pa.timestamp("us")), ("f", pa.float64())]))


@pytest.mark.parametrize("template", ["{a", "a}", "{}", "{a:%B}", "{a:%Y %m}", ""])
def test_templates_that_make_no_sense_are_refused(template: str) -> None:
    with pytest.raises(ConfigError, match="default: "):
        Route(column="t", default=template)
