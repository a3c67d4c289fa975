from __future__ import annotations

import pytest

from airflow_provider_connect.polling.estimate import ExpectedTotal, PollPace, ProgressPoint, rough_time, seconds_left


@pytest.mark.parametrize(
    ("first", "now", "total", "left"),
    [
        ((0, 0), (10, 100), 400, 30),
        ((20, 50), (30, 150), 250, 10),  # what came before the pace was known does not count
        ((0, 0), (4, 100), 400, None),  # too early
        ((0, 0), (10, 0), 400, None),  # nothing has come
        ((0, 0), (10, 400), 400, None),  # there is more than was expected
        ((0, 0), (10, 500), 400, None),
    ],
)
def test_the_rest_takes_as_long_as_it_does_at_this_pace(
    first: tuple[float, float], now: tuple[float, float], total: float, left: float | None
) -> None:
    assert seconds_left(ProgressPoint(*first), ProgressPoint(*now), total) == left


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "10 s"), (44, "40 s"), (94, "90 s"), (96, "2 min"), (5_000, "83 min"), (9_000, "2.5 h")],
)
def test_times_are_as_rough_as_they_are_known(seconds: float, text: str) -> None:
    assert rough_time(seconds) == f"about {text}"


def test_a_slow_begin_and_a_retry_do_not_spoil_the_pace() -> None:
    pace, expected = PollPace(), ExpectedTotal(1000, "day 2026-10-04 had 1,000 rows")
    message = [pace.time_left_text(ProgressPoint(*at), expected) for at in [(60, 0), (65, 100), (75, 200)]]
    assert message == ["", "", "about 80 s left, as day 2026-10-04 had 1,000 rows"]
    assert pace.time_left_text(ProgressPoint(80, 10), expected) == ""
    assert pace.time_left_text(ProgressPoint(90, 510), expected).startswith("about 10 s left")
    assert pace.time_left_text(ProgressPoint(99, 900), None) == ""
