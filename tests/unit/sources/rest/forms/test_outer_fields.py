"""Nested lists become rows of their own stream, with the fields around them, their position and their count."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, DataError, SetupError
from airflow_provider_connect.sources.rest import Single
from tests.equipment.rest_api.reading import declared, read
from tests.equipment.rest_api.server import Answer, RestApi

ORDERS = {
    "orders": [
        {"id": "a", "lines": [{"sku": "x", "n": 1.50}, {"sku": "y"}, {"sku": "x", "n": 1.50}], "size": 3},
        {"id": "b", "lines": [], "size": 0},
        {"id": "c", "lines": [{}], "size": "1"},
    ]
}
OPTIONS: dict[str, Any] = {
    "at": "/orders/*/lines",
    "outer_fields": {"order": "/orders/*/id"},
    "position_field": "line",
    "key": ["order", "line"],
    "columns": {"order": "string", "line": "bigint", "sku": "string"},
}


def rows(answer: Any, **records: Any) -> list[tuple[Any, ...]]:
    options = OPTIONS | records
    with RestApi() as api:
        api.faults.append(lambda _: Answer(answer) if not isinstance(answer, bytes) else Answer(raw=answer))
        polled = read(api, declared("/x", Single(), records=options))
    names = [*options["columns"], *(["document"] if options.get("undeclared", "json") == "json" else [])]
    return [tuple(row[name] for name in names) for _, _, batch in polled.batches for row in batch.to_pylist()]


def test_the_lines_of_orders_are_rows_with_their_order_and_position() -> None:
    found = rows(ORDERS, count_at="/orders/*/size", undeclared="drop")
    assert found == [("a", 0, "x"), ("a", 1, "y"), ("a", 2, "x"), ("c", 0, None)]


def test_the_document_is_the_record_as_sent_with_the_fields_in_front() -> None:
    body = b'{"orders": [{"id": "a", "lines": [ {"n":1.50,"sku":"x"}, { } ]}]}'
    documents = [row[-1] for row in rows(body)]
    assert documents == ['{"order":"a","line":0,"n":1.50,"sku":"x"}', '{"order":"a","line":1 }']


def test_each_level_has_its_fields() -> None:
    answer = {"a": {"x": {"of": 7, "b": [{"id": 1, "c": [5, 6]}, {"id": 2, "c": [5]}]}}}
    found = rows(
        answer,
        at="/a/*/b/*/c",
        layout="values",
        outer_fields={"order": "/a/*/of", "part": "/a/*/b/*/id"},
        key=["order", "part", "line"],
        columns={"order": "string", "part": "bigint", "line": "bigint", "value": "bigint"},
        undeclared="drop",
    )
    assert found == [("7", 1, 0, 5), ("7", 1, 1, 6), ("7", 2, 0, 5)]


@pytest.mark.parametrize("size", [2, 4, None, "x", 3.5])
def test_a_list_with_another_number_of_records_fails(size: Any) -> None:
    """The API cuts long lists inside other records without a word."""
    answer = {"orders": [ORDERS["orders"][0] | {"size": size}]}
    with pytest.raises(SetupError, match=r"a list has 3 records, and '/orders/\*/size' says"):
        rows(answer, count_at="/orders/*/size")


def test_a_list_without_its_number_fails() -> None:
    with pytest.raises(SetupError, match="says nothing"):
        rows(ORDERS, count_at="/orders/*/length")


@pytest.mark.parametrize("body", [b'{"sku": "x", "line": 1}', b'{"sku": "x", "lin\\u0065": 1}'])
def test_a_field_of_the_record_is_not_replaced(body: bytes) -> None:
    with pytest.raises(SetupError, match="a record has a field 'line'"):
        rows(b'{"orders": [{"id": "a", "lines": [%b]}]}' % body)


def test_a_value_that_equals_a_name_is_no_field() -> None:
    assert rows({"orders": [{"id": "a", "lines": [{"sku": "line"}]}]}, undeclared="drop") == [("a", 0, "line")]


@pytest.mark.parametrize("order", [{}, {"id": None}])
def test_a_record_whose_element_has_no_key_fails_the_day(order: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="its key column 'order' is missing or null"):
        rows({"orders": [order | {"lines": [{"sku": "x"}]}]})


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ({"at": "lines"}, "outer_fields, position_field, count_at: require a step"),
        ({"outer_fields": {"order": "/id"}}, "outer_fields.order: must begin like at"),
        ({"outer_fields": {"order": "/others/*/id"}}, "outer_fields.order: must begin like at"),
        ({"count_at": "/orders/size"}, "count_at: must begin like at"),
        ({"position_field": "order"}, "position_field: outer_fields has the same name"),
    ],
)
def test_fields_that_lie_elsewhere_are_refused(records: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        rows({}, **records)
