"""Conditions: three-valued like SQL's, typed like the column, and checked before the run."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes import Condition, Filter
from airflow_provider_connect.shapes.condition import bind_condition, condition_problems

from .rows import column, shaped, whole

MOMENT = dt.datetime.fromisoformat("2026-01-01")
NAN = float("nan")
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "equals": lambda one, other: one == other,
    "in": lambda one, others: one in others,
    "matches": lambda one, pattern: re.fullmatch(pattern, one) is not None,
    "less_than": lambda one, other: one < other,
    "at_most": lambda one, other: one <= other,
    "greater_than": lambda one, other: one > other,
    "at_least": lambda one, other: one >= other,
}


def reference(condition: dict[str, Any], row: dict[str, Any]) -> bool | None:
    """Evaluate a condition as SQL's WHERE does, in plain Python."""
    if "column" not in condition:
        found = [reference(part, row) for part in condition.get("all") or condition["any"]]
        decisive = "any" in condition
        known = decisive if decisive in found else (None if None in found else not decisive)
    elif condition["operator"] == "is_null":
        known = row[condition["column"]] is None
    else:
        value = row[condition["column"]]
        known = None if value is None else COMPARED[condition["operator"]](value, condition["value"])
    return known if known is None or not condition.get("negate") else not known


NUMBERS = st.integers(-2, 2)
TEXTS = st.sampled_from(["", "a", "ab", "a\n", "é"])
COMPARISONS = st.one_of(
    st.fixed_dictionaries(
        {
            "column": st.just("n"),
            "operator": st.sampled_from(["equals", "less_than", "at_most", "greater_than", "at_least"]),
            "value": NUMBERS,
        }
    ),
    st.fixed_dictionaries(
        {"column": st.sampled_from(["t", "c"]), "operator": st.sampled_from(["equals", "less_than"]), "value": TEXTS}
    ),
    st.fixed_dictionaries(
        {
            "column": st.sampled_from(["t", "c"]),
            "operator": st.just("in"),
            "value": st.lists(TEXTS, min_size=1, max_size=3),
        }
    ),
    st.fixed_dictionaries(
        {
            "column": st.sampled_from(["t", "c"]),
            "operator": st.just("matches"),
            "value": st.sampled_from(["a", "a.*", "(?s)a.*", "a|é", ""]),
        }
    ),
    st.fixed_dictionaries({"column": st.sampled_from(["n", "t", "c"]), "operator": st.just("is_null")}),
)
CONDITIONS = st.recursive(
    st.tuples(COMPARISONS, st.booleans()).map(lambda both: both[0] | {"negate": both[1]}),
    lambda inner: st.tuples(
        st.sampled_from(["all", "any"]), st.lists(inner, min_size=1, max_size=3), st.booleans()
    ).map(lambda three: {three[0]: three[1], "negate": three[2]}),
    max_leaves=6,
)
ROWS = st.lists(
    st.fixed_dictionaries({"n": st.none() | NUMBERS, "t": st.none() | TEXTS, "c": st.none() | TEXTS}), max_size=6
)


@given(condition=CONDITIONS, rows=ROWS, cut=st.integers(0, 3))
def test_conditions_are_those_of_sql(condition: dict[str, Any], rows: list[dict[str, Any]], cut: int) -> None:
    schema = pa.schema([("n", pa.int64()), ("t", pa.string()), ("c", pa.dictionary(pa.int32(), pa.string()))])
    batch = pa.RecordBatch.from_pylist(rows, schema).slice(cut)
    made = bind_condition(Condition.model_validate(condition), schema)(batch)
    assert made.to_pylist() == [reference(condition, row) for row in rows[cut:]]
    kept, counts = shaped([{"filter": {"where": condition}}], batch)
    assert kept.to_pylist() == [row for row in rows[cut:] if reference(condition, row)]
    assert counts["shape_0_filter"] == counts["shape_filtered"] == batch.num_rows - kept.num_rows


