"""Late rows are counted by whole days, in the source's zone, against one row at a time in plain Python."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.polling.late import count_late
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.window import ONE_DAY, Day

MOMENT = pa.timestamp("us", tz="UTC")
SPRING = Day(date=dt.date(2026, 3, 6), zone="US/Pacific")  # 2026-03-08 has 23 hours
DAYS = st.sampled_from([Day(date=dt.date(2026, 3, 1)), SPRING, Day(date=dt.date(2026, 10, 30), zone="US/Pacific")])


def expected(day: Day, arrived: list[dt.datetime | None], before: dt.datetime | None) -> dict[str, int]:
    found: Counter[str] = Counter({"late_1_days": 0})
    for at in arrived:
        for after in range(1, 11):
            if at is not None and at >= Day(date=day.date + ONE_DAY * after, zone=day.zone).end:
                found[f"late_{after}_days"] += 1
    if before is not None:
        found["late"] = sum(at is not None and at >= before for at in arrived)
    return dict(found)


@given(data=st.data(), day=DAYS)
def test_rows_are_counted_by_the_days_that_were_over_when_they_came(data: st.DataObject, day: Day) -> None:
    hours = st.integers(-30, 14 * 24).map(lambda hour: day.end + dt.timedelta(hours=hour))
    moments = st.builds(lambda at, micros: at + dt.timedelta(microseconds=micros), hours, st.integers(-1, 1))
    arrived = data.draw(st.lists(st.none() | moments, max_size=40))
    before = data.draw(st.none() | moments)
    cut = data.draw(st.integers(0, len(arrived)))
    tally = Tally([day], [before])
    for part in (arrived[:cut], arrived[cut:]):
        count_late(tally, day, pa.array(part, MOMENT))
    assert dict(tally.counts) == expected(day, arrived, before)


def test_each_day_of_a_partition_has_its_own_counts_and_its_own_earlier_poll() -> None:
    first, second = (Day(date=SPRING.date + ONE_DAY * i, zone=SPRING.zone) for i in range(2))
    tally = Tally([first, second], [None, second.end])
    at = pa.array([second.end + ONE_DAY], MOMENT)  # the day between has 23 hours
    for day in (first, second):
        count_late(tally, day, at)
    assert dict(tally.for_day(first).counts) == {"late_1_days": 1, "late_2_days": 1}
    assert dict(tally.for_day(second).counts) == {"late_1_days": 1, "late": 1}
    assert dict(tally.counts) == {}


@pytest.mark.parametrize("arrived", [[], [None], [SPRING.start]])
def test_a_day_without_late_rows_says_so(arrived: list[dt.datetime | None]) -> None:
    tally = Tally([SPRING])
    count_late(tally, SPRING, pa.array(arrived, MOMENT))
    assert dict(tally.counts) == {"late_1_days": 0}
