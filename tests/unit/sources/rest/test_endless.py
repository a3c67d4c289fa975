"""APIs that never end: a listing fails after a bounded number of pages that bring nothing new."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.errors import SetupError
from airflow_provider_connect.sources._rest import listing_check
from airflow_provider_connect.sources.rest import Cursor
from tests.equipment.rest_api.items import DATE, items_of
from tests.equipment.rest_api.reading import declared, ids, read, records
from tests.equipment.rest_api.server import Answer, RestApi

CURSOR = Cursor(at="next", param="cursor", ends="no_token")


ITEMS = items_of(DATE, 11)


def combination(items: list[dict[str, Any]], page: int) -> list[dict[str, Any]]:
    """Return the items of the bits of ``page + 1``: each page differs, and only pages 0, 1, 3, 7, … have a new item."""
    return [items[at] for at in range(10) if (page + 1) >> at & 1]


@pytest.mark.parametrize(
    ("outside", "most", "last_page"), [("fail", listing_check.MAX_PAGES_WITHOUT_NEW_RECORDS, 228), ("drop", 20, 52)]
)
def test_an_api_that_never_brings_anything_new_ends_after_a_bounded_number_of_pages(
    outside: str, most: int, last_page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages all differ, and each names a next one."""
    monkeypatch.setattr(listing_check, "MAX_PAGES_WITHOUT_NEW_RECORDS", most)

    def serve(page: int) -> dict[str, Any]:
        return {"items": combination(ITEMS, page), "next": page + 1}

    source = declared("/x", CURSOR, records=records("items", day="at", outside=outside), retry_budget_seconds=0)
    with RestApi() as api:
        api.faults.append(lambda asked: Answer(serve(int(asked.first("cursor", "0")))))
        says = f"page {last_page}: like the {most - 1} pages before it, it has only records that came"
        with pytest.raises(SetupError, match=says):
            read(api, source)
        assert len(api.asked) <= last_page + 1


def test_pages_that_overlap_for_long_and_then_bring_something_new_are_read() -> None:
    def serve(page: int) -> dict[str, Any]:
        return {
            "items": combination(ITEMS, page) if page < 127 else ITEMS[-1:],
            "next": page + 1 if page < 127 else None,
        }

    with RestApi() as api:
        api.faults.append(lambda asked: Answer(serve(int(asked.first("cursor", "0")))))
        assert sorted(ids(read(api, declared("/x", CURSOR, at="items")))) == [1, 2, 3, 4, 5, 6, 7, 11]
