from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pendulum import instance

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.run_days import DayInputs, first_requested_day, first_whole_day, resolve_days
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import EveryTimetable, daily, every
from airflow_provider_connect.window import start_of
from tests.unit.operators.conftest import dag_run

PACIFIC = "US/Pacific"
NOW = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)


def texts(days: str | None, zone_name: str = "UTC", **run: object) -> list[str]:
    return [str(day) for day in resolve_days(DayInputs(days), dag_run(**run), zone_name, NOW).days]


def test_given_days_win_over_the_run() -> None:
    assert texts("2026-01-01..2026-01-02", partition_key="2026-03-03") == ["2026-01-01", "2026-01-02"]


@pytest.mark.parametrize("days", [None, "", "  "])
def test_without_days_the_data_interval_counts_not_the_logical_date(days: str | None) -> None:
    assert texts(days, logical_date=dt.datetime(2026, 10, 6, tzinfo=dt.UTC)) == ["2026-10-05"]


@pytest.mark.parametrize("key", ["2026-11-01", "2026-11-01T00:00:00", "2026-11-01T00:00:00-07:00"])
def test_partition_key_names_the_day(key: str) -> None:
    run = {"partition_key": key, "data_interval_start": None, "data_interval_end": None}
    assert texts(None, PACIFIC, **run) == ["2026-11-01"]


@pytest.mark.parametrize("key", ["eu-west", "2026-11-01T01:00:00", "2026-11-01T00:00:00+00:00"])
def test_partition_key_that_is_no_day_is_named(key: str) -> None:
    with pytest.raises(ConfigError, match="partition key"):
        texts(None, PACIFIC, partition_key=key)


def test_a_run_without_an_interval_fails_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match=r"no data interval.*daily\('UTC'\).*days="):
        texts(None, data_interval_start=None, data_interval_end=None)


def test_days_must_be_text() -> None:
    with pytest.raises(ConfigError, match="must be text"):
        resolve_days(DayInputs(dt.date(2026, 10, 5)), dag_run(), "UTC", NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(("date", "hours"), [("2026-11-01", 25), ("2026-03-08", 23), ("2026-07-01", 24)])
def test_daily_timetable_makes_intervals_that_are_one_day(date: str, hours: int) -> None:
    after = dt.datetime.fromisoformat(date).replace(tzinfo=ZoneInfo(PACIFIC)) + dt.timedelta(hours=5)
    interval = daily(PACIFIC).infer_manual_data_interval(run_after=instance(after))
    run = dag_run(data_interval_start=interval.start, data_interval_end=interval.end)
    days = resolve_days(DayInputs(), run, PACIFIC, NOW).days
    assert [(str(day), day.hours) for day in days] == [(date, hours)]


@given(st.integers(min_value=0, max_value=10 * 366 * 24 * 60))
def test_origin_is_the_first_whole_day_since_the_start(minutes: int) -> None:
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=minutes)
    origin = first_whole_day(start, PACIFIC)
    assert origin is not None
    assert start_of(origin - dt.timedelta(days=1), PACIFIC) < start <= start_of(origin, PACIFIC)


def test_without_a_start_date_there_is_no_origin() -> None:
    assert first_whole_day(None, PACIFIC) is None


@pytest.mark.parametrize(
    ("days", "end", "ahead"),
    [
        ("2026-10-05..9999-12-31", None, "2026-10-08..9999-12-31"),
        ("2026-10-08", None, "2026-10-08"),
        (None, dt.datetime(9999, 12, 31, tzinfo=dt.UTC), "2026-10-08..9999-12-30"),
        (None, dt.datetime(2026, 10, 9, tzinfo=dt.UTC), "2026-10-08"),
    ],
)
def test_days_that_lie_ahead_are_refused_before_any_is_made(
    monkeypatch: pytest.MonkeyPatch, days: str | None, end: dt.datetime | None, ahead: str
) -> None:
    monkeypatch.setattr("airflow_provider_connect.window.days_between", None)
    run = dag_run(data_interval_start=dt.datetime(2026, 10, 6, tzinfo=dt.UTC), data_interval_end=end)
    with pytest.raises(ConfigError) as caught:
        resolve_days(DayInputs(days), run, "UTC", dt.datetime(2026, 10, 7, 23, 59, tzinfo=dt.UTC))
    assert str(caught.value) == f"days {ahead} are in the future. In UTC they begin at 2026-10-08T00:00:00+00:00"


