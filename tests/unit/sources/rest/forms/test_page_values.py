"""The value of a page in a form, or inside any text of the request."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources.rest import RestSource
from tests.equipment.rest_api.reading import ids, read
from tests.equipment.rest_api.server import Answer, Request, RestApi

ITEMS = [{"id": number, "name": f"n {number}"} for number in range(1, 8)]
QUERY = "select id from things limit 3 offset "


def source(request: dict[str, Any], paging: dict[str, Any], **options: Any) -> RestSource:
    columns = {"id": "bigint", "name": "string"}
    records = {"at": "data", "key": ["id"], "columns": columns}
    paging = {"ends": "empty_page"} | paging
    fields = {"request": {"path": "/x"} | request, "paging": paging, "records": records, "snapshot": "replace"}
    return RestSource(conn_id="api", stream="x", **fields | options)


def load(declaration: RestSource, start_of: Any) -> list[int]:
    """Return the ids that an API with pages of three serves, whose pages start where ``start_of`` reads it."""

    def page(asked: Request) -> Answer:
        start = start_of(asked)
        following = start + 3 if start + 3 < len(ITEMS) else None
        return Answer({"data": ITEMS[start : start + 3], "next": None if following is None else f"t {following}"})

    with RestApi() as api:
        api.faults.append(page)
        return ids(read(api, declaration))


OFFSET = {"kind": "offset", "limit": 3}
CURSOR = {"kind": "cursor", "at": "next", "ends": "no_token", "first_value": "t 0"}
PLACES: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "a form": (
        {"method": "POST", "form": {"a": "b"}},
        OFFSET | {"put": "from"},
        lambda asked: int(parse_qs(asked.document)["from"][0]),
    ),
    "a text of a form": (
        {"method": "POST", "form": {"query": QUERY + "{page.value}"}},
        OFFSET,
        lambda asked: int(parse_qs(asked.document)["query"][0].removeprefix(QUERY)),
    ),
    "a text of a body": (
        {"method": "POST", "body": {"q": ["[x] " + QUERY + "{page.value};"]}},
        OFFSET,
        lambda asked: int(asked.document["q"][0].removeprefix("[x] " + QUERY).rstrip(";")),
    ),
    "a number of a body": (
        {"method": "POST", "body": {"page": {"from": "{page.value}"}}},
        OFFSET,
        lambda asked: asked.document["page"]["from"] + 0,
    ),
    "a param": (
        {"params": {"page": '{"number": {page.value}}'}},
        {"kind": "page_number", "first": 0},
        lambda asked: 3 * int(asked.first("page").removeprefix('{"number": ').rstrip("}")),
    ),
    "the path": (
        {"path": "/x/{page.value}/list"},
        CURSOR,
        lambda asked: int(unquote(asked.path.split("/")[2]).removeprefix("t ")),
    ),
    "a header": (
        {"headers": {"X-Range": "items={page.value}"}},
        {"kind": "last_key", "field": "id", "first_value": "0"},
        lambda asked: int(asked.headers["x-range"].removeprefix("items=")),
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_value_of_a_page_may_be_anywhere(place: str) -> None:
    request, paging, start_of = PLACES[place]
    assert load(source(request, paging), start_of) == [item["id"] for item in ITEMS]


def test_a_value_of_a_parent_is_no_place_of_the_page() -> None:
    request = {"path": "/x/{parent.name}", "params": {"from": "f{page.value}"}}
    values = {"parent_values": {"name": ["{page.value}"]}, "parent_columns": {"part": "name"}}
    paths: set[str] = set()

    def start_of(asked: Request) -> int:
        paths.add(unquote(asked.path))
        return int(asked.first("from")[1:])

    assert len(load(source(request, OFFSET, **values), start_of)) == len(ITEMS)
    assert paths == {"/x/{page.value}"}


@pytest.mark.parametrize(
    ("request_fields", "paging", "text"),
    [
        ({"params": {"a": "{page.value}"}}, OFFSET | {"param": "o"}, "paging.param: remove it"),
        (
            {"params": {"a": "{page.value}"}},
            {"kind": "link_header", "ends": "no_token"},
            "request.params.a: unknown {page.value}",
        ),
        ({"params": {"a": "{page.value:iso}"}}, OFFSET, "request.params.a: {page.value} accepts no format"),
        ({}, CURSOR | {"param": "c"}, "paging.first_value: requires {page.value}"),
        ({}, {"kind": "cursor", "at": "next"}, "set one of 'param', 'send_header' and 'put', or {page.value}"),
        ({}, OFFSET, "set both limit_param and limit, or neither"),
        ({"method": "POST", "form": {}}, OFFSET | {"put": "/a/b"}, "paging.put: the name of a form's field"),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused(request_fields: Any, paging: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        source(request_fields, paging)
    assert text in str(caught.value)
