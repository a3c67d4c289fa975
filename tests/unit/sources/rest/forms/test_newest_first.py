"""Listings sorted newest first end at the day's edge, and their order is checked."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError, SetupError
from airflow_provider_connect.sources.rest import Cap, Cursor, Offset, PageNumber, RestSource, Total
from tests.equipment.rest_api.items import DATE
from tests.equipment.rest_api.reading import ids, read
from tests.equipment.rest_api.server import Answer, Request, RestApi

START = dt.datetime.combine(DATE, dt.time(), dt.UTC)


def at_hours(*hours: float) -> list[dict[str, Any]]:
    """Return records at hours after the day's start, with their position as id."""
    return [{"id": n, "at": (START + dt.timedelta(hours=hour)).isoformat()} for n, hour in enumerate(hours)]


def feed(paging: Any = None, **options: Any) -> RestSource:
    records = {"key": ["id"], "columns": {"id": "bigint", "at": "timestamp"}, "day": "at", "outside": "drop"}
    records |= {"order": "newest_first"} | options.pop("records", {})
    paging = paging or PageNumber(ends="empty_page")
    return RestSource(
        conn_id="api", stream="feed", request={"path": "/feed"}, paging=paging, records=records, **options
    )


def load(items: list[dict[str, Any]], source: RestSource, size: int = 3) -> tuple[list[int], int]:
    """Return the ids, and the number of pages requested."""

    def page(asked: Request) -> Answer:
        number = int(asked.first("page", "1"))
        start = int(asked.first("offset", str((number - 1) * size)))
        more = str(number + 1) if number * size < len(items) else None
        document = items[start : start + size]
        return Answer(document if not source.records.at else {"data": document, "total": len(items), "next": more})

    with RestApi() as api:
        api.faults.append(page)
        found = ids(read(api, source))
        return sorted(found), len(api.asked)


HOURS = (50, 30, 24, 23.99, 20, 12, 12, 12, 3, 0, -0.01, -5, *range(-6, -300, -1))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 10, 11, 12])
def test_a_day_is_whole_and_reading_ends_at_its_edge(size: int) -> None:
    found, pages = load(at_hours(*HOURS), feed(), size)
    assert (found, pages) == (list(range(3, 10)), -(-10 // size) + 1)


@pytest.mark.parametrize(
    "paging",
    [
        Cursor(at="next", param="page", ends="no_token"),
        PageNumber(ends=Total(at="total")),
        Offset(ends=Total(at="total")),
    ],
)
@pytest.mark.parametrize("hours", [HOURS, HOURS[:9], (50, 30), (-1, -2, -3, -4), (12, -1)])
def test_each_paging_ends_at_the_edge(paging: Any, hours: tuple[float, ...]) -> None:
    found, pages = load(at_hours(*hours), feed(paging, records={"at": "data"}))
    assert found == [number for number, hour in enumerate(hours) if 0 <= hour < 24]
    assert pages <= 5


@pytest.mark.parametrize("hours", [(30, 12, -1, 5), (30, 12, 13), (30, 25, 12, 10, 8, 9), (-40, 12, 11)])
def test_a_listing_in_another_order_fails(hours: tuple[float, ...]) -> None:
    with pytest.raises(SetupError, match="newer by 'at' than one before it"):
        load(at_hours(*hours), feed())


def test_dates_end_at_the_edge_too() -> None:
    items = [{"id": n, "at": (DATE - dt.timedelta(days=n // 4 - 1)).isoformat()} for n in range(100)]
    found, pages = load(items, feed(records={"columns": {"id": "bigint", "at": "date"}}))
    assert (found, pages) == ([4, 5, 6, 7], 4)


@pytest.mark.parametrize("hours", [(30, 12, -1, -2), (30, 12, -1, -1, -2, -3)])
def test_a_listing_that_ends_at_the_edge_is_not_read_again(hours: tuple[float, ...]) -> None:
    """A page that was requested twice casts doubt on the end of a listing, but not on an edge."""
    items = at_hours(*hours)
    failed: list[bool] = []

    def page(asked: Request) -> Answer:
        number = int(asked.first("page", "1"))
        if number == 2 and not failed:
            failed.append(True)
            return Answer("busy", 503)
        return Answer({"data": items[number * 2 - 2 : number * 2], "next": str(number + 1)})

    with RestApi() as api:
        api.faults.append(page)
        source = feed(Cursor(at="next", param="page", ends="no_token"), records={"at": "data"})
        found = sorted(ids(read(api, source)))
        asked = [request.first("page", "1") for request in api.asked]
    assert found == [number for number, hour in enumerate(hours) if 0 <= hour < 24]
    assert asked == ["1", "2", "2"]


def test_each_parent_has_its_edge() -> None:
    lists = {"a": at_hours(12, -1, -2, -3, -4), "b": at_hours(30, 12, 11, -9, -10, -11, -12)}

    def page(asked: Request) -> Answer:
        name, number = asked.path.strip("/"), int(asked.first("page", "1"))
        return Answer(lists[name][number * 2 - 2 : number * 2])

    columns = {"id": "bigint", "at": "timestamp"}
    records = {"key": ["list", "id"], "columns": columns, "day": "at", "outside": "drop", "order": "newest_first"}
    source = RestSource(
        conn_id="api",
        stream="feed",
        request={"path": "/{parent.list}"},
        parent_values={"list": ["a", "b"]},
        parent_columns={"list": "list"},
        paging=PageNumber(ends="empty_page"),
        records=records,
    )
    with RestApi() as api:
        api.faults.append(page)
        assert ids(read(api, source)) == [0, 1, 2]
        assert len(api.asked) == 5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"records": {"outside": "count"}}, "order: requires day and outside='drop'"),
        ({"paging": PageNumber(ends="empty_page", cap=Cap(records=9))}, "paging.cap: needs a listing sorted oldest"),
        ({"snapshot": "replace"}, "records.outside: a snapshot has records of all days"),
    ],
)
def test_an_order_that_cannot_be_used_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        feed(**options)


def test_the_order_is_retriable() -> None:
    """A listing may be re-sorted while it is read."""
    assert issubclass(SetupError, RetriableError)
