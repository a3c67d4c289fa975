"""Items and parents of the tests' API, some in the very first and last second of a day."""

from __future__ import annotations

import datetime as dt
from typing import Any

DATE = dt.date(2026, 10, 5)
_PARENTS = 7


def items_of(date: dt.date, count: int, first_id: int = 1) -> list[dict[str, Any]]:
    """Return items spread over a day in UTC, oldest first: the first at midnight, the last in the last second."""
    start = dt.datetime.combine(date, dt.time(), dt.UTC)
    step = dt.timedelta(seconds=86_399) / max(1, count - 1)
    return [item(first_id + number, start + step * number) for number in range(count)]


def item(number: int, at: dt.datetime) -> dict[str, Any]:
    return {
        "id": number,
        "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "name": f"näme {number}",
        "amount": number + 0.25,
        "parent": f"p/{number % _PARENTS}",
        "user": {"id": number * 10, "tags": ["a", {"b.c": None}]},
    }


def parents() -> list[dict[str, Any]]:
    """Return what items are children of; an id needs quoting in a path."""
    return [{"id": f"p/{number}", "rank": number} for number in range(_PARENTS)]
