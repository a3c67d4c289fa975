"""Stands in for the shop of the worked example: ``GET /orders?from=…&to=…&after=…``, two orders a page."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tests.equipment.examples.json_server import Answer

TOKEN = "shop-token-5b1c"
PAGE = 2


def order(number: int, date: dt.date) -> dict[str, str]:
    return {"id": f"order-{number}", "made_at": f"{date}T12:00:{number:02}+00:00"}


class Shop:
    """Orders of some days."""

    def __init__(self, days: dict[dt.date, int]) -> None:
        self._orders = [order(number, date) for date, count in days.items() for number in range(count)]

    def __call__(self, method: str, path: str, query: dict[str, str], posted: Any) -> Answer:
        if (method, path) != ("GET", "/orders"):
            return 404, {"error": "no such resource"}
        first, last = (dt.datetime.fromisoformat(query[name]) for name in ("from", "to"))
        found = [each for each in self._orders if first <= dt.datetime.fromisoformat(each["made_at"]) < last]
        start = int(query.get("after", 0))
        rest = start + PAGE
        return 200, {"orders": found[start:rest], "next": str(rest) if rest < len(found) else None}
