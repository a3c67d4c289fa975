"""APIs whose pages repeat records, hide records at an edge, or announce a total that is wrong: whole days or errors."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError, SetupError
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.sources.rest import (
    Cap,
    Cursor,
    ErrorRule,
    LastKey,
    NextLink,
    Offset,
    PageNumber,
    RestSource,
    ShortPage,
    Single,
    Total,
)
from tests.equipment.rest_api.items import DATE, item, items_of
from tests.equipment.rest_api.reading import counts, declared, ids, read, records
from tests.equipment.rest_api.server import Answer, Request, RestApi

NOON = dt.datetime.combine(DATE, dt.time(12), dt.UTC)
LATER = NOON + dt.timedelta(seconds=1)
Serve = Callable[[list[dict[str, Any]], Request], dict[str, Any]]


def serving(serve: Serve, count: int) -> RestApi:
    """Return an API that answers all requests with ``serve``, from this many items."""
    api = RestApi(items_of(DATE, count))
    api.faults.append(lambda asked: Answer(serve(api.items, asked)))
    return api


def number(asked: Request, name: str, default: int) -> int:
    return int(asked.first(name, str(default)))


def overlapping_offset(items: list[dict[str, Any]], asked: Request) -> dict[str, Any]:
    """Each page of 20 repeats ten records of the page before."""
    start = number(asked, "offset", 0) // 2
    return {"items": items[start : start + 20], "total": len(items)}


def overlapping_pages(items: list[dict[str, Any]], asked: Request) -> dict[str, Any]:
    """Each page of 25 repeats five records of the page before."""
    start = (number(asked, "page", 1) - 1) * 20
    return {"items": items[start : start + 25], "total": len(items)}


def inclusive_since(items: list[dict[str, Any]], asked: Request) -> dict[str, Any]:
    """Pages of 20 that begin with the record that the request names."""
    start = number(asked, "since_id", 1) - 1
    return {"items": items[start : start + 20], "total": len(items)}


TOTAL = Total(at="total")


@pytest.mark.parametrize(
    ("serve", "paging"),
    [
        (overlapping_offset, Offset(ends=TOTAL)),
        (overlapping_pages, PageNumber(ends=TOTAL)),
        (inclusive_since, LastKey(param="since_id", field="id", ends=TOTAL)),
    ],
    ids=["offset", "page number", "last key"],
)
@pytest.mark.parametrize("outside", ["fail", "drop"])
def test_records_that_come_twice_do_not_count_towards_the_total(serve: Serve, paging: Any, outside: str) -> None:
    source = declared("/x", paging, records=records("items", day="at", outside=outside))
    with serving(serve, 200) as api:
        assert sorted(ids(read(api, source))) == list(range(1, 201))


class CountedKeySet(KeySet):
    """Counts the key sets that are open at the same time, each with a filter of 2 MiB."""

    open_sets: ClassVar[int] = 0
    most: ClassVar[int] = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        CountedKeySet.open_sets += 1
        CountedKeySet.most = max(CountedKeySet.most, CountedKeySet.open_sets)

    def close(self) -> None:
        CountedKeySet.open_sets -= 1
        super().close()


@pytest.mark.parametrize(
    "paging",
    [PageNumber(ends=TOTAL), LastKey(param="after", field="at", ends=TOTAL, unique=True)],
    ids=["total", "unique field"],
)
def test_the_listings_of_many_parents_are_checked_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, paging: Any
) -> None:
    monkeypatch.setattr("airflow_provider_connect.sources._rest.listing_check.KeySet", CountedKeySet)
    CountedKeySet.open_sets = CountedKeySet.most = 0
    parents = {
        "conn_id": "api",
        "stream": "p",
        "request": {"path": "/parents"},
        "paging": Single(),
        "records": {"key": ["id"], "columns": {"id": "bigint"}},
        "snapshot": "replace",
    }
    child = RestSource(
        conn_id="api",
        stream="c",
        request={"path": "/children/{parent.id}", "params": {"since": "{day.start}", "until": "{day.end}"}},
        paging=paging,
        records=records("items"),
        parent=parents,
    )

    def serve(asked: Request) -> Answer:
        if asked.path == "/parents":
            return Answer([{"id": number} for number in range(40)])
        number = int(asked.path.rpartition("/")[2])
        rows = [] if asked.first("after") else [item(100 * number, NOON), item(100 * number + 1, LATER)]
        return Answer({"items": rows, "total": 2})

    with RestApi() as api:
        api.faults.append(serve)
        assert len(ids(read(api, child))) == 80
    assert (CountedKeySet.open_sets, CountedKeySet.most <= 2) == (0, True)


def test_a_total_whose_records_never_come_fails_the_day() -> None:
    def serve(items: list[dict[str, Any]], asked: Request) -> dict[str, Any]:
        start = number(asked, "offset", 0)
        return {"items": [*items[:1], *items[start + 1 : start + 20]], "total": len(items)}

    with serving(serve, 60) as api, pytest.raises(SetupError, match="announced 60 records and sent 58 different ones"):
        read(api, declared("/x", Offset(ends=TOTAL, limit_param="limit", limit=20), at="items"))


@pytest.mark.parametrize("limit", [25, None])
def test_a_pinned_record_on_each_page_moves_no_offset(limit: int | None) -> None:
    """Each page has the first record again, and 25 others."""

    def serve(items: list[dict[str, Any]], asked: Request) -> dict[str, Any]:
        start = number(asked, "offset", 0)
        page = items[1:][start : start + 25]
        return {"items": [items[0], *page] if page else []}

    paging = Offset(ends="empty_page", **({"limit_param": "limit", "limit": limit} if limit else {}))
    with serving(serve, 61) as api:
        loaded = sorted(ids(read(api, declared("/x", paging, at="items"))))
    if limit:
        assert loaded == list(range(1, 62))
    else:
        assert len(loaded) < 61, "without a declared limit, nothing tells a pinned record from another"


@pytest.mark.parametrize("serves", [25, None])
def test_a_first_page_with_a_pinned_record_makes_no_later_page_short(serves: int | None) -> None:
    def serve(items: list[dict[str, Any]], asked: Request) -> dict[str, Any]:
        page = number(asked, "page", 1)
        start = (page - 1) * 25
        return {"items": [*items[200:][: page == 1], *items[:200][start : start + 25]]}

    paging = PageNumber(ends=ShortPage(serves=serves), size_param="size", size=25)
    with serving(serve, 201) as api:
        assert sorted(ids(read(api, declared("/x", paging, at="items")))) == list(range(1, 202))


def linked(extra: int) -> Serve:
    """Return an API that announces ``extra`` fewer records than it has and links each page, the last one to itself."""

    def serve(items: list[dict[str, Any]], asked: Request) -> dict[str, Any]:
        start = number(asked, "from", 0)
        following = min(start + 10, len(items) - 10)
        return {"items": items[start : start + 10], "total": len(items) - extra, "next": f"/x?from={following}"}

    return serve


def test_a_next_page_after_the_total_that_brings_nothing_new_is_the_end() -> None:
    source = declared("/x", NextLink(at="next", ends=TOTAL), at="items", params={})
    with serving(linked(0), 30) as api:
        assert ids(read(api, source)) == list(range(1, 31))
        assert len(api.asked) == 4


def test_a_total_below_what_the_next_page_brings_fails_the_day() -> None:
    source = declared("/x", NextLink(at="next", ends=TOTAL), at="items")
    with serving(linked(10), 30) as api, pytest.raises(SetupError, match="announced 20 records and sends more"):
        read(api, source)


def same_moments(count: int, each: int) -> list[dict[str, Any]]:
    """Return items in order of time, ``each`` of them at a moment."""
    return [item(number + 1, NOON + dt.timedelta(seconds=number // each)) for number in range(count)]


def after(items: list[dict[str, Any]], asked: Request, *, is_inclusive: bool, size: int = 10) -> dict[str, Any]:
    since = asked.first("after")
    later = [item for item in items if item["at"] > since or (is_inclusive and item["at"] == since)]
    return {"items": later[:size], "more": len(later) > size}


BY_TIME = {"param": "after", "field": "at", "ends": {"rule": "flag", "at": "more", "last": False}}


def timed(paging: Any) -> RestSource:
    return declared("/x", paging, at="items")


def test_a_cursor_by_a_time_that_records_share_loses_nothing_where_it_is_inclusive() -> None:
    with RestApi(same_moments(100, 3)) as api:
        api.faults.append(lambda asked: Answer(after(api.items, asked, is_inclusive=True)))
        polled = read(api, timed(LastKey(**BY_TIME)))
        assert sorted(ids(polled)) == list(range(1, 101))
        assert counts(polled)["duplicates"] > 0


def test_a_cursor_by_a_time_that_excludes_its_value_fails_the_day() -> None:
    with RestApi(same_moments(100, 3)) as api:
        api.faults.append(lambda asked: Answer(after(api.items, asked, is_inclusive=False)))
        with pytest.raises(SetupError, match=r"page 2: starts after the last record by 'at', and that record does not"):
            read(api, timed(LastKey(**BY_TIME)))


@pytest.mark.parametrize(("each", "is_whole"), [(1, True), (3, False)])
def test_a_field_that_is_declared_unique_may_not_repeat(each: int, is_whole: bool) -> None:
    with RestApi(same_moments(100, each)) as api:
        api.faults.append(lambda asked: Answer(after(api.items, asked, is_inclusive=False)))
        source = timed(LastKey(**BY_TIME, unique=True))
        if is_whole:
            assert sorted(ids(read(api, source))) == list(range(1, 101))
        else:
            with pytest.raises(SetupError, match="page 1: 6 records have the 'at' of another record"):
                read(api, source)


@pytest.mark.parametrize("is_inclusive", [True, False])
def test_a_cap_that_divides_records_of_one_moment_is_crossed_inclusively_or_not_at_all(is_inclusive: bool) -> None:
    """A listing ends after 20 records, and the next one starts at the last one's time."""

    def serve(items: list[dict[str, Any]], asked: Request) -> dict[str, Any]:
        start = number(asked, "cursor", 0)
        listing = after(items, asked, is_inclusive=is_inclusive, size=20)["items"]
        more = start + 10 < len(listing)
        return {"items": listing[start : start + 10], "next": str(start + 10) if more else None}

    cap = Cap(records=20, param="after", field="at")
    source = timed(Cursor(at="next", param="cursor", ends="no_token", cap=cap))
    with RestApi(same_moments(50, 3)) as api:
        api.faults.append(lambda asked: Answer(serve(api.items, asked)))
        if is_inclusive:
            assert sorted(ids(read(api, source))) == list(range(1, 51))
        else:
            with pytest.raises(SetupError, match="that record does not come again"):
                read(api, source)


