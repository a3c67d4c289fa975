"""Bounds, rows without a time and an overlap on real databases, for instants and for times without a zone."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase
from tests.integration.sql.test_increments import DAYS, Orders

pytestmark = pytest.mark.slow

HOUR = dt.timedelta(hours=1)


@pytest.mark.parametrize("clock", [0, 1], ids=["instant", "wall"])
def test_bounds_nulls_and_overlap_decide_the_rows(every: OwnDatabase, clock: int) -> None:
    bounds: dict[str, Any] = {"start": "2026-10-05 12:00", "end": "2026-10-05T16:00:00+02:00", "zone": "Europe/Berlin"}
    orders = Orders(every, clock=clock, overlap=2 * HOUR, nulls="first", **bounds)
    days = [Day(date=day.date, zone="Europe/Berlin") for day in DAYS]
    # A bound without a zone is a time in the source's zone, or as the column has it.
    start = 10 if clock == 0 else 12

    utc = "SET timezone = 'UTC'" if every.server.conn_type == "postgres" else "SET time_zone = '+00:00'"

    def put(*rows: tuple[int, str, str | None]) -> None:
        for number, state, time in rows:
            value = "NULL" if time is None else f"'2026-10-05 {time}'"
            every.run(utc, f"INSERT INTO orders VALUES ({number}, '{state}', {value})")

    put((1, "too early", f"{start - 1:02}:59:59"), (2, "first", f"{start}:00:00"))
    put((3, "new", "13:00:00"), (4, "too late", "14:00:00"), (9, "null", None))
    end, rows = orders.increment(days[0], None)
    assert rows == [(2, "first"), (3, "new"), (9, "null")]
    put((5, "late", "12:30:00"), (6, "last", "13:59:59"), (10, "null", None))
    later_end, rows = orders.increment(days[1], end)
    near = [] if clock == 0 else [2]
    assert [number for number, _ in rows] == [*near, 3, 5, 6]
    put((7, "later still", "12:00:01"))
    end, rows = orders.increment(days[2], later_end)
    assert end == later_end
    assert [number for number, _ in rows] == [*near, 3, 5, 6, 7]
