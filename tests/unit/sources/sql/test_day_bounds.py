"""Bounds of days: every row is in one day, for every kind of time in a column."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.sources._sql.day_bounds import ColumnClock, day_bounds
from airflow_provider_connect.window import Day, days_between

ZONES = st.sampled_from(
    ["UTC", "US/Pacific", "Europe/Berlin", "Asia/Kolkata", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Beirut"]
)
DATES = st.dates(dt.date(2000, 1, 1), dt.date(2035, 1, 1))


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@given(DATES, ZONES, ZONES, st.sampled_from(["date", "instant", "wall"]))
def test_each_day_begins_where_the_one_before_ends(
    first: dt.date, zone: str, db_timezone: str, clock: ColumnClock
) -> None:
    days = days_between(first, first + dt.timedelta(days=9), zone)
    all_bounds = [day_bounds(day, clock, db_timezone) for day in days]
    assert all(earlier.end == later.first for earlier, later in pairwise(all_bounds))
    assert all(earlier.first < earlier.end for earlier in all_bounds)


@given(DATES, ZONES, ZONES, st.integers(0, 86_399))
def test_an_instant_is_in_the_day_that_the_zone_shows(date: dt.date, zone: str, db_timezone: str, second: int) -> None:
    day = Day(date=date, zone=zone)
    instant = day.start + dt.timedelta(seconds=second)
    bounds = day_bounds(day, "instant", db_timezone)
    assert (bounds.first <= instant < bounds.end) == (instant.astimezone(ZoneInfo(zone)).date() == date)


@pytest.mark.parametrize(
    ("date", "hours"), [(dt.date(2026, 3, 8), 23), (dt.date(2026, 11, 1), 25), (dt.date(2026, 7, 1), 24)]
)
def test_days_of_a_changed_clock_have_their_hours(date: dt.date, hours: int) -> None:
    day = Day(date=date, zone="US/Pacific")
    instants = day_bounds(day, "instant", "UTC")
    assert instants.end - instants.first == dt.timedelta(hours=hours)
    wall = day_bounds(day, "wall", "UTC")
    assert wall == (instants.first.replace(tzinfo=None), instants.end.replace(tzinfo=None))  # type: ignore[call-arg]


def test_a_clock_in_the_days_own_zone_is_cut_at_its_midnights() -> None:
    day = Day(date=dt.date(2018, 11, 4), zone="America/Sao_Paulo")  # there was no midnight
    assert day_bounds(day, "wall", "America/Sao_Paulo") == (at("2018-11-04 00:00"), at("2018-11-05 00:00"))


def test_a_clock_elsewhere_is_cut_where_it_stood_at_the_days_bounds() -> None:
    day = Day(date=dt.date(2026, 10, 5), zone="Asia/Kolkata")
    assert day_bounds(day, "wall", "US/Pacific") == (at("2026-10-04 11:30"), at("2026-10-05 11:30"))


def test_a_date_is_one_of_the_days_own_zone() -> None:
    day = Day(date=dt.date(2026, 10, 5), zone="Asia/Tokyo")
    assert day_bounds(day, "date", "US/Pacific") == (dt.date(2026, 10, 5), dt.date(2026, 10, 6))
