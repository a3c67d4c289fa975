from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.page.facts.calendar import BAND_MIN_DAYS, BAND_WEEKS, row_bands

DAY = dt.date(2026, 11, 20)
WEEK = dt.timedelta(days=7)


def weeks(*rows: int, gap: int = 0) -> dict[dt.date, int]:
    """Rows of the same weekday, the newest first."""
    return {DAY - WEEK * (number + 1 + gap): count for number, count in enumerate(rows)}


def test_days_that_were_alike_have_a_band_a_tenth_wide() -> None:
    assert row_bands(weeks(*[1000] * 8), [DAY]) == [(DAY, 900, 1100)]


def test_one_odd_week_does_not_widen_the_band() -> None:
    calm = row_bands(weeks(100, 104, 98, 101, 99, 103, 97, 102), [DAY])
    odd = row_bands(weeks(100, 104, 98, 101, 99, 103, 97, 9_000), [DAY])
    assert odd[0].high - odd[0].low <= 2 * (calm[0].high - calm[0].low)


def test_other_weekdays_do_not_count() -> None:
    others = {DAY - dt.timedelta(days=back): 5 for back in range(1, 60) if back % 7}
    assert row_bands(others | weeks(*[1000] * 8), [DAY]) == [(DAY, 900, 1100)]


def test_too_few_weeks_have_no_band() -> None:
    assert row_bands(weeks(*[10] * (BAND_MIN_DAYS - 1)), [DAY]) == []
    assert len(row_bands(weeks(*[10] * BAND_MIN_DAYS), [DAY])) == 1


def test_weeks_too_long_ago_do_not_count() -> None:
    assert row_bands(weeks(*[10] * 8, gap=2 * BAND_WEEKS), [DAY]) == []


@given(st.lists(st.integers(0, 10**9), min_size=BAND_MIN_DAYS, max_size=2 * BAND_WEEKS), st.integers(1, 1000))
def test_the_band_holds_the_median_grows_with_the_rows_and_is_never_negative(rows: list[int], factor: int) -> None:
    (band,) = row_bands(weeks(*rows), [DAY])
    newest = sorted(rows[:BAND_WEEKS])
    assert 0 <= band.low <= newest[len(newest) // 2]
    assert newest[(len(newest) - 1) // 2] <= band.high
    (larger,) = row_bands(weeks(*(each * factor for each in rows)), [DAY])
    assert larger.high >= band.high


@given(st.integers(0, 10**6), st.integers(BAND_MIN_DAYS, BAND_WEEKS))
def test_a_day_like_the_others_lies_within(rows: int, count: int) -> None:
    (band,) = row_bands(weeks(*[rows] * count), [DAY])
    assert band.low <= rows <= band.high
