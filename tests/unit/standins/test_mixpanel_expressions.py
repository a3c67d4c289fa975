"""The stand-in reads expressions as Mixpanel's page on them says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.standins.mixpanel.expressions import parse

NOON = 1_772_366_400  # 2026-03-01 12:00:00, UTC
AT_NOON = 'event["$time"] >= datetime("2026-03-01T12:00:00")'


@pytest.mark.parametrize(("text", "row", "wanted"), [
    ('properties["a"] == "x"', {"a": "x"}, True),
    ('properties["a"] == "x"', {}, False),
    ('properties["a"] != "x"', {}, True),
    ('properties["a \\"and\\" b"] == "(x"', {'a "and" b': "(x"}, True),
    ('properties["n"] > 2', {"n": 3}, True),
    ('properties["n"] > 2', {"n": "3"}, False),
    ('not properties["n"] > 2', {"n": "3"}, True),
    ('not not properties["n"] > 2', {"n": 3}, True),
    ('properties["a"] == 1 and properties["b"] == 2', {"a": 1, "b": 2}, True),
    ('properties["a"] == 1 and properties["b"] == 2', {"a": 1}, False),
    ('properties["a"] == 1 or properties["b"] == 2 and properties["c"] == 3', {"a": 1}, True),
    ('(properties["a"] == 1 or properties["b"] == 2) and properties["c"] == 3', {"a": 1}, False),
    ('not (properties["a"] == 1 or properties["b"] == 2)', {"b": 2}, False),
    (AT_NOON, {"time": NOON}, True),
    (AT_NOON, {"time": NOON - 1}, False),
    (AT_NOON, {"time": NOON * 1000 - 1}, False),
    (AT_NOON, {"time": NOON * 1000}, True),
    (AT_NOON, {"time": "noon"}, False),
    (f"not ({AT_NOON})", {"time": "noon"}, True),
    (f"not ({AT_NOON})", {}, True),
])  # fmt: skip
def test_an_expression_is_true_or_not(text: str, row: dict[str, Any], *, wanted: bool) -> None:
    assert parse(text)(row) is wanted


@pytest.mark.parametrize("text", [
    "", "nonsense", 'properties["a"]', 'properties["a"] == "x" properties["b"] == 1', '(properties["a"] == 1',
    'properties["a"] == 1)', 'properties["a"] > "x"', 'event["$time"] >= datetime("noon")', "not",
    'properties["a] == 1', 'event == "x"', 'properties["a"] == 1 and',
])  # fmt: skip
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text)


def test_texts_have_an_order_where_they_are_times() -> None:
    assert parse('properties["$last_seen"] >= "2026-03-01"', orders_texts=True)({"$last_seen": "2026-03-02"})
