"""A SQLite file with the table from the SQL source's page."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

ORDERS = """CREATE TABLE orders (
    id integer PRIMARY KEY,
    customer text NOT NULL,
    amount decimal(10,2),
    created_at timestamp,
    document blob
)"""


def write_orders(file: Path, by_day: Mapping[dt.date, int]) -> None:
    """Write ``by_day`` orders for each day in UTC, evenly spaced from its first second."""
    rows = []
    for date, count in by_day.items():
        start = dt.datetime.combine(date, dt.time())
        for number in range(count):
            at = start + dt.timedelta(seconds=number * 86_400 // count)
            rows.append((len(rows) + 1, f"customer {number % 7}", number, at.isoformat(" "), b"\0\xff" * number))
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(ORDERS)
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)
