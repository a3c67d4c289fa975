"""What an API does to a day of pages (H16-H24): links that lead astray, rows that move, come late or change."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from airflow_provider_connect.completeness import Rules, findings
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._rest import poller as polling
from airflow_provider_connect.sources.rest import Cursor, LastKey, NextLink, PageNumber, RestSource
from airflow_provider_connect.stage.manifest import PollResult
from tests.equipment.rest_api.items import DATE, item, items_of
from tests.equipment.rest_api.reading import DAY, counts, declared, ids, read, records
from tests.equipment.rest_api.server import Answer, Request, RestApi

ALL = list(range(1, 36))
NUMBERED = PageNumber(ends="empty_page", size_param="size", size=10)
BY_KEY = LastKey(param="starting_after", ends={"rule": "flag", "at": "has_more", "last": False})
LINKED = declared("/linked", NextLink(at="next", ends="no_token"), at="items")


@pytest.mark.parametrize(
    "link",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1.nip.example/linked",
        "https://elsewhere.example/linked",
        "//elsewhere.example/linked",
        "file:///etc/passwd",
        "gopher://127.0.0.1/x",
    ],
)
def test_h16_a_next_link_that_leads_astray_is_not_followed(link: str) -> None:
    with RestApi() as api:
        api.faults.append(lambda _: Answer({"items": items_of(DATE, 3), "next": link}))
        with pytest.raises(ConfigError, match="leads to"):
            read(api, LINKED)
        assert len(api.asked) == 1


@pytest.mark.parametrize("link", ["/linked?from=10", "linked?from=10", "?from=10", "//127.0.0.1:{port}/linked?from=10"])
def test_h16_a_relative_next_link_leads_on(link: str) -> None:
    with RestApi() as api:
        first = Answer({"items": items_of(DATE, 10), "next": link.replace("{port}", str(api.port))})
        api.faults.append(lambda asked: None if asked.first("from") else first)
        assert len(ids(read(api, LINKED))) == 20


def test_h16_the_same_page_twice_and_no_end_of_empty_pages_are_no_day() -> None:
    same = declared("/cursor", Cursor(at="/meta/next", param="cursor", ends="no_token"), at="items")
    with RestApi(quirks=["tokens_change_rows_stay"]) as api, pytest.raises(RetriableError, match="same rows twice"):
        read(api, same)


@pytest.mark.parametrize(("paging", "path", "at"), [(BY_KEY, "/last", "data")])
def test_h17_where_pages_follow_a_key_nothing_is_lost_by_a_record_that_vanishes(
    paging: LastKey, path: str, at: str
) -> None:
    """Where pages are counted, the record that moves up over a page's edge is on no page: the API's way of paging."""

    def vanishes(asked: Request) -> None:
        if asked.first("starting_after") == "26":  # the second page: newest first
            api.items = [each for each in api.items if each["id"] != 30]

    with RestApi(items_of(DATE, 35)) as api:
        api.faults.append(vanishes)
        assert sorted(ids(read(api, declared(path, paging, at=at)))) == ALL


def test_h17_a_count_of_the_apis_own_finds_a_record_that_no_page_had() -> None:
    """The limit of counted pages: a record that moves up while they are read is missing, and ``reconcile`` tells."""

    def vanishes(asked: Request) -> None:
        if asked.first("page") == "2":
            api.items = [each for each in api.items if each["id"] != 1]

    source = declared("/pages", NUMBERED, count={"request": {"path": "/count"}, "at": "/meta/count"})
    with RestApi(items_of(DATE, 35)) as api:
        poller = source.open(api.connection, PollContext())
        before = poller.count(DAY, Tally()).rows
        api.faults.append(vanishes)
        assert (len(ids(read(api, source))), before) == (34, 35)


def test_h18_a_day_that_is_asked_for_again_has_what_came_late_and_not_what_is_gone() -> None:
    with RestApi(items_of(DATE, 35)) as api:
        source = declared("/pages", NUMBERED)
        assert ids(read(api, source)) == ALL
        api.items = [*api.items[:5], item(99, dt.datetime.combine(DATE, dt.time(7), dt.UTC))]
        assert ids(read(api, source)) == [1, 2, 3, 4, 5, 99]


@pytest.mark.parametrize(
    ("before_end", "error"),
    [(dt.timedelta(minutes=30), RetriableError), (dt.timedelta(hours=2), ConfigError), (dt.timedelta(), None)],
)
def test_h19_a_day_that_is_not_over_is_asked_for_by_nobody(
    monkeypatch: pytest.MonkeyPatch, before_end: dt.timedelta, error: type[Exception] | None
) -> None:
    monkeypatch.setattr(polling, "current_time", lambda: DAY.end - before_end)
    with RestApi() as api:
        poller = declared("/pages", NUMBERED).open(api.connection, PollContext())
        if error is None:
            assert len(poller.plan([DAY])) == 1
        else:
            with pytest.raises(error, match="is not over yet"):
                poller.plan([DAY])
        assert api.asked == []


def test_h20_an_answer_without_rows_replaces_no_day_that_has_some() -> None:
    with RestApi([]) as api:
        polled = read(api, declared("/pages", NUMBERED))
    assert (ids(polled), counts(polled)["pages"]) == ([], 1)
    published = LedgerRow.model_construct(day=DATE, rows=35, generation=1, counts={})
    (found,) = findings(
        DATE, PollResult(files=()), on_empty="fail", rules=Rules(), replaced=published, earlier=published
    )
    assert found.is_fatal
    assert "would delete the 35 published rows" in found.text


def test_h22_pages_of_a_large_day_are_in_memory_one_by_one_and_a_cap_that_is_a_400_is_told() -> None:
    with RestApi(items_of(DATE, 550), page_size=50) as api:
        source = declared("/pages", PageNumber(ends="empty_page"))
        polled = read(api, source)
        assert max(batch.num_rows for _, _, batch in polled.batches) == 50
        assert len(ids(polled)) == 550
        api.faults.append(
            lambda asked: Answer({"error": "more than 1,000 records"}, 400) if asked.first("page") == "11" else None
        )
        with pytest.raises(ConfigError, match=r"page 11\) answered 400.*more than 1,000 records"):
            read(api, source)


ODD: list[dict[str, Any]] = [
    {"new": {"er": [1, None]}},
    {"a.b": 1, "a b": 2, "": 3, "\U0001f600": 4, "document": 5, "record_key": 6},
    {f"k{number}": number for number in range(10_000)},
    {"deep": json.loads("[" * 500 + "]" * 500)},
    {"name": {"now": "an object"}},
]


@pytest.mark.parametrize("odd", ODD, ids=["new field", "odd names", "10,000 names", "500 deep", "text to object"])
def test_h23_fields_that_nobody_has_seen_before_are_kept_dropped_or_refused_as_declared(odd: dict[str, Any]) -> None:
    items = items_of(DATE, 3)
    items[1] |= odd

    def source(undeclared: str) -> RestSource:
        return declared("/pages", NUMBERED, records=records(undeclared=undeclared))

    with RestApi(items) as api:
        polled = read(api, source("json"))
        rows = [row for _, _, batch in polled.batches for row in batch.to_pylist()]
        assert [json.loads(row["document"]) for row in rows] == items
        dropped = read(api, source("drop"))
        assert ids(dropped) == [1, 2, 3]
        assert counts(dropped)["undeclared_dropped"] == 3
        with pytest.raises(DataError, match="undeclared fields"):
            read(api, source("fail"))


def test_h24_a_small_answer_that_becomes_a_large_one_ends_at_what_a_page_may_hold() -> None:
    """It is sent as gzip, a few kilobytes; inflated it would be 16 MB."""
    with RestApi() as api:
        api.faults.append(lambda _: Answer(raw=b"[" + b" " * (16 << 20) + b"]"))
        with pytest.raises(ConfigError, match="more than 1,048,576 bytes: request smaller pages"):
            read(api, declared("/pages", NUMBERED, max_page_bytes=1 << 20))
        assert len(api.asked) == 1
