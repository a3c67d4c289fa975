"""Made-up orders and customers: the same for the same seed and day."""

from __future__ import annotations

import datetime as dt
import random
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TABLES = (
    "CREATE TABLE customers (id integer PRIMARY KEY, name text NOT NULL, since date)",
    "CREATE TABLE orders (id integer PRIMARY KEY, customer integer NOT NULL, product text NOT NULL, cents integer, "
    "created_at timestamp NOT NULL)",
    "CREATE INDEX orders_by_time ON orders (created_at)",
)
_PRODUCTS = ("tea", "coffee", "cup", "spoon", "kettle")
_SECONDS = 86_400


@dataclass(frozen=True)
class Shop:
    """Orders of a shop."""

    seed: int = 0
    orders_per_day: int = 2000
    customers: int = 300

    def orders(self, date: dt.date) -> list[dict[str, Any]]:
        """Return a UTC day's orders, oldest first."""
        chance = random.Random(f"{self.seed} {date}")  # made-up data
        midnight = dt.datetime.combine(date, dt.time())
        seconds = sorted(chance.randrange(_SECONDS) for _ in range(self.orders_per_day))
        return [
            {
                "id": date.toordinal() * 1_000_000 + index,
                "customer": chance.randrange(self.customers),
                "product": chance.choice(_PRODUCTS),
                "cents": chance.randrange(100, 100_000),
                "created_at": (midnight + dt.timedelta(seconds=second)).isoformat(" "),
            }
            for index, second in enumerate(seconds)
        ]

    def expected_rows(self, date: dt.date) -> Iterator[dict[str, Any]]:
        """Yield the expected rows of a day."""
        for order in self.orders(date):
            yield {"event": order["product"], "properties": order}

    def write(self, file: Path, dates: Iterable[dt.date]) -> None:
        """Write a new file with the orders of some days."""
        file.unlink(missing_ok=True)
        with closing(sqlite3.connect(file)) as database, database:
            for statement in _TABLES:
                database.execute(statement)
            names = [(number, f"Customer {number}", "2026-01-01") for number in range(self.customers)]
            database.executemany("INSERT INTO customers VALUES (?, ?, ?)", names)
            for date in dates:
                rows = [tuple(order.values()) for order in self.orders(date)]
                database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)
