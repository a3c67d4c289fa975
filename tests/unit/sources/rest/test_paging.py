"""Each way to page, each with its end rule: a day is read whole, each record once, in as many requests as it takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, SetupError
from airflow_provider_connect.sources._rest.pages.page_values import whole_number
from airflow_provider_connect.sources.rest import (
    Cursor,
    Flag,
    LastKey,
    LinkHeader,
    NextLink,
    Offset,
    PageNumber,
    Request,
    ShortPage,
    Single,
    Total,
)
from tests.equipment.rest_api.items import DATE, items_of
from tests.equipment.rest_api.reading import BOUNDS, counts, declared, ids, read, tally_of
from tests.equipment.rest_api.server import Answer, RestApi

MORE = Flag(at="has_more", last=False)
POSTED = Request(path="/body", method="POST", body=BOUNDS)

WAYS: dict[str, tuple[Any, int]] = {
    "single": (declared("/single", Single()), 1),
    "page number to an empty page": (declared("/pages", PageNumber(ends="empty_page", size_param="size", size=10)), 5),
    "page number to a short page": (declared("/pages", PageNumber(ends="short_page")), 4),
    "page number from 0 to a flag": (
        declared("/pages/totals", PageNumber(ends=Flag(at="more", last=False)), at="items"),
        4,
    ),
    "page number to a total": (declared("/pages/totals", PageNumber(ends=Total(at="total")), at="items"), 4),
    "page number to a total in a header": (declared("/pages", PageNumber(ends=Total(header="X-Total"))), 4),
    "page number to a number of pages": (declared("/pages", PageNumber(ends=Total(header="X-Pages", of="pages"))), 4),
    "offset to an empty page": (declared("/offset", Offset(ends="empty_page"), at="items"), 5),
    "offset to a total": (declared("/offset", Offset(ends=Total(at="total")), at="items"), 4),
    "offset to a short page": (
        declared("/offset", Offset(ends=ShortPage(serves=10), limit_param="limit", limit=10), at="items"),
        4,
    ),
    "Link header": (declared("/linked", LinkHeader(ends="no_token"), at="items"), 4),
    "next link in the body": (declared("/linked", NextLink(at="/links/next", ends="no_token"), at="items"), 4),
    "next link under a name with dots": (
        declared("/linked", NextLink(at="@odata.nextLink", ends="no_token"), at="items"),
        4,
    ),
    "cursor in the body": (
        declared("/cursor", Cursor(at="/meta/next", param="cursor", ends="no_token"), at="items"),
        4,
    ),
    "cursor in a header": (
        declared("/cursor", Cursor(header="X-Next", send_header="X-Cursor", ends="no_token"), at="items"),
        4,
    ),
    "cursor to a flag": (
        declared("/cursor", Cursor(at="/meta/next", param="cursor", ends=MORE), at="items"),
        4,
    ),
    "last item's key": (declared("/last", LastKey(param="starting_after", ends=MORE), at="data"), 4),
    "continuation token in a POST": (
        declared("", Cursor(at="next_cursor", put="start_cursor", ends=MORE), request=POSTED, at="results"),
        4,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_day_is_read_whole(way: str) -> None:
    source, requests = WAYS[way]
    with RestApi([*items_of(DATE, 35)]) as api:
        polled = read(api, source)
        assert sorted(ids(polled)) == list(range(1, 36))
        assert len(api.asked) == counts(polled)["pages"] == requests
        assert tally_of(polled).announced_rows == (35 if "to a total" in way else 0)


@pytest.mark.parametrize(
    "tokens",
    [
        [7, 0, 12],
        ["7", "0"],
        [1.5, 0.0],
        [["2026-10-05", 7], ["2026-10-06", 1.25]],
        [{"id": {"S": "a"}}],
    ],
    ids=["number", "text", "fraction", "list", "object"],
)
@pytest.mark.parametrize("last", [None, [], {}, ""], ids=["null", "list", "object", "text"])
def test_a_token_goes_back_into_a_body_as_it_came(tokens: list[Any], last: Any) -> None:
    following = [*tokens, last]
    source = declared("", Cursor(at="next", put="/page/after", ends="no_token"), request=POSTED, at="items")
    with RestApi() as api:
        api.faults.append(
            lambda _: Answer({"items": items_of(DATE, 1, len(api.asked)), "next": following[len(api.asked) - 1]})
        )
        assert ids(read(api, source)) == list(range(1, len(tokens) + 2))
        sent = [asked.document.get("page") for asked in api.asked]
    assert [repr(body) for body in sent] == ["None", *(repr({"after": token}) for token in tokens)]


def test_a_list_is_no_token_for_a_query() -> None:
    source = declared("/x", Cursor(at="next", param="after", ends="no_token"), at="items")
    with RestApi() as api:
        api.faults.append(lambda _: Answer({"items": items_of(DATE, 1), "next": [1]}))
        with pytest.raises(SetupError, match="neither text nor a whole number as the next page's token"):
            read(api, source)


def test_a_token_in_a_header_replaces_the_declared_header_of_any_case() -> None:
    request = Request(path="/x", params=BOUNDS, headers={"x-token": "first"})
    source = declared("", Cursor(at="next", send_header="X-Token", ends="no_token"), request=request, at="items")
    with RestApi() as api:
        api.faults.append(
            lambda _: Answer({"items": items_of(DATE, 1, len(api.asked)), "next": [5, None][len(api.asked) - 1]})
        )
        read(api, source)
        assert [asked.headers["x-token"] for asked in api.asked] == ["first", "5"]


@pytest.mark.parametrize(
    ("value", "number"),
    [(60, 60), (60.0, 60), ("60", 60), (" 60.0 ", 60), ("1,060", 1060), ("1,060.00", 1060), ("1060", 1060)]
    + [(value, None) for value in (60.5, "60.5", "1,06", "10,60", "1.060", -1, "-1", True, None, "", "many", [])],
)
def test_a_total_is_a_whole_number_in_any_writing(value: Any, number: int | None) -> None:
    assert whole_number(value) == number


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_a_page_of_another_encoding_is_read(encoding: str) -> None:
    raw = json.dumps({"items": items_of(DATE, 3), "total": "3.0"}, ensure_ascii=False).encode(encoding)
    headers = {"Content-Type": f"application/json; charset={encoding.removesuffix('-sig')}"}
    with RestApi() as api:
        api.faults.append(lambda _: Answer(raw=raw, headers=dict(headers)))
        polled = read(api, declared("/x", PageNumber(ends=Total(at="total")), at="items"))
    names = [name for _, _, batch in polled.batches for name in batch.column("name").to_pylist()]
    assert names == ["näme 1", "näme 2", "näme 3"]


@pytest.mark.parametrize(
    ("paging", "sent"),
    [
        (Offset(put="/page/offset", limit=10, ends="short_page"), [0, 10, 20]),
        (PageNumber(put="/page/number", first=0, ends="short_page", size=10), [0, 1, 2]),
        (LastKey(put="/page/after", field="id", ends="short_page"), [None, 10, 20]),
    ],
    ids=["offset", "page number", "last key"],
)
def test_a_position_goes_into_a_body_as_a_number(paging: Any, sent: list[Any]) -> None:
    items = items_of(DATE, 25)

    def serve(asked: Any) -> Answer:
        page = asked.document["page"]
        start = page.get("offset", page.get("after", 10 * page.get("number", 0)))
        return Answer({"items": items[start : start + page["limit"]]})

    request = Request(path="/x", method="POST", body=BOUNDS | {"page": {"limit": 10}}, params={"offset": 7})
    with RestApi() as api:
        api.faults.append(serve)
        assert sorted(ids(read(api, declared("", paging, request=request, at="items")))) == list(range(1, 26))
        name = (paging.put or "").rpartition("/")[2]
        assert [asked.document["page"].get(name) for asked in api.asked] == sent
        assert {tuple(asked.query) for asked in api.asked} == {(("offset", "7"),)}


@pytest.mark.parametrize(
    ("paging", "method", "text"),
    [
        ({"kind": "offset", "put": "o", "ends": "empty_page"}, "GET", "paging.put: requires request.method='POST'"),
        ({"kind": "offset", "limit": 5, "ends": "empty_page"}, "POST", "set both limit_param and limit, or neither"),
        ({"kind": "last_key", "ends": "empty_page"}, "POST", "set one of 'param' and 'put', or {page.value}"),
        ({"kind": "last_key", "param": "a", "put": "b", "ends": "empty_page"}, "POST", "set either 'param' or 'put'"),
    ],
)
def test_a_position_has_one_destination(paging: Any, method: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        declared("", paging, request=Request(path="/x", method=method, params=BOUNDS))
    assert text in str(caught.value)
