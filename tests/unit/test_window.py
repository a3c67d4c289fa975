import datetime as dt
import zoneinfo
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.window import (
    ONE_DAY,
    Day,
    DaySet,
    Schedule,
    Settled,
    days_between,
    days_of_window,
    group_days,
    parse_days,
    reloadable_days,
)

ZONES = sorted(zoneinfo.available_timezones() - {"localtime", "Factory"})
dates = st.dates(dt.date(1975, 1, 1), dt.date(2035, 12, 31))


@given(dates, st.sampled_from(ZONES))
def test_days_neither_overlap_nor_leave_a_gap(date, zone):
    day, following = Day(date=date, zone=zone), Day(date=date + dt.timedelta(days=1), zone=zone)
    assert day.end == following.start
    assert 0 <= day.hours <= 49


@given(dates, st.sampled_from(ZONES))
def test_the_first_instant_is_of_that_date_and_the_one_before_is_not(date, zone):
    day = Day(date=date, zone=zone)
    if day.hours == 0:  # a date the zone skipped, such as 2011-12-30 in Samoa
        return
    local = day.start.astimezone(zoneinfo.ZoneInfo(zone))
    before = (day.start - dt.timedelta(microseconds=1)).astimezone(zoneinfo.ZoneInfo(zone))
    assert local.date() == date
    assert before.date() != date or before.hour > local.hour  # an evening hour may come twice


@pytest.mark.parametrize(("date", "hours"), [("2026-03-08", 23), ("2026-11-01", 25), ("2026-07-04", 24)])
def test_days_of_a_clock_change_are_23_and_25_hours(date, hours):
    assert Day(date=date, zone="US/Pacific").hours == hours


@given(dates, st.integers(1, 40), st.sampled_from(ZONES))
def test_a_window_of_whole_days_gives_them_back(date, count, zone):
    days = [day for day in days_between(date, date + dt.timedelta(days=count - 1), zone) if day.hours > 0]
    if days:
        assert days_of_window(days[0].start, days[-1].end, zone) == days


@pytest.mark.parametrize(
    ("start", "end", "says"),
    [
        ("2026-10-05T00:00+00:00", "2026-10-05T00:00+00:00", "no interval in Airflow 3"),
        ("2026-10-05T01:00+00:00", "2026-10-06T00:00+00:00", "starts at"),
        ("2026-10-05T00:00+00:00", "2026-10-05T12:00+00:00", "ends at"),
        ("2026-10-06T00:00+00:00", "2026-10-05T00:00+00:00", "before it starts"),
        ("2026-10-05T00:00", "2026-10-06T00:00", "time zone"),
    ],
)
def test_intervals_that_are_no_whole_days_are_refused(start, end, says):
    with pytest.raises(ConfigError, match=says):
        days_of_window(dt.datetime.fromisoformat(start), dt.datetime.fromisoformat(end), "UTC")


def test_a_utc_day_is_no_day_of_another_zone():
    start = dt.datetime(2026, 10, 5, tzinfo=dt.UTC)
    with pytest.raises(ConfigError, match="not the start of a day in US/Pacific"):
        days_of_window(start, start + dt.timedelta(days=1), "US/Pacific")


def test_days_are_read_from_text():
    assert [str(day) for day in parse_days("2026-10-30..2026-11-01", "UTC")] == [
        "2026-10-30",
        "2026-10-31",
        "2026-11-01",
    ]
    assert [str(day) for day in parse_days(" 2026-10-30 ", "UTC")] == ["2026-10-30"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "today",
        "2026-10-05..",
        "..2026-10-05",
        "a..b..c",
        "2026-W41-1",
        "2026-10-05..x",
        "2026-10-06..2026-10-05",
        "2026-02-30",
    ],
)
def test_text_that_is_no_day_is_refused(text):
    with pytest.raises(ConfigError, match="days="):
        parse_days(text, "UTC")


def test_a_date_that_a_zone_skipped_is_refused():
    with pytest.raises(ConfigError, match="never had 2011-12-30"):
        parse_days("2011-12-29..2011-12-31", "Pacific/Apia")