CURSOR = Cursor(at="next", param="cursor", ends="no_token")


def error_after(pages: int, error: dict[str, Any], status: int = 200) -> RestApi:
    """Return an API that answers some pages of 20, each with a token, and then an error."""
    api = RestApi(items_of(DATE, 60))

    def serve(asked: Request) -> Answer:
        start = number(asked, "cursor", 0)
        if start >= 20 * pages:
            return Answer(error, status)
        return Answer({"items": api.items[start : start + 20], "next": str(start + 20) if start < 40 else None})

    api.faults.append(serve)
    return api


@pytest.mark.parametrize("pages", [0, 1])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"error": "try later", "code": 7}, "fields that the declaration does not name: 'code', 'error'"),
        ({"data": {"items": []}}, "fields that the declaration does not name: 'data'"),
        ({"ann@example.com": {}}, "fields that the declaration does not name: 1 of them"),
    ],
)
def test_an_error_in_a_200_is_no_empty_page(pages: int, error: dict[str, Any], text: str) -> None:
    source = declared("/x", CURSOR, records=records("items", missing="empty"), retry_budget_seconds=0)
    with error_after(pages, error) as api, pytest.raises(SetupError) as caught:
        read(api, source)
    expected = text if not pages else "the answer has neither records at 'items' nor 'next', though the page before"
    assert expected in str(caught.value)
    assert "declare it in errors" in str(caught.value)