def test_a_day_has_begun_when_its_first_instant_has() -> None:
    start = start_of(dt.date(2026, 10, 8), PACIFIC)
    assert resolve_days(DayInputs("2026-10-08"), dag_run(), PACIFIC, start)
    with pytest.raises(ConfigError, match="days 2026-10-08 are in the future"):
        resolve_days(DayInputs("2026-10-07..2026-10-08"), dag_run(), PACIFIC, start - dt.timedelta(microseconds=1))
    # In both zones an hour around a midnight comes twice, of one date or of two.
    for zone_name, twice in (("America/Havana", dt.date(2026, 11, 1)), ("America/Asuncion", dt.date(2024, 3, 24))):
        begun = start_of(twice, zone_name)
        for minutes in (0, 30, 59, 61, 90, 119, 121):
            assert resolve_days(DayInputs(str(twice)), dag_run(), zone_name, begun + dt.timedelta(minutes=minutes))


# Increments: their runs need no whole days


def increment_day(zone_name: str = PACIFIC, timetable: object = None, **run: object) -> tuple[list[str], object]:
    inputs = DayInputs(timetable=timetable or every("15 minutes", zone_name), kind="increment")
    days, _, end = resolve_days(inputs, dag_run(**run), zone_name, NOW)
    return [str(day) for day in days], end


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(PACIFIC))


@pytest.mark.parametrize(
    ("start", "end", "day"),
    [
        ("2026-10-05T10:00", "2026-10-05T10:15", "2026-10-05"),
        ("2026-10-05T23:45", "2026-10-06T00:00", "2026-10-05"),
        ("2026-10-06T00:00", "2026-10-06T00:15", "2026-10-06"),
        ("2026-10-05T06:00", "2026-10-06T06:00", "2026-10-05"),
        ("2026-10-05T10:00", "2026-10-05T10:00", "2026-10-05"),  # a schedule of Airflow's own, without intervals
    ],
)
def test_an_increment_gets_the_day_in_which_its_interval_begins(start: str, end: str, day: str) -> None:
    interval = {"data_interval_start": moment(start), "data_interval_end": moment(end)}
    assert increment_day(**interval) == ([day], moment(end))
    with pytest.raises(ConfigError, match="interval"):
        texts(None, PACIFIC, **interval)


def test_an_increment_over_whole_days_gets_them_all() -> None:
    interval = {"data_interval_start": moment("2026-10-05"), "data_interval_end": moment("2026-10-07")}
    assert increment_day(**interval) == (["2026-10-05", "2026-10-06"], None)


def test_a_run_by_an_asset_event_gets_the_day_of_its_creation() -> None:
    run = {"data_interval_start": None, "data_interval_end": None, "logical_date": None, "run_type": "asset_triggered"}
    created = moment("2026-10-05T23:59")
    assert increment_day(run_after=created, **run) == (["2026-10-05"], created)


@pytest.mark.parametrize(
    ("key", "day"), [("2026-10-05T10:00:00", "2026-10-05"), ("2026-10-06T05:00:00+00:00", "2026-10-05")]
)
def test_a_partition_key_within_a_day_names_an_increment_s_day(key: str, day: str) -> None:
    assert increment_day(partition_key=key)[0] == [day]


