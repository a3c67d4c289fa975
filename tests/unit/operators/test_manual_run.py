"""Runs started by hand: which day they load, by every way in which Airflow 3.3 makes them."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.sdk import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from airflow.sdk.definitions.timetables.simple import NullTimetable
from airflow.timetables.base import TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable as CoreCronTimetable
from hypothesis import given
from hypothesis import strategies as st
from pendulum import instance

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.run_days import DayInputs, RunDays, first_day_of_dag, resolve_days
from airflow_provider_connect.timetables import DailyTimetable, daily, every
from airflow_provider_connect.window import ONE_DAY, start_of, zone
from tests.unit.operators.conftest import dag_run

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

PACIFIC, TOKYO = "US/Pacific", "Asia/Tokyo"
CREATED = dt.datetime(2026, 11, 10, 9, 30, tzinfo=dt.UTC)
NOW = CREATED + dt.timedelta(minutes=5)


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def manual(logical_date: dt.datetime | None, interval: tuple[Any, Any] | None = None, **fields: Any) -> Any:
    """A run as Airflow hands it to the task."""
    start, end = interval or (None, None)
    values = {"run_id": "manual__1", "run_type": "manual", "logical_date": logical_date, "run_after": CREATED}
    return dag_run(**(values | {"data_interval_start": start, "data_interval_end": end} | fields))


def triggered(timetable: Any, logical_date: dt.datetime | None, *, infers_from: dt.datetime | None = None) -> Any:
    """A run of a DAG whose interval Airflow infers: from the date (REST, UI, dags test), or from now (dags trigger)."""
    if logical_date is None:
        return manual(None)
    core = (
        timetable
        if hasattr(timetable, "infer_manual_data_interval")
        else CoreCronTimetable(timetable.expression, timezone=timetable.timezone)
    )
    inferred = core.infer_manual_data_interval(run_after=instance(infers_from or logical_date))
    return manual(logical_date, (inferred.start, inferred.end))


def days(run: Any, zone_name: str = PACIFIC, now: dt.datetime = NOW, **inputs: Any) -> list[str]:
    inputs = {"timetable": daily(zone_name)} | inputs
    return [str(day) for day in resolve_days(DayInputs(**inputs), run, zone_name, now).days]


@pytest.fixture(autouse=True)
def created_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler makes the run at CREATED."""

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> dt.datetime:
            return CREATED.astimezone(tz)

    import airflow_provider_connect.timetables as module

    class Module:
        datetime, UTC, date, time, timedelta = Clock, dt.UTC, dt.date, dt.time, dt.timedelta

    monkeypatch.setattr(module, "dt", Module)


@pytest.mark.parametrize("zone_name", ["UTC", PACIFIC, TOKYO, "Asia/Kolkata"])
@pytest.mark.parametrize("infers_from", [None, CREATED], ids=["rest_ui_dags_test", "dags_trigger"])
def test_a_bare_date_loads_the_calendar_day_of_that_name(zone_name: str, infers_from: dt.datetime | None) -> None:
    run = triggered(daily(zone_name), utc("2026-11-01"), infers_from=infers_from)
    assert days(run, zone_name) == ["2026-11-01"]


@pytest.mark.parametrize(
    ("zone_name", "logical_date", "day"),
    [
        ("UTC", "2026-11-03T12:00", "2026-11-03"),
        (PACIFIC, "2026-11-03T12:00", "2026-11-03"),
        (PACIFIC, "2026-11-03T07:59", "2026-11-02"),  # 23:59 there
        (TOKYO, "2026-11-03T15:00", "2026-11-04"),  # midnight there
        (TOKYO, "2026-11-03T14:59", "2026-11-03"),
    ],
)
@pytest.mark.parametrize("infers_from", [None, CREATED])
def test_an_instant_loads_the_day_on_which_it_lies(
    zone_name: str, logical_date: str, day: str, infers_from: dt.datetime | None
) -> None:
    assert days(triggered(daily(zone_name), utc(logical_date), infers_from=infers_from), zone_name) == [day]


@pytest.mark.parametrize("logical_date", [None, CREATED, utc("2026-11-10T08:01")])
def test_no_date_and_today_load_yesterday(logical_date: dt.datetime | None) -> None:
    assert days(triggered(daily(PACIFIC), logical_date)) == ["2026-11-09"]


@pytest.mark.parametrize("infers_from", [None, CREATED], ids=["rest_ui_dags_test", "dags_trigger"])
def test_a_run_in_place_of_todays_scheduled_run_loads_its_day_when_it_is_over(infers_from: dt.datetime | None) -> None:
    run = triggered(daily("UTC"), utc("2026-11-10"), infers_from=infers_from)
    with pytest.raises(
        ConfigError, match=r"day 2026-11-10 is not over.* Clear this run when the day is over. To load "
    ):
        days(run, "UTC")
    assert days(run, "UTC", now=NOW + ONE_DAY) == ["2026-11-10"]