def test_an_empty_first_page_is_a_day_without_records() -> None:
    for page, empty_has in ({}, ()), ({"next": None}, ()), ({"kind": "list", "etag": "x"}, ("kind", "etag")):
        source = declared("/x", CURSOR, records=records("items", missing="empty", empty_has=empty_has))
        with error_after(0, page) as api:
            assert ids(read(api, source)) == []


def test_an_empty_page_that_the_page_before_announced_is_no_end() -> None:
    source = declared("/x", CURSOR, records=records("items", missing="empty"), retry_budget_seconds=0)
    with error_after(1, {}) as api, pytest.raises(SetupError, match="though the page before it announced it"):
        read(api, source)


def test_an_accepted_request_is_no_page_unless_declared() -> None:
    page = {"items": items_of(DATE, 3), "next": None}
    source = declared("/x", CURSOR, at="items", retry_budget_seconds=0)
    with error_after(0, page, status=202) as api:
        with pytest.raises(RetriableError, match="the request is accepted, and its answer is not ready"):
            read(api, source)
        assert ids(read(api, declared("/x", CURSOR, at="items", errors=(ErrorRule(status=202, then="rows"),)))) == [
            1,
            2,
            3,
        ]


@pytest.mark.parametrize("dies", ["once", "always"])
def test_a_cursor_that_dies_with_a_failed_request_does_not_end_the_listing(dies: str) -> None:
    """The repeated request is answered like the end of the listing: 20 of 60 rows."""
    failures: list[int] = []

    def serve(asked: Request) -> Answer:
        start = number(asked, "cursor", 0)
        if start == 20 and (dies == "always" or len(failures) < 2):
            failures.append(start)
            return Answer({"items": [], "next": None}) if len(failures) % 2 == 0 else Answer({}, 500)
        return Answer({"items": api.items[start : start + 20], "next": str(start + 20) if start < 40 else None})

    with RestApi(items_of(DATE, 60)) as api:
        api.faults.append(serve)
        source = declared("/x", CURSOR, at="items")
        if dies == "once":
            polled = read(api, source)
            assert (sorted(ids(polled)), counts(polled)["repeated_listings"]) == (list(range(1, 61)), 1)
        else:
            with pytest.raises(SetupError, match="ended the listing after a failed request, twice"):
                read(api, source)


def test_a_page_that_comes_after_a_failure_and_names_the_next_one_is_believed() -> None:
    failed: list[int] = []

    def fail_once(asked: Request) -> Answer | None:
        if number(asked, "cursor", 0) == 20 and not failed:
            failed.append(20)
            return Answer({}, 503)
        return None

    with error_after(9, {}) as api:
        api.faults.insert(0, fail_once)
        polled = read(api, declared("/x", CURSOR, at="items"))
        assert (len(ids(polled)), counts(polled).get("repeated_listings", 0), len(api.asked)) == (60, 0, 4)


def test_other_fields_of_an_empty_page_belong_to_missing_empty() -> None:
    with pytest.raises(ConfigError, match="empty_has: requires missing='empty'"):
        declared("/x", CURSOR, records={"key": ["id"], "columns": {"id": "bigint"}, "empty_has": ["kind"]})


def test_a_unique_field_needs_a_column() -> None:
    with pytest.raises(ConfigError, match="paging: unique=True requires a column of 'serial'"):
        declared("/x", LastKey(param="after", field="serial", ends="empty_page", unique=True))
