"""Bounds of a day on a wall clock."""

from __future__ import annotations

import datetime as dt

from airflow_provider_connect.sources._rest.bounds import Bounds, DayBound, day_bound
from airflow_provider_connect.window import Day


def test_a_bound_is_never_in_the_hour_that_comes_twice() -> None:
    on_the_azores = Bounds(format="sql", zone="Atlantic/Azores")  # there midnight in UTC came twice
    assert day_bound(Day(date=dt.date(2026, 10, 25)), "start", on_the_azores) == DayBound(
        "2026-10-24 23:00:00", includes_other_days=True
    )
    assert day_bound(Day(date=dt.date(2026, 10, 24)), "end", on_the_azores) == DayBound(
        "2026-10-25 01:00:00", includes_other_days=True
    )
