"""JSON that BigQuery's parser may refuse becomes a JSON string of the same text; only what is no JSON is a bad row."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.sinks._bigquery.columns.json import find_unparsable, is_json
from airflow_provider_connect.sinks._bigquery.columns.rows import convert_batch
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns

DEEP = 1000
HARD = [
    "1e400",
    '{"a": [-1.5E+999, {}]}',
    "9" * 500,
    "[" * DEEP + "]" * DEEP,
    '{"a":' * DEEP + "null" + "}" * DEEP,
    "[" * 50_000 + "1e400" + "]" * 50_000,
    '{"a": 1e400, "b": "\\ud83d\\ude00 \\" \\\\ \\/", "c": [true, false, null, [], 0, -0.0]}',
]
BROKEN = [
    "",
    "1e400,",
    "[1e400",
    "[1e400,]",
    '{"a":1e400,}',
    '{"a" 1e400}',
    "{1e400:1}",
    "[1e400]]",
    "[1e400}",
    "1e400 1",
    "[01e400, 1e400]",
    '[1e400, "\\x"]',
    '[1e400, "a\nb"]',
    "[1e400, .5]",
    "[1e400, nul]",
    "[1e400 NaN]",
    "[" * DEEP + "]" * (DEEP - 1),
    "[" * DEEP + "]" * (DEEP + 1),
    "{" * DEEP + "}" * DEEP,
]
UNCHECKED = pa.schema([pa.field("doc", pa.string(), metadata={"json": "unchecked"})])


@pytest.mark.parametrize("text", HARD, ids=lambda text: text[:12])
def test_numbers_and_depths_beyond_a_parser_are_accepted_as_json(text: str) -> None:
    assert find_unparsable(pa.array([text, "{}"])) == []
    [column] = make_columns(UNCHECKED)
    converted = convert_batch(pa.record_batch([pa.array([text])], schema=UNCHECKED), [column], 0)
    assert converted.rejects == []
    assert converted.batch.column(0).to_pylist() == [text]
    # What SAFE.PARSE_JSON gives NULL for is a string of the same text.
    assert f"IFNULL(SAFE.PARSE_JSON(connect_s.`{column.staging['name']}`" in column.expression
    assert f"TO_JSON(connect_s.`{column.staging['name']}`)" in column.expression


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text[:12])
def test_text_that_is_not_json_is_rejected_at_any_depth(text: str) -> None:
    assert find_unparsable(pa.array(["{}", text])) == [1]


def plain(text: str) -> bool:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_every_valid_document_is_accepted(value: Any) -> None:
    assert is_json(json.dumps(value))
    assert is_json(json.dumps(value, ensure_ascii=False, indent=1))


@given(st.text('[]{},:"\\ue01-+.x \n\t', max_size=12) | st.text(max_size=6))
def test_is_json_agrees_with_pythons_parser_on_any_text(text: str) -> None:
    assert is_json(text) == plain(text)


def test_a_text_that_is_not_utf8_is_rejected_without_a_crash() -> None:
    texts = pa.array([b'{"a": "\xff"}', b"{}", b"\xff\\ud800"], pa.binary()).view(pa.string())
    done = convert_batch(pa.record_batch([texts], schema=UNCHECKED), make_columns(UNCHECKED), 0)
    assert [(bad.position, bad.reason) for bad in done.rejects] == [(row, "a text that is not UTF-8") for row in (0, 2)]
    assert done.batch.column(0).to_pylist() == ["{}"]
