"""Settled days: what a publish leaves to do, by whether it stands for the whole or for its own day."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.settled import Schedule, Settled
from airflow_provider_connect.window import DaySet

D = [dt.date(2026, 10, day) for day in range(1, 32)]


def settled(*numbers: int, origin: int | None = None, replaces_whole: bool = False) -> Settled:
    """Return the settled days of a stream by what was published, as days of October."""
    first = None if origin is None else D[origin - 1]
    return Settled.of(DaySet.of(D[number - 1] for number in numbers), first, replaces_whole=replaces_whole)


@pytest.mark.parametrize(
    ("published", "origin", "position", "gaps"),
    [
        ((), None, None, 0),
        ((), 1, None, 0),
        ((1, 2, 5), 1, 5, 0),  # a catchup of four at once: 3 and 4 were superseded by 5
        ((5,), 1, 5, 0),
        ((5,), None, 5, 0),
        ((7, 14, 21), 7, 21, 0),  # once a week
        ((3, 5), 9, None, 0),  # nothing is done of what is wanted
    ],
)
def test_a_snapshot_that_replaces_the_whole_settles_every_day_before_it(
    published: tuple[int, ...], origin: int | None, position: int | None, gaps: int
) -> None:
    found = settled(*published, origin=origin, replaces_whole=True)
    assert found.position == (None if position is None else D[position - 1])
    assert len(found.gaps) == gaps
    assert found.last_day == (D[max(published) - 1] if published else None)


@given(published=st.sets(st.sampled_from(D)), origin=st.none() | st.sampled_from(D))
def test_where_each_day_is_kept_every_gap_stays(published: set[dt.date], origin: dt.date | None) -> None:
    days = DaySet.of(published)
    found = Settled.of(days, origin, replaces_whole=False)
    assert found.days == days
    assert found.position == days.position(origin)


@pytest.mark.parametrize(
    ("schedule", "lag"),
    [
        (Schedule(), 15),
        (Schedule(last_day=D[9]), 5),  # the DAG has ended with the 10th, and only five days of it are done
        (Schedule(last_day=D[4]), 0),
        (Schedule(last_day=D[30]), 15),
        (Schedule(is_set=False), 0),  # nobody asks for a day that nobody triggers
    ],
)
def test_nothing_is_behind_what_the_schedule_asks_for(schedule: Schedule, lag: int) -> None:
    assert settled(1, 2, 3, 4, 5, origin=1).lag_days(D[19], schedule) == lag


def test_without_a_schedule_only_gaps_are_behind() -> None:
    nobody = Schedule(is_set=False)
    assert settled(1, 2, 5, origin=1).lag_days(D[19], nobody) == 3
    assert settled(1, 2, 5, origin=1, replaces_whole=True).lag_days(D[19], nobody) == 0
    assert settled(origin=1).lag_days(D[19], nobody) == 0
    assert settled().lag_days(D[19], nobody) is None
