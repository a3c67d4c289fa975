"""Each way to page, each with its end rule: a day is read whole, each record once, in as many requests as it takes."""

from __future__ import annotations

from typing import Any

import pytest

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
from tests.equipment.rest_api.server import RestApi

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