@pytest.mark.parametrize(
    ("zone", "skipped"),
    [
        ("Pacific/Apia", "2011-12-30"),
        ("Pacific/Kwajalein", "1993-08-21"),
        ("Pacific/Kiritimati", "1994-12-31"),
        ("Pacific/Fakaofo", "2011-12-30"),
    ],
)
def test_a_date_that_a_zone_skipped_inside_a_window_is_no_day_of_it(zone, skipped):
    date = dt.date.fromisoformat(skipped)
    around = [Day(date=date + dt.timedelta(days=n), zone=zone) for n in (-2, -1, 1, 2)]
    assert days_of_window(around[0].start, around[-1].end, zone) == around
    assert days_of_window(around[1].start, around[2].end, zone) == around[1:3], "at neither end either"
    assert days_of_window(around[1].start, around[1].end, zone) == around[1:2]
    assert days_of_window(around[2].start, around[2].end, zone) == around[2:3]
    assert all(day.hours == 24 for day in around)


def test_an_unknown_zone_is_named():
    with pytest.raises(ConfigError, match="Mars/Olympus"):
        _ = Day(date=dt.date(2026, 1, 1), zone="Mars/Olympus").start


@example({dt.date(2026, 1, 1), dt.date(2026, 1, 3)})  # ten drawn sets may hold no gap of one day
@given(st.sets(st.dates(dt.date(2026, 1, 1), dt.date(2026, 3, 1))))
def test_a_set_of_days_holds_just_its_days_in_ranges_that_do_not_touch(days):
    found = DaySet.from_dates(days)
    assert list(found) == sorted(days)
    assert len(found) == len(days)
    assert all(day in found for day in days)
    assert dt.date(2027, 1, 1) not in found
    for (_, last), (first, _) in zip(found.ranges, found.ranges[1:], strict=False):
        assert (first - last).days > 1
    assert DaySet.model_validate_json(found.model_dump_json()) == found


@given(
    st.sets(st.dates(dt.date(2026, 1, 1), dt.date(2026, 2, 1)), min_size=1),
    st.dates(dt.date(2026, 1, 1), dt.date(2026, 2, 1)),
)
def test_the_position_never_passes_a_hole(days, origin):
    position = DaySet.from_dates(days).position(origin)
    if origin not in days:
        assert position is None
    else:
        assert position + dt.timedelta(days=1) not in days
        assert all(origin + dt.timedelta(days=i) in days for i in range((position - origin).days + 1))


def test_a_backfill_of_the_past_does_not_move_the_position():
    live = DaySet.from_dates(dt.date(2026, 10, d) for d in range(1, 21))
    both = DaySet.from_dates([*live, *(dt.date(2026, 3, d) for d in range(1, 32))])
    origin = dt.date(2026, 10, 1)
    assert live.position(origin) == both.position(origin) == dt.date(2026, 10, 20)
    assert DaySet().position(None) is None


@given(st.sets(st.integers(0, 40)), st.integers(1, 5))
def test_groups_hold_every_day_once_in_order_and_have_neither_gaps_nor_too_many(offsets, size):
    days = [Day(date=dt.date(2026, 2, 20) + ONE_DAY * offset) for offset in sorted(offsets)]
    found = group_days(days, size)
    assert [day for group in found for day in group] == days
    for group in found:
        assert 1 <= len(group) <= size
        assert (group[-1].date - group[0].date).days == len(group) - 1
    for group, after in pairwise(found):
        assert len(group) == size or group[-1].date + ONE_DAY < after[0].date, "they could have been one group"


D = [dt.date(2026, 10, day) for day in range(1, 32)]


def settled(*numbers: int, origin: int | None = None, replaces_whole: bool = False) -> Settled:
    """Return the settled days of a stream by what was published, as days of October."""
    first = None if origin is None else D[origin - 1]
    return Settled.from_published(
        DaySet.from_dates(D[number - 1] for number in numbers), first, replaces_whole=replaces_whole
    )


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
    days = DaySet.from_dates(published)
    found = Settled.from_published(days, origin, replaces_whole=False)
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


@given(published=st.sets(st.sampled_from(D)))
def test_superseded_days_cannot_be_loaded_again(published: set[dt.date]) -> None:
    days = DaySet.from_dates(published)
    assert reloadable_days(days, replaces_whole=False) == days
    newest = reloadable_days(days, replaces_whole=True)
    assert [*newest] == sorted(published)[-1:]
    assert set(Settled.from_published(days, None, replaces_whole=True).days) >= published