def next_start(timetable: Any, run: Any) -> dt.datetime:
    """Return the begin of the interval with which the scheduler goes on after a run that is in its way."""
    info = timetable.run_info_from_dag_run(dag_run=cast("DagRun", SimpleNamespace(**run.model_dump())))
    following = timetable.next_dagrun_info_v2(
        last_dagrun_info=info, restriction=TimeRestriction(earliest=None, latest=None, catchup=True)
    )
    start: dt.datetime = following.data_interval.start
    return start


@pytest.mark.parametrize(
    ("period", "zone_name", "start", "following"),
    [
        ("2 hours", "Europe/Berlin", "2026-03-28T23:00", "2026-03-29T01:00"),  # 2:00 is missing there
        ("2 hours", "America/New_York", "2026-03-08T05:00", "2026-03-08T07:00"),
        ("1 hour", "Europe/Berlin", "2026-10-25T00:00", "2026-10-25T01:00"),  # 2:00 comes twice there
    ],
)
def test_a_manual_run_beside_a_clock_change_is_recognised(
    period: str, zone_name: str, start: str, following: str
) -> None:
    timetable = every(period, zone_name)
    run = triggered(timetable, utc(start), infers_from=CREATED)
    assert next_start(timetable, run) == utc(following)


@pytest.mark.parametrize(("minute", "begins"), [(15, "2026-11-03T12:30"), (20, "2026-11-10T09:30")])
def test_a_schedule_of_quarters_continues_after_a_run_that_replaces_a_scheduled_run(minute: int, begins: str) -> None:
    """Another run is none of the schedule's: the scheduler never asks for its place, and gets Airflow's answer."""
    timetable = every("15 minutes", "UTC")
    run = triggered(timetable, utc(f"2026-11-03T12:{minute}"), infers_from=CREATED)
    assert next_start(timetable, run) == utc(begins)


@pytest.mark.parametrize("infers_from", [None, CREATED], ids=["rest_ui_dags_test", "dags_trigger"])
@pytest.mark.parametrize("zone_name", ["UTC", PACIFIC])
def test_the_schedule_continues_after_the_day_of_a_run_that_replaces_a_scheduled_run(
    zone_name: str, infers_from: dt.datetime | None
) -> None:
    timetable, date = daily(zone_name), dt.date(2026, 11, 3)
    run = triggered(timetable, start_of(date, zone_name), infers_from=infers_from)
    assert next_start(timetable, run) == start_of(date + ONE_DAY, zone_name)


def test_other_manual_runs_do_not_move_the_schedule() -> None:
    timetable = daily("UTC")
    run = triggered(timetable, utc("2026-11-03T12:00"), infers_from=CREATED)
    stored = SimpleNamespace(**run.model_dump())
    info = timetable.run_info_from_dag_run(dag_run=cast("DagRun", stored))
    assert info.data_interval is not None
    assert (info.data_interval.start, info.data_interval.end) == (run.data_interval_start, run.data_interval_end)


@pytest.mark.parametrize("logical_date", [None, CREATED])
def test_a_clear_on_a_later_day_loads_the_same_day(logical_date: dt.datetime | None) -> None:
    run = triggered(daily(PACIFIC), logical_date)
    assert days(run, now=NOW + dt.timedelta(days=40)) == ["2026-11-09"]


def test_a_day_ahead_is_refused() -> None:
    with pytest.raises(ConfigError, match="days 2026-11-12 are in the future"):
        days(triggered(daily(PACIFIC), utc("2026-11-12")))


@pytest.mark.parametrize("run_type", ["operator_triggered", "asset_materialization"])
def test_other_runs_without_a_date_load_yesterday(run_type: str) -> None:
    assert days(manual(None, run_type=run_type)) == ["2026-11-09"]


def test_an_interval_given_by_a_person_counts_before_the_date() -> None:
    given_day = (start_of(dt.date(2026, 10, 20), PACIFIC), start_of(dt.date(2026, 10, 21), PACIFIC))
    assert days(manual(utc("2026-11-03"), given_day)) == ["2026-10-20"]
    week = (start_of(dt.date(2026, 10, 20), PACIFIC), start_of(dt.date(2026, 10, 27), PACIFIC))
    assert days(manual(utc("2026-11-03"), week))[::6] == ["2026-10-20", "2026-10-26"]


def test_the_form_and_days_win_over_all_else() -> None:
    run = manual(utc("2026-11-03"), partition_key="2026-11-04")
    assert days(run, form_days="2026-10-01..2026-10-02") == ["2026-10-01", "2026-10-02"]
    assert days(run, form_days="2026-10-01", days="2026-09-30") == ["2026-09-30"]
    assert days(run, form_days="") == ["2026-11-04"]
    assert days(run, form_days=30) == ["2026-11-04"], "another use of the name"
    with pytest.raises(ConfigError, match="'tomorrow' is neither"):
        days(run, form_days="tomorrow")


