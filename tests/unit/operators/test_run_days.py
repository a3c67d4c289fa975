from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pendulum import instance

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.run_days import DayInputs, first_whole_day, resolve_days
from airflow_provider_connect.timetables import daily
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
