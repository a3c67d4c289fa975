from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.page.backfills import MIN_ENDED_RUNS, estimate_end

BEGAN = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)


def test_the_estimate_follows_the_pace_of_ended_runs() -> None:
    ends = [BEGAN + MINUTE * number for number in (1, 2, 3, 4)]
    assert estimate_end(BEGAN, ends, 4, 6, current_time=ends[-1]) == ends[-1] + MINUTE * 6


def test_a_backfill_that_hangs_ends_later_and_later() -> None:
    ends = [BEGAN + MINUTE * number for number in (1, 2, 3, 4)]
    estimates = [estimate_end(BEGAN, ends, 4, 6, current_time=ends[-1] + MINUTE * later) for later in (0, 10, 60)]
    left = [estimate - BEGAN - MINUTE * later for estimate, later in zip(estimates, (0, 10, 60), strict=True)]  # type: ignore[operator]
    assert left == sorted(left)
    assert left[0] < left[-1]


def test_of_many_runs_only_the_newest_count() -> None:
    slow_start = BEGAN + dt.timedelta(days=1)
    ends = [slow_start + MINUTE * number for number in range(100)]
    assert estimate_end(BEGAN, ends, 1000, 10, current_time=ends[-1]) == ends[-1] + MINUTE * 10


@given(st.integers(0, MIN_ENDED_RUNS - 1), st.integers(1, 100))
def test_fewer_than_three_ends_give_no_estimate(ended: int, left: int) -> None:
    ends = [BEGAN + MINUTE * number for number in range(ended)]
    assert estimate_end(BEGAN, ends, ended, left, current_time=BEGAN + MINUTE * 10) is None


@given(
    st.lists(st.integers(0, 10_000), min_size=MIN_ENDED_RUNS, max_size=100), st.integers(0, 5000), st.integers(0, 5000)
)
def test_the_end_is_not_in_the_past_and_more_runs_end_later(minutes: list[int], left: int, more: int) -> None:
    ends = [BEGAN + MINUTE * each for each in minutes]
    now = BEGAN + MINUTE * 10_000
    first, second = (estimate_end(BEGAN, ends, len(ends), each, now) for each in (left, left + more))
    if not left:
        assert first is None
    else:
        assert first is not None
        assert second is not None
        assert now <= first <= second


def test_ends_of_earlier_backfills_do_not_count() -> None:
    ends = [BEGAN - MINUTE * number for number in range(1, 50)]
    assert estimate_end(BEGAN, ends, 49, 5, current_time=BEGAN) is None