@pytest.mark.parametrize(
    ("values", "kind", "operator", "value", "expected"),
    [
        ([True, False, None], pa.bool_(), "equals", True, [True, False, None]),
        ([1, 2**63], pa.uint64(), "greater_than", 2**62, [False, True]),
        ([0.5, NAN], pa.float64(), "at_least", 0, [True, False]),
        ([whole("1.50"), whole("9.99")], pa.decimal128(5, 2), "equals", "1.5", [True, False]),
        ([dt.date(2026, 1, 1)], pa.date32(), "less_than", "2026-01-02", [True]),
        ([MOMENT], pa.timestamp("us", "UTC"), "at_least", "2025-12-31T23:00:00-01:00", [True]),
        ([MOMENT], pa.timestamp("us"), "equals", "2026-01-01T00:00:00", [True]),
        (["a"], pa.large_string(), "in", ["b", "a"], [True]),
        ([[1], None], pa.list_(pa.int64()), "is_null", None, [False, True]),
    ],
)  # fmt: skip
def test_values_are_of_the_column_s_type(values: Any, kind: Any, operator: Any, value: Any, expected: Any) -> None:
    batch = column(values, kind)
    condition = Condition(column="a", operator=operator, value=value)
    assert condition_problems(condition, batch.schema) == []
    assert bind_condition(condition, batch.schema)(batch).to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "operator", "value", "told"),
    [
        (pa.int64(), "equals", "1", "equals needs a value of the column's type, int64"),
        (pa.int64(), "equals", True, "equals needs a value of the column's type, int64"),
        (pa.int8(), "in", [1, 300], "in needs a value of the column's type, int8"),
        (pa.date32(), "equals", "yesterday", "equals needs a value of the column's type"),
        (pa.timestamp("us"), "equals", "2026-01-01T00:00:00Z", "equals needs a value of the column's type"),
        (pa.decimal128(5, 2), "equals", "1.234", "equals needs a value of the column's type"),
        (pa.list_(pa.int64()), "equals", 1, "equals needs a value of the column's type"),
        (pa.int64(), "matches", "1", "matches compares texts, but the column is int64"),
        (pa.string(), "matches", "(?=a)", "RE2 refuses this regular expression"),
    ],
)
def test_what_does_not_fit_is_told_before_the_run(kind: Any, operator: Any, value: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)) as error:
        Filter(where={"column": "a", "operator": operator, "value": value}).result_schema(pa.schema([("a", kind)]))
    assert "yesterday" not in str(error.value)


def test_all_problems_of_a_condition_are_told_at_once() -> None:
    where = {
        "any": [{"column": "b", "operator": "is_null"}, {"all": [{"column": "a", "operator": "equals", "value": 1}]}]
    }
    with pytest.raises(ConfigError, match=r"^no column 'b'; known: a; column 'a': equals needs"):
        Filter(where=where).result_schema(pa.schema([("a", pa.string())]))


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ({}, "set exactly one of column, all and any"),
        ({"column": "a", "all": [{"column": "a", "operator": "is_null"}]}, "set exactly one of column, all and any"),
        ({"column": "a"}, "operator: required with column"),
        (
            {"all": [{"column": "a", "operator": "is_null"}], "operator": "equals"},
            "operator and value belong to column",
        ),
        ({"column": "a", "operator": "is_null", "value": 1}, "is_null takes none"),
        ({"column": "a", "operator": "in", "value": 1}, "in takes a list"),
        ({"column": "a", "operator": "equals"}, "equals takes one value, for NULL use is_null"),
        ({"column": "a", "operator": "equals", "value": [1]}, "equals takes one value"),
        ({"column": "a", "operator": "matches", "value": 1}, "takes a regular expression"),
        ({"column": "a", "operator": "equal", "value": 1}, "'equals', 'in', 'is_null'"),
        ({"column": "a", "operater": "equals"}, "unknown option"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(condition: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Filter(where=condition)


def test_a_batch_of_which_all_rows_stay_is_not_copied() -> None:
    batch = column([1, 2])
    made, _ = shaped([{"filter": {"where": {"column": "a", "operator": "at_least", "value": 1}}}], batch)
    assert made.column(0).buffers()[1].address == batch.column(0).buffers()[1].address