def test_an_increment_by_hand_gets_the_day_of_its_date() -> None:
    created = moment("2026-10-05T10:07")
    run = {"run_type": "manual", "run_after": created, "data_interval_start": None, "data_interval_end": None}
    assert increment_day(logical_date=None, **run) == (["2026-10-05"], created)
    assert increment_day(logical_date=created, **run) == (["2026-10-05"], created)
    bare_date = dt.datetime(2026, 10, 1, tzinfo=dt.UTC)
    assert increment_day(logical_date=bare_date, **run) == (["2026-10-01"], created)
    inferred = every("15 minutes", PACIFIC).infer_manual_data_interval(run_after=instance(created))
    assert (inferred.start, inferred.end) == (moment("2026-10-05T09:45"), moment("2026-10-05T10:00"))
    assert increment_day(timetable=daily(PACIFIC), logical_date=bare_date, **run) == (["2026-10-01"], None)
    run |= {"data_interval_start": inferred.start, "data_interval_end": inferred.end}
    assert increment_day(logical_date=created, **run) == (["2026-10-05"], created)


@pytest.mark.parametrize(
    ("period", "expression"),
    [
        ("1 minute", "* * * * *"),
        ("15 minutes", "*/15 * * * *"),
        ("1 hour", "0 * * * *"),
        ("6 hours", "0 */6 * * *"),
    ],
)
def test_every_period_that_divides_an_hour_or_a_day_is_a_schedule(period: str, expression: str) -> None:
    timetable = every(period, PACIFIC)
    assert timetable.expression == expression
    stored = EveryTimetable.deserialize(timetable.serialize())
    assert (stored.serialize(), stored.summary) == (timetable.serialize(), timetable.summary)
    assert stored.serialize() == {"period": period, "timezone": PACIFIC}


@pytest.mark.parametrize("period", ["1 hour", "20 minutes", "12 hours"])
def test_a_period_that_a_half_hour_clock_change_splits_is_refused(period: str) -> None:
    with pytest.raises(ConfigError, match=r"clocks there change by 30 minutes\. Set a period that divides 30 minutes"):
        every(period, "Australia/Lord_Howe")


@pytest.mark.parametrize("period", ["30 minutes", "15 minutes"])
def test_a_half_hour_clock_change_splits_no_shorter_period(period: str) -> None:
    assert every(period, "Australia/Lord_Howe").period == period
    assert every("2 hours", "Antarctica/Troll").timezone == "Antarctica/Troll"


@pytest.mark.parametrize(
    "period", ["", "7 minutes", "0 minutes", "60 minutes", "24 hours", "5 hours", "15", "15m", "hour", None, "1 day"]
)
def test_other_periods_are_refused(period: str) -> None:
    with pytest.raises(ConfigError, match=r"must be a number of minutes that divides an hour.*daily\(\)"):
        every(period)


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown time zone 'Mars'"):
        every("1 hour", "Mars")


@pytest.mark.parametrize(("date", "runs"), [("2026-11-01", 100), ("2026-03-08", 92), ("2026-07-01", 96)])
def test_the_parts_of_a_day_are_gapless_where_clocks_change(date: str, runs: int) -> None:
    timetable, start = every("15 minutes", PACIFIC), moment(date)
    at, count = instance(start), 0
    while increment_day(data_interval_start=at, data_interval_end=timetable._get_next(at))[0] == [date]:
        at, count = timetable._get_next(at), count + 1
    assert count == runs


def test_increments_begin_on_the_day_of_the_start_date_and_days_with_the_first_whole_one() -> None:
    start = dt.datetime(2026, 11, 28, 8, tzinfo=dt.UTC)
    followed = SqlSource(conn_id="c", table="t", mode="incrementing", incrementing_column="id")
    by_day = SqlSource(conn_id="c", table="t", day_column="at")
    assert first_requested_day(start, followed) == dt.date(2026, 11, 28)
    assert first_requested_day(start, by_day) == dt.date(2026, 11, 29)
    assert first_requested_day(None, followed) is None
