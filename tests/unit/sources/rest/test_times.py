"""Bounds of a day on a wall clock."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_connect.sources._rest.bounds import Bounds, DayBound, day_bound
from airflow_provider_connect.sources._rest.time_forms import is_date_form, read_time, write_time
from airflow_provider_connect.window import Day


def test_a_bound_is_never_in_the_hour_that_comes_twice() -> None:
    on_the_azores = Bounds(format="sql", zone="Atlantic/Azores")  # there midnight in UTC came twice
    assert day_bound(Day(date=dt.date(2026, 10, 25)), "start", on_the_azores) == DayBound(
        "2026-10-24 23:00:00", includes_other_days=True
    )
    assert day_bound(Day(date=dt.date(2026, 10, 24)), "end", on_the_azores) == DayBound(
        "2026-10-25 01:00:00", includes_other_days=True
    )


@pytest.mark.parametrize("month", range(1, 13))
@pytest.mark.parametrize("form", ["%d-%b-%Y", "%B %d, %Y", "%d %b %Y %H:%M"])
def test_months_have_their_english_names(form: str, month: int) -> None:
    instant, utc = dt.datetime(2026, month, 9, tzinfo=dt.UTC), ZoneInfo("UTC")
    text = str(write_time(instant, form, utc))
    assert read_time(text, form, utc) == instant
    assert is_date_form(form) is ("%H" not in form)
    assert write_time(dt.datetime(2026, 3, 1, tzinfo=dt.UTC), "%d-%b-%Y %B %%b", utc) == "01-Mar-2026 March %b"
