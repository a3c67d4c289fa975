"""Records that are no list of objects: one object, a map, a list of texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, DataError, RetriableError, SetupError
from airflow_provider_connect.sources.rest import NextLink, Single
from tests.equipment.rest_api.reading import declared, read
from tests.equipment.rest_api.server import Answer, RestApi

COLUMNS = {"name": "string", "value": "string", "rate": {"type": "decimal(9,2)", "at": "/rate/eur"}}


def rows(answer: Any, **records: Any) -> list[tuple[Any, ...]]:
    raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    options = {"key": ["name"], "columns": COLUMNS, "undeclared": "drop"} | records
    with RestApi() as api:
        api.faults.append(lambda _: Answer(raw=raw))
        polled = read(api, declared("/x", Single(), records=options))
    columns = list(options["columns"])
    return [tuple(row[name] for name in columns) for _, _, batch in polled.batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("at", "answer"),
    [
        ("", b'{"name": "a", "value": 1.50, "rate": {"eur": 2.10}}'),
        ("/data/account", b' {"data": {"account": {"name": "a", "value": 1.50, "rate": {"eur": 2.10}} }}'),
    ],
)
def test_one_object_is_one_record(at: str, answer: bytes) -> None:
    (row,) = rows(answer, at=at, layout="object")
    assert [str(value) for value in row] == ["a", "1.50", "2.10"]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (
            b'{"a": {"value": "x", "rate": {"eur": 1.10}}, "b": {}, "\\u00e4": {"value": 7}, "c": 1.50, "d": null}',
            [("a", "x", "1.10"), ("b", None, None), ("ä", "7", None), ("c", "1.50", None), ("d", None, None)],
        ),
        (b"{}", []),
    ],
)
def test_each_entry_of_a_map_is_a_record_with_its_name(answer: bytes, found: list[Any]) -> None:
    loaded = rows(answer, layout="map")
    assert [(name, value, rate and str(rate)) for name, value, rate in loaded] == found


@pytest.mark.parametrize(("answer", "found"), [(b'["a", 1.50, null, [1, 2]]', ["a", "1.50", "[1, 2]"]), (b"[]", [])])
def test_a_list_of_values_has_a_record_for_each(answer: bytes, found: list[str]) -> None:
    options: dict[str, Any] = {
        "layout": "values",
        "key": ["tag"],
        "columns": {"tag": {"type": "string", "at": "value"}},
    }
    if b"null" in answer:
        with pytest.raises(DataError, match="its key column 'tag' is missing or null"):
            rows(answer, **options)
        answer = answer.replace(b" null,", b"")
    assert [row[0] for row in rows(answer, **options)] == found


def test_the_name_of_an_entry_replaces_no_field() -> None:
    answer = {"a": {"name": "x"}, "b": {}}
    with pytest.raises(SetupError, match=r"an entry has a field 'name' of its own\. Set records.name_field"):
        rows(answer, layout="map")
    columns = {"id": "string", "name": "string"}
    found = rows(answer, layout="map", name_field="id", key=["id"], columns=columns)
    assert found == [("a", "x"), ("b", None)]


@pytest.mark.parametrize("layout", ["object", "map"])
@pytest.mark.parametrize("answer", [b'{"name": "a"', b'{"name": "a",}'])
def test_a_whole_answer_that_is_cut_is_no_record(answer: bytes, layout: str) -> None:
    with pytest.raises(RetriableError, match="the object with records is not valid JSON"):
        rows(answer, layout=layout)


@pytest.mark.parametrize("answer", [b'{"data": {"a": {}', b'{"data": {"a": 1,}}'])
@pytest.mark.parametrize("layout", ["object", "map"])
def test_an_object_that_is_cut_is_no_record(answer: bytes, layout: str) -> None:
    with pytest.raises(RetriableError, match="not a complete JSON document"):
        rows(answer, at="data", layout=layout)


@pytest.mark.parametrize(
    ("layout", "answer", "noun"),
    [("object", {"data": []}, "object"), ("map", {"data": "x"}, "object"), ("values", {"data": {}}, "list")],
)
def test_a_value_of_another_layout_is_refused(layout: str, answer: Any, noun: str) -> None:
    with pytest.raises(
        SetupError, match=rf"the answer has no {noun} .*at 'data'.* Correct records.at or records.layout"
    ):
        rows(answer, at="data", layout=layout)


def test_a_map_has_pages_too() -> None:
    pages = [{"data": {"a": {"value": "x"}}, "next": "/x?page=2"}, {"data": {"b": {"value": "y"}}, "next": None}]
    source = declared(
        "/x",
        NextLink(at="next", ends="no_token"),
        records={"at": "data", "layout": "map", "key": ["name"], "columns": COLUMNS},
    )
    with RestApi() as api:
        api.faults.append(lambda asked: Answer(pages[int(asked.first("page", "1")) - 1]))
        polled = read(api, source)
    documents = [row["document"] for _, _, batch in polled.batches for row in batch.to_pylist()]
    assert documents == ['{"name":"a","value": "x"}', '{"name":"b","value": "y"}']


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ({"name_field": "id"}, "name_field: has no effect with layout='list'"),
        ({"layout": "object", "value_field": "id"}, "value_field: has no effect with layout='object'"),
        ({"layout": "map", "name_field": "x", "value_field": "x"}, "name_field and value_field: two names are needed"),
    ],
)
def test_fields_of_another_layout_are_refused(records: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        rows({}, **records)