@pytest.mark.parametrize("kind", ["scheduled", "backfill"])
def test_runs_of_the_schedule_keep_their_interval(kind: str) -> None:
    day = (start_of(dt.date(2026, 11, 5), PACIFIC), start_of(dt.date(2026, 11, 6), PACIFIC))
    run = manual(day[0], day, run_type=kind)
    assert days(run, first_day=dt.date(2026, 11, 8)) == ["2026-11-05"], "no first day is asked of them"


@pytest.mark.parametrize(
    "timetable",
    [CronDataIntervalTimetable("0 0 * * *", timezone=PACIFIC), CronDataIntervalTimetable("30 2 * * *", timezone="UTC")],
)
def test_an_interval_inferred_for_airflows_own_timetable_does_not_count(timetable: Any) -> None:
    assert days(triggered(timetable, utc("2026-11-03")), timetable=timetable) == ["2026-11-03"]
    run = triggered(timetable, utc("2026-11-03"), infers_from=CREATED)
    assert days(run, timetable=timetable) == ["2026-11-03"]


def test_empty_intervals_and_deltas_do_not_count() -> None:
    date = utc("2026-11-03")
    assert days(manual(date, (date, date)), timetable=NullTimetable()) == ["2026-11-03"]
    delta = DeltaDataIntervalTimetable(dt.timedelta(days=1))
    assert days(manual(date, (date - dt.timedelta(days=1), date)), timetable=delta) == ["2026-11-03"]


def test_a_manual_run_of_a_weekly_schedule_keeps_its_week() -> None:
    weekly = CronDataIntervalTimetable("0 0 * * MON", timezone="UTC")
    run = triggered(weekly, utc("2026-11-04"))
    assert days(run, "UTC", timetable=weekly)[::6] == ["2026-10-26", "2026-11-01"]


def test_a_manual_runs_day_before_the_first_is_refused_by_name() -> None:
    first = first_day_of_dag(utc("2026-11-01"), None, "UTC")
    run = triggered(daily("UTC"), utc("2026-10-31"))
    with pytest.raises(
        ConfigError, match=r"day 2026-10-31 of this manual run lies before 2026-11-01.*days='2026-10-31'"
    ):
        days(run, "UTC", first_day=first)
    assert days(run, "UTC", first_day=first, days="2026-10-31") == ["2026-10-31"]
    assert days(run, "UTC", first_day=first, form_days="2026-10-31") == ["2026-10-31"]
    assert days(run, "UTC", first_day=first_day_of_dag(utc("2026-11-01"), dt.date(2026, 10, 1), "UTC")) == [
        "2026-10-31"
    ]


def test_the_reason_names_the_part_of_the_run_that_decides() -> None:
    def reason(run: Any, **inputs: Any) -> str:
        result: RunDays = resolve_days(DayInputs(timetable=daily("UTC"), **inputs), run, "UTC", NOW)
        return result.reason

    run = triggered(daily("UTC"), utc("2026-11-03"))
    assert reason(run) == "logical date 2026-11-03T00:00:00+00:00 of the manual run"
    assert reason(run, days="2026-11-03") == "option days="
    assert reason(run, form_days="2026-11-03") == "parameter days of the run"
    assert reason(manual(None)) == "manual run without a logical date, created 2026-11-10T09:30:00+00:00"
    assert reason(dag_run()) == "data interval 2026-10-05T00:00:00+00:00 to 2026-10-06T00:00:00+00:00"
    assert reason(dag_run(partition_key="2026-10-07")) == "partition key 2026-10-07"


@given(
    st.sampled_from(["UTC", PACIFIC, TOKYO, "Pacific/Apia", "America/Havana"]),
    st.integers(0, 14 * 365 * 24 * 60).map(lambda minutes: utc("2012-01-01") + dt.timedelta(minutes=minutes)),
)
def test_airflow_shows_the_day_that_the_task_loads(zone_name: str, logical_date: dt.datetime) -> None:
    timetable = DailyTimetable(zone_name)
    start, end = timetable.manual_interval(logical_date, CREATED)
    run = manual(logical_date, (start, end))
    (day,) = resolve_days(DayInputs(timetable=timetable), run, zone_name, NOW).days
    assert (day.start, day.end) == (start, end)
    assert logical_date.time() == dt.time() or logical_date.astimezone(zone(zone_name)).date() == day.date


def test_the_timetable_survives_airflows_database() -> None:
    timetable = DailyTimetable.deserialize(daily(PACIFIC).serialize())
    assert timetable == daily(PACIFIC)
    assert isinstance(timetable, CoreCronTimetable)
    assert dt.timedelta(days=1) == ONE_DAY


def test_an_unknown_zone_is_refused_when_the_dag_is_read() -> None:
    with pytest.raises(ConfigError, match="unknown time zone 'Europe/Berln': did you mean 'Europe/Berlin'"):
        daily("Europe/Berln")
