"""Records in lists that lie in each element of another list, or in each entry of an object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError, SetupError
from airflow_provider_connect.sources.rest import Cap, Cursor, NextLink, Offset, ShortPage, Single, Total
from tests.equipment.rest_api.reading import declared, read
from tests.equipment.rest_api.server import Answer, RestApi

COLUMNS = {"id": "bigint"}
PLACES: dict[str, tuple[Any, dict[str, Any], list[int]]] = {
    "lists in a list": ({"items": [{"rows": [{"id": 1}, {"id": 2}]}, {"rows": [{"id": 3}]}]}, {}, [1, 2, 3]),
    "lists in an object": ({"items": {"a": {"rows": [{"id": 1}]}, "b": {"rows": [{"id": 2}]}}}, {}, [1, 2]),
    "a field with this name": ({"items": {"*": {"rows": [{"id": 1}]}, "b": {"rows": [{"id": 2}]}}}, {}, [1]),
    "objects in a list": ({"items": [{"rows": {"id": 1}}, {"rows": {"id": 2}}]}, {"layout": "object"}, [1, 2]),
    "lists of lists": ([[{"id": 1}], [], [{"id": 2}, {"id": 3}]], {"at": "/*"}, [1, 2, 3]),
    "two levels": ({"a": [{"b": [{"c": [{"id": 1}]}, {"c": [{"id": 2}]}]}]}, {"at": "/a/*/b/*/c"}, [1, 2]),
    "values": ([{"tags": [1, 2]}], {"at": "/*/tags", "layout": "values", "value_field": "id"}, [1, 2]),
    "no element": ({"items": []}, {}, []),
    "elements without a list": ({"n": 1, "items": [{}]}, {"missing": "empty"}, []),
    "null": ({"items": None}, {"missing": "empty"}, []),
}  # fmt: skip


def rows(answer: Any, **records: Any) -> list[int]:
    options = {"at": "/items/*/rows", "key": ["id"], "columns": COLUMNS} | records
    with RestApi() as api:
        api.faults.append(lambda _: Answer(answer) if not isinstance(answer, bytes) else Answer(raw=answer))
        polled = read(api, declared("/x", Single(), records=options))
    return [key for _, _, batch in polled.batches for key in batch.column("id").to_pylist()]


@pytest.mark.parametrize("place", PLACES)
def test_the_records_of_all_elements_are_loaded(place: str) -> None:
    answer, options, expected = PLACES[place]
    assert rows(answer, **options) == expected


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ({"items": [{"rows": [{"id": 1}]}, {}]}, {}),
        ({"items": [{"rows": [{"id": 1}]}, {"rows": None}]}, {}),
        ({"items": [{"rows": [{"id": 1}]}, {"rows": {}}]}, {"missing": "empty"}),
        ({"items": None}, {}),
        ({"items": "x"}, {"missing": "empty"}),
        ({"error": "x"}, {}),
        ({"error": "x"}, {"missing": "empty"}),
    ],
)
def test_an_element_of_another_form_fails_the_day(answer: Any, options: dict[str, Any]) -> None:
    with pytest.raises(SetupError, match="'/items/\\*/rows'"):
        rows(answer, **options)


def test_an_answer_that_is_cut_is_no_page() -> None:
    whole = json.dumps(PLACES["lists in a list"][0]).encode()
    for length in range(1, len(whole)):
        with pytest.raises(RetriableError):
            rows(whole[:length])


PAGES = [
    {"items": [{"rows": []}, {"rows": []}], "next": "b"},  # no records, and not the end
    {"items": [{"rows": [{"id": 1}, {"id": 2}, {"id": 3}]}, {"rows": [{"id": 4}]}], "next": "c"},
    {"items": [{"rows": [{"id": 5}]}, {"rows": []}], "next": None},
    {"items": []},
]
PAGINGS: dict[str, Any] = {
    "cursor": Cursor(at="next", param="page", ends="no_token"),
    "offset": Offset(param="page", ends="empty_page"),
    "short page": Offset(param="page", ends=ShortPage(serves=2)),
}


@pytest.mark.parametrize("kind", PAGINGS)
def test_pages_count_the_elements_that_the_api_pages(kind: str) -> None:
    """Otherwise a page whose elements have no rows ends the day, and an offset skips elements."""
    source = declared("/x", PAGINGS[kind], records={"at": "/items/*/rows", "key": ["id"], "columns": COLUMNS})
    numbers = {"": 0, "0": 0, "b": 1, "2": 1, "c": 2, "4": 2, "6": 3}
    with RestApi() as api:
        api.faults.append(lambda asked: Answer(PAGES[numbers[asked.first("page")]]))
        polled = read(api, source)
    assert [key for _, _, batch in polled.batches for key in batch.column("id").to_pylist()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("paging", "text"),
    [
        (NextLink(at="next", ends=Total(at="total")), "paging.ends: counts records"),
        (NextLink(at="next", ends="no_token", cap=Cap(records=10)), "paging.cap: counts records"),
    ],
)
def test_a_paging_that_counts_records_is_refused(paging: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        declared("/x", paging, records={"at": "/items/*/rows", "key": ["id"], "columns": COLUMNS})
