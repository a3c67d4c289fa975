"""Where an API lists so many records and no more, and its users took the beginning of a day for the whole."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources.rest import (
    Cap,
    Cursor,
    ErrorRule,
    Flag,
    LinkHeader,
    NextLink,
    Offset,
    PageNumber,
    Total,
)
from tests.equipment.rest_api.items import DATE, item, items_of
from tests.equipment.rest_api.reading import counts, declared, ids, read
from tests.equipment.rest_api.server import Answer, RestApi

ALL = list(range(1, 36))
PAST_THE_CAP = ErrorRule(status=400, at="code", values=("invalid_page",), then="empty")
AT_CAP = Cap(records=20, param="since", field="at")
CAPPED = [
    ("/linked", NextLink(at="/links/next", ends="no_token", cap=AT_CAP)),
    ("/linked", LinkHeader(ends="no_token", cap=AT_CAP)),
    ("/cursor", Cursor(at="/meta/next", param="cursor", ends="no_token", cap=AT_CAP)),
    ("/offset", Offset(ends=Total(at="total"), cap=AT_CAP)),
    ("/pages/totals", PageNumber(ends=Flag(at="more", last=False), cap=AT_CAP)),
]


@pytest.mark.parametrize(("path", "paging"), CAPPED)
def test_pages_that_end_at_a_cap_without_a_word_go_on_from_the_last_record(path: str, paging: Any) -> None:
    """airbyte #66592, #58666, #56370: Pardot lists 100,000 rows and names no next page; nothing says that it is cut."""
    items = items_of(DATE, 35)
    for number in (20, 21):  # the cap falls among records of one moment: they must all come, and each once
        items[number]["at"] = items[19]["at"]
    with RestApi(items, quirks=["ends_at_20"]) as server:
        polled = read(server, declared(path, paging, at="items", params={"state": "all"}))
        begun = {request.first("since") for request in server.asked}
        assert all(sorted(name for name, _ in each.query).count("since") == 1 for each in server.asked)
    assert sorted(ids(polled)) == ALL
    assert begun == {"2026-10-05T00:00:00Z", items[19]["at"]}
    assert counts(polled)["duplicates"] == 1


@pytest.mark.parametrize("count", [20, 35])
def test_a_listing_that_reached_its_cap_is_no_whole_day_where_nothing_says_how_to_go_on(count: int) -> None:
    paging = NextLink(at="/links/next", ends="no_token", cap=Cap(records=20))
    with RestApi(items_of(DATE, count), quirks=["ends_at_20"]) as server:
        with pytest.raises(
            ConfigError, match=r"20 records were received, and the API lists at most 20\. The other records are"
        ):
            read(server, declared("/linked", paging, at="items"))
        server.items = items_of(DATE, 19)
        assert ids(read(server, declared("/linked", paging, at="items"))) == ALL[:19]


def test_more_records_of_one_moment_than_a_listing_has_are_told_and_not_lost() -> None:
    noon = dt.datetime.combine(DATE, dt.time(12), dt.UTC)
    source = declared("/linked", CAPPED[0][1], at="items")
    with RestApi([item(number, noon) for number in ALL], quirks=["ends_at_20"]) as server:
        with pytest.raises(
            ConfigError, match=r"listing 2: 20 records were received, .* The listing ends with the same 'at'"
        ):
            read(server, source)
        assert len(server.asked) == 4


def test_a_last_record_that_does_not_say_where_to_go_on_is_told() -> None:
    paging = LinkHeader(ends="no_token", cap=Cap(records=20, param="since", field="changed"))
    with (
        RestApi(items_of(DATE, 35), quirks=["ends_at_20"]) as server,
        pytest.raises(RetriableError, match=r"page 2 has neither text .* at 'changed'"),
    ):
        read(server, declared("/linked", paging, at="items"))


def test_an_error_at_the_cap_that_means_the_end_costs_no_row() -> None:
    """The same API answers a page beyond its cap with a 400: with the cap declared, that page is never asked for."""
    with RestApi(items_of(DATE, 35), quirks=["ends_at_20", "past_the_end_is_400"]) as server:
        source = declared("/pages", PageNumber(ends="empty_page", cap=AT_CAP), errors=(PAST_THE_CAP,))
        assert sorted(ids(read(server, source))) == ALL


def test_an_api_that_ends_without_a_word_at_its_cap_does_not_make_a_short_day() -> None:
    """airbyte #66592, Pardot: the answers end at a cap, with an error that is declared as empty, or with a 400."""
    source = declared("/pages/totals", PageNumber(ends=Flag(at="more", last=False)), at="items", errors=(PAST_THE_CAP,))
    with RestApi(items_of(DATE, 35)) as server:
        server.faults.append(
            lambda asked: Answer({"code": "invalid_page"}, 400) if asked.first("page") == "3" else None
        )
        with pytest.raises(RetriableError, match=r"page 3 is empty by a rule .* announced more"):
            read(server, source)
