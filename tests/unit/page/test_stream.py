from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.page.facts.calendar import calendar_days
from airflow_provider_connect.page.facts.connectors import ConnectorPair
from airflow_provider_connect.page.facts.reports import RunDayReport, reports_of_summary
from airflow_provider_connect.page.facts.runs import TaskRun, days_of_run, expected_days, first_and_last_start
from airflow_provider_connect.page.facts.stream import Stream
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day, DaySet

NOW = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
ONE_DAY = dt.timedelta(days=1)
D = [dt.date(2026, 11, day) for day in range(1, 31)]
"""November: D[0] is its first day; yesterday is D[18]."""
SOURCE, SINK = MixpanelSource(), DeltaSink(path="/t")
FOLLOWED = SqlSource(conn_id="c", table="t", mode="incrementing", incrementing_column="id")
QUOTA = "airflow_provider_connect.operators.quota_trigger.QuotaTrigger"


def dag(**fields: Any) -> dict[str, Any]:
    following = {
        "next_dagrun_data_interval_start": "2026-11-20T00:00:00Z",
        "next_dagrun_data_interval_end": "2026-11-21T00:00:00Z",
        "next_dagrun_run_after": "2026-11-21T00:00:00Z",
    }
    return {"dag_id": "d", "is_paused": False} | following | fields


def stream(**fields: Any) -> Stream:
    known: dict[str, Any] = {
        "dag": dag(),
        "task_id": "t",
        "map_index": -1,
        "connectors": ConnectorPair(SOURCE, SINK),
        "offset": None,
        "reports": (),
        "runs": (),
        "has_run": True,
        "can_edit": True,
        "as_of": NOW,
    }
    return Stream(**(known | fields))


def offset(*days: dt.date, origin: dt.date | None = None) -> Offset:
    return Offset.from_published(SOURCE, SINK, DaySet.from_dates(days), origin)


def report(day: dt.date, at: dt.datetime = NOW, generation: int = 1) -> RunDayReport:
    return RunDayReport(day, "published", "r", -1, at, generation=generation, rows=10)


def run(state: str, *days: dt.date, at: dt.datetime = NOW, trigger: str = "") -> TaskRun:
    span = (days[0], days[-1]) if days else None
    return TaskRun("d", "t", -1, f"run-{state}", state, span, trigger, at, at, {})


UP_TO_DATE = offset(*D[:19], origin=D[0])


@pytest.mark.parametrize(("minutes", "name"), [(61, "late"), (59, "ok")])
def test_a_stream_of_increments_is_late_within_a_day(minutes: int, name: str) -> None:
    due = NOW - dt.timedelta(minutes=minutes)
    start = (due - dt.timedelta(minutes=15)).isoformat()
    part = {"next_dagrun_data_interval_start": start, "next_dagrun_data_interval_end": due.isoformat()}
    fields = {"dag": dag(**part, next_dagrun_run_after=due.isoformat()), "offset": offset(*D[:20], origin=D[0])}
    assert stream(**fields).state.name == "ok", "days alone do not tell"
    read_at = due - dt.timedelta(minutes=14)
    found = stream(**fields | {"offset": fields["offset"].model_copy(update={"read_at": read_at})})
    assert found.state.name == name
    if name == "ok":
        assert found.state.text == f"All rows up to {read_at:%Y-%m-%d %H:%M UTC} are loaded"
    if name == "late":
        assert found.state.text == f"Last read {read_at:%Y-%m-%d %H:%M UTC}. A run was due at {due:%Y-%m-%d %H:%M UTC}"


def test_a_later_run_of_increments_repairs_a_failed_one_and_is_the_newest_of_its_day() -> None:
    """A clear of an earlier run has a higher generation, but of its own span."""
    failed, later = run("failed", D[18], at=NOW - ONE_DAY), NOW - dt.timedelta(hours=1)
    cleared = report(D[18], NOW - 2 * ONE_DAY, generation=2)
    fields = {"offset": UP_TO_DATE, "runs": [failed]}
    followed = {"connectors": ConnectorPair(FOLLOWED, SINK)} | fields
    assert stream(**followed, reports=[cleared]).state.name == "failed"
    assert stream(**followed, reports=[cleared, report(D[19], later)]).state.name == "ok"
    newest = report(D[18], later)
    assert stream(**followed, reports=[cleared, newest]).newest_reports == {D[18]: newest}
    assert stream(**fields, reports=[cleared, newest]).newest_reports == {D[18]: cleared}


def test_a_run_of_a_part_of_a_day_has_the_day_in_which_it_begins() -> None:
    part = {"data_interval_start": "2026-11-04T07:45:00Z", "data_interval_end": "2026-11-04T08:00:00Z"}
    assert days_of_run(part, "US/Pacific") == (D[2], D[2])
    assert days_of_run(part, None) == (D[3], D[3])


@pytest.mark.parametrize(
    ("fields", "name", "text"),
    [
        ({"offset": UP_TO_DATE}, "ok", "Every day up to 2026-11-19 is done"),
        ({"offset": UP_TO_DATE, "runs": [run("running", D[19])]}, "running", "Loading: 2026-11-20"),
        ({"offset": UP_TO_DATE, "runs": [run("queued", D[19])]}, "running", "Queued: 2026-11-20"),
        ({"offset": UP_TO_DATE, "runs": [run("none", D[19])]}, "running", "Queued: 2026-11-20"),
        ({"runs": [run("up_for_retry", D[19])]}, "running", "A try failed and will be repeated: 2026-11-20"),
        ({"runs": [run("deferred", D[0], D[3], trigger=QUOTA)]}, "waiting", "Waiting for room in the source's quota"),
        (
            {"runs": [run("deferred", D[0], trigger="x.DateTimeTrigger")]},
            "waiting",
            "Waiting for ready_after: 2026-11-01",
        ),
        ({"runs": [run("failed", D[3])], "message": "cut"}, "failed", "Failed: 2026-11-04: cut"),
        ({"runs": [run("upstream_failed")]}, "failed", "Failed: one run"),
        ({"runs": [run("failed", D[3]), run("running", D[4])]}, "running", "Loading: 2026-11-05"),
        ({"dag": dag(is_paused=True), "offset": UP_TO_DATE}, "paused", "The DAG is paused"),
        ({"dag": dag(is_paused=True), "runs": [run("failed", D[3])]}, "failed", "Failed: 2026-11-04"),
        ({"has_run": False}, "new", "Has not run yet"),
        ({"offset": offset(*D[:3], *D[5:19], origin=D[0])}, "gap", "2 days are missing: 2026-11-04..2026-11-05"),
        ({"offset": offset(*D[1:19], origin=D[0])}, "gap", "One day is missing: 2026-11-01"),
        ({"offset": offset(*D[:17], origin=D[0])}, "late", "2 days behind. By its schedule 2026-11-19 should be done"),
        (
            {"dag": dag(next_dagrun_run_after=None), "offset": offset(*D[:2])},
            "late",
            "17 days behind. Airflow plans no",
        ),
        *(
            (
                {"dag": dag(next_dagrun_run_after=None, timetable_summary=summary), "offset": offset(*D[:2])},
                "ok",
                "Every day up to 2026-11-02",
            )
            for summary in (None, "Asset", "@once")
        ),
    ],
)
def test_each_case_has_its_state(fields: dict[str, Any], name: str, text: str) -> None:
    found = stream(**fields).state
    assert found.name == name
    assert text in found.text


def test_an_overdue_run_s_own_day_is_late_an_hour_after_it_was_due() -> None:
    following = dag(
        next_dagrun_data_interval_start="2026-11-19T00:00:00Z",
        next_dagrun_data_interval_end="2026-11-20T00:00:00Z",
        next_dagrun_run_after="2026-11-20T00:00:00Z",
    )
    done = offset(*D[:18], origin=D[0])
    early = dt.datetime(2026, 11, 20, 0, 30, tzinfo=dt.UTC)
    assert stream(dag=following, offset=done, as_of=early).state.name == "ok"
    assert stream(dag=following, offset=done).state.name == "late"


def test_a_failure_ends_with_a_later_publish_of_its_days_only() -> None:
    failed = run("failed", D[3], D[4], at=NOW)
    later = NOW + ONE_DAY
    assert stream(runs=[failed], reports=[report(D[3], later)]).failed_runs == [failed]
    assert stream(runs=[failed], reports=[report(D[3], later), report(D[4], later)]).failed_runs == []
    before = [report(D[3], NOW - ONE_DAY), report(D[4], NOW - ONE_DAY)]
    assert stream(runs=[failed], reports=before).failed_runs == [failed], "a reload that failed"
    assert stream(runs=[failed], reports=before, offset=offset(D[3], D[4])).failed_runs == [failed]
    assert stream(runs=[failed], offset=offset(D[3], D[4])).failed_runs == [], "somebody else has loaded them"


def test_reports_are_ahead_of_an_offset_that_lags() -> None:
    found = stream(offset=offset(*D[:3], origin=D[0]), reports=[report(D[3])])
    assert (found.last_day, found.position, found.lag_days) == (D[3], D[3], 15)


def test_without_the_offset_the_position_is_unknown() -> None:
    found = stream(reports=[report(D[10]), report(D[12])])
    assert (found.last_day, found.position, found.lag_days) == (D[12], None, 6)
    assert len(found.gaps) == 0


CUSTOMERS = ConnectorPair(SqlSource(conn_id="c", table="customers", snapshot="replace"), DeltaSink(path="/t"))
DAILY = ConnectorPair(SqlSource(conn_id="c", table="customers", snapshot="daily"), DeltaSink(path="/t"))


def test_superseded_days_of_a_snapshot_are_done() -> None:
    """As they are by the task's offset, and where the reports are ahead of it, or an older version wrote it."""
    lagging = offset(*D[:3], D[6], origin=D[0])
    found = stream(connectors=CUSTOMERS, offset=lagging, reports=[report(D[18])])
    assert (found.position, found.lag_days, len(found.gaps), found.state.name) == (D[18], 0, 0, "ok")
    assert [each.state for each in calendar_days(found, D[0], D[19])] == ["done"] * 19 + ["none"]
    kept = stream(connectors=DAILY, offset=lagging, reports=[report(D[18])])
    assert (kept.position, kept.lag_days, kept.state.name) == (D[2], 16, "gap")


def test_a_weekly_snapshot_is_not_red_between_its_runs() -> None:
    """It publishes one day a week, the first of its run's interval, whose others nobody ever loads."""
    weekly = dag(
        next_dagrun_data_interval_start="2026-11-16T00:00:00Z",
        next_dagrun_data_interval_end="2026-11-23T00:00:00Z",
        next_dagrun_run_after="2026-11-23T00:00:00Z",
    )
    for last in (D[8], D[14]):  # the first day of the last run's interval, or its last one
        found = stream(
            dag=weekly, connectors=CUSTOMERS, reports=[report(D[1]), report(last)], offset=offset(D[1], last)
        )
        assert found.state.name == "ok"
    found = stream(dag=weekly, connectors=CUSTOMERS, reports=[report(D[1])], offset=offset(D[1]))
    assert found.state.name == "late", "it has missed a week"
    daily = stream(connectors=CUSTOMERS, reports=[report(D[17])], offset=offset(D[17]))
    assert daily.state.name == "late"


@pytest.mark.parametrize(
    ("first", "end", "done"),
    [("2026-03-01", "2026-04-01", "2026-02-01"), ("2026-02-01", "2026-03-01", "2026-01-01")],
)
def test_a_monthly_snapshot_is_not_red_either(first: str, end: str, done: str) -> None:
    monthly = dag(
        next_dagrun_data_interval_start=f"{first}T00:00:00Z",
        next_dagrun_data_interval_end=f"{end}T00:00:00Z",
        next_dagrun_run_after=f"{end}T00:00:00Z",
    )
    now, day = dt.datetime.fromisoformat(f"{first}T12:00:00+00:00"), dt.date.fromisoformat(done)
    assert stream(dag=monthly, as_of=now, connectors=CUSTOMERS, offset=offset(day)).state.name == "ok"
    assert stream(dag=monthly, as_of=now, offset=offset(day)).state.name == "late"


def test_a_run_whose_snapshot_is_superseded_is_no_failure_any_more() -> None:
    """Clearing it would publish nothing."""
    failed = run("failed", D[3], at=NOW)
    before = [report(D[3], NOW - ONE_DAY), report(D[4], NOW - ONE_DAY)]
    assert stream(connectors=CUSTOMERS, runs=[failed], reports=before).failed_runs == []
    assert stream(connectors=CUSTOMERS, runs=[failed], reports=before[:1]).failed_runs == [failed]
    assert stream(connectors=DAILY, runs=[failed], reports=before).failed_runs == [failed]


def test_a_report_of_a_superseded_day_settles_it_and_has_no_rows() -> None:
    told = {"days": [{"day": "2026-11-04", "status": "superseded", "rows_written": 0}]}
    (found,) = reports_of_summary(told, "r", -1, NOW)
    assert (found.is_settled, found.rows) == (True, None)
    assert stream(reports=[found]).settled_days == DaySet.from_dates([D[3]])


def test_lag_ends_with_the_schedule() -> None:
    done = offset(*D[:5], origin=D[0])
    ended = dag(next_dagrun_data_interval_start=None, next_dagrun_data_interval_end=None, next_dagrun_run_after=None)
    assert stream(offset=done).lag_days == 14
    assert stream(offset=done, dag=ended, end_date=dt.datetime(2026, 11, 8, tzinfo=dt.UTC)).lag_days == 3
    assert stream(offset=done, dag=ended, end_date=dt.datetime(2026, 11, 5, tzinfo=dt.UTC)).lag_days == 0
    assert stream(reports=[report(D[4])], dag=ended, end_date=dt.datetime(2026, 11, 8, tzinfo=dt.UTC)).lag_days == 3
    unscheduled = ended | {"timetable_summary": None}
    assert stream(offset=done, dag=unscheduled).lag_days == 0
    assert stream(reports=[report(D[4])], dag=unscheduled).lag_days == 0
    assert stream(offset=offset(*D[:5], D[7], origin=D[0]), dag=unscheduled).lag_days == 3, "a gap stays"
    assert stream(offset=done, dag=ended | {"timetable_summary": "Asset"}).lag_days == 14


def test_lag_is_counted_in_the_source_s_zone() -> None:
    now = dt.datetime(2026, 11, 20, 7, tzinfo=dt.UTC)  # the 19th, an hour before midnight in the source's zone
    pacific = ConnectorPair(MixpanelSource(zone="US/Pacific"), SINK)
    done = offset(*D[:18], origin=D[0])
    assert stream(as_of=now, connectors=pacific, offset=done).lag_days == 0
    assert stream(as_of=now, offset=done).lag_days == 1


def test_a_day_shows_its_most_important_state() -> None:
    reports = [report(day, NOW - ONE_DAY) for day in D[:5]]
    runs = [run("failed", D[0], D[2]), run("running", D[1]), run("deferred", D[2])]
    found = calendar_days(stream(reports=reports, runs=runs, offset=offset(*D[:5], D[7], origin=D[0])), D[0], D[8])
    states = ["failed", "running", "waiting", "done", "done", "gap", "gap", "done", "none"]
    assert [each.state for each in found] == states
    assert [each.report is not None for each in found] == [True] * 5 + [False] * 4


days_sets = st.sets(st.sampled_from(D))


@given(days_sets, days_sets, days_sets, st.sampled_from(D), st.sampled_from(D))
def test_a_calendar_has_each_day_of_its_window_once_and_agrees_with_the_stream(
    done: set[dt.date], told: set[dt.date], failed: set[dt.date], first: dt.date, last: dt.date
) -> None:
    runs = [run("failed", day) for day in failed]
    known = stream(offset=offset(*done, origin=D[0]), reports=[report(day) for day in told], runs=runs)
    found = calendar_days(known, first, last)
    assert [each.day for each in found] == [day for day in D if first <= day <= last]
    for each in found:
        is_failed = each.day in failed and (each.day in told or each.day not in done)
        assert (each.state == "failed") == is_failed
        assert (each.state == "done") == (each.day in done | told and not is_failed)
        assert (each.state == "gap") == (each.day in known.gaps and not is_failed)


def test_days_of_a_run_are_those_of_its_interval_or_its_key() -> None:
    local = {"data_interval_start": "2026-11-01T07:00:00Z", "data_interval_end": "2026-11-02T08:00:00Z"}
    assert days_of_run(local, "US/Pacific") == (D[0], D[0]), "an hour longer"
    assert days_of_run(local, "UTC") is None
    assert days_of_run({"partition_key": "2026-11-05T00:00:00"}, "US/Pacific") == (D[4], D[4])
    assert days_of_run({"partition_key": "2026-11-05T08:00:00+00:00"}, "US/Pacific") == (D[4], D[4])
    assert days_of_run({"partition_key": "eu"}, "UTC") is None
    assert days_of_run({}, "UTC") is None


@given(
    st.sampled_from(["Pacific/Honolulu", "US/Pacific", "UTC", "Asia/Kolkata", "Pacific/Auckland"]), st.integers(0, 365)
)
def test_before_the_first_run_days_are_guessed_right_from_hawaii_to_new_zealand(name: str, number: int) -> None:
    day = Day(date=dt.date(2026, 1, 1) + ONE_DAY * number, zone=name)
    interval = {"data_interval_start": day.start.isoformat(), "data_interval_end": day.end.isoformat()}
    for zone_name in (name, None):
        assert days_of_run(interval, zone_name) == (day.date, day.date)
        first, last = first_and_last_start(day.date, day.date, zone_name)
        assert first <= day.start <= last
        assert not first <= day.end <= last


def test_a_dag_without_a_next_run_expects_nothing() -> None:
    assert expected_days({}, "UTC", NOW, ONE_DAY) is None


def test_a_task_without_a_state_counts_while_its_run_goes_on() -> None:
    interval = {"data_interval_start": "2026-11-05T00:00:00Z", "data_interval_end": "2026-11-06T00:00:00Z"}
    waiting = run("none")
    assert waiting.with_dag_run(interval | {"state": "failed"}, "UTC") is None
    found = waiting.with_dag_run(interval | {"state": "queued"}, "UTC")
    assert found is not None
    assert (found.days, found.phase) == ((D[4], D[4]), "running")


def waiting_run(ready_after: str) -> TaskRun:
    return replace(run("deferred", D[19], trigger="x.DateTimeTrigger"), fields={"ready_after": ready_after})


@pytest.mark.parametrize(
    ("ready_after", "moment"),
    [("10:00:00", "2026-11-21 10:00"), ("1 day, 0:30:00", "2026-11-22 00:30"), ("2 days, 1:00:00", "2026-11-23 01:00")],
)
def test_a_wait_for_the_source_names_the_time_at_which_it_ends(ready_after: str, moment: str) -> None:
    pacific = ConnectorPair(MixpanelSource(zone="US/Pacific"), SINK)
    found = stream(connectors=pacific, runs=[waiting_run(ready_after)])
    assert found.state.text == f"Waiting until {moment} US/Pacific (ready_after): 2026-11-20"
    assert found.resumes_at is not None
    assert f"{found.resumes_at.astimezone(dt.UTC) - dt.timedelta(hours=8):%Y-%m-%d %H:%M}" == moment
    assert stream(runs=[waiting_run("soon")]).resumes_at is None


def overdue_dag() -> dict[str, Any]:
    return dag(
        next_dagrun_data_interval_start="2026-11-19T00:00:00Z",
        next_dagrun_data_interval_end="2026-11-20T00:00:00Z",
        next_dagrun_run_after="2026-11-20T00:00:00Z",
    )


def test_a_backlog_that_shrinks_is_caught_up_not_late() -> None:
    done = offset(*D[:18], origin=D[0])
    recent = [report(day, NOW - dt.timedelta(minutes=20)) for day in D[12:18]]
    found = stream(dag=overdue_dag(), offset=done, reports=recent).state
    assert found == ("catching_up", "Catching up: 1 of 7 days left")
    old = [report(day, NOW - dt.timedelta(hours=2)) for day in D[12:18]]
    assert stream(dag=overdue_dag(), offset=done, reports=old).state.name == "late", "no progress for an hour"
    behind = stream(
        dag=overdue_dag(), offset=offset(*D[:16], origin=D[0]), reports=recent[:4], runs=[run("queued", D[16])]
    )
    assert behind.state == ("running", "Queued: 2026-11-17. Catching up: 3 of 7 days left")
    usual = stream(offset=done, reports=recent[-1:], runs=[run("running", D[18])])
    assert usual.state.text == "Loading: 2026-11-19", "one day is no backlog"


def test_a_stream_that_is_ok_is_not_behind() -> None:
    done = offset(*D[:2], origin=D[0])
    unscheduled = dag(next_dagrun_run_after=None, timetable_summary="Asset")
    found = stream(dag=unscheduled, offset=done)
    assert (found.state.name, found.lag_days, found.days_behind) == ("ok", 17, None)
    assert stream(offset=UP_TO_DATE).days_behind == 0
    assert stream(offset=offset(*D[:17], origin=D[0])).days_behind == 2


def test_a_failure_names_its_day_once() -> None:
    found = stream(runs=[run("failed", D[3])], message="day 2026-11-04: the source returned 0 rows")
    assert found.state.text == "Failed: 2026-11-04: the source returned 0 rows"


def test_the_first_day_is_the_first_wanted_one() -> None:
    assert stream(offset=offset(*D[4:6], origin=D[2])).first_day == D[2]
    assert stream(offset=offset(*D[1:6], origin=D[2])).first_day == D[1], "a backfill before the origin"
    assert stream(reports=[report(D[7])], runs=[run("failed", D[5])]).first_day == D[5]
    assert stream(has_run=False).first_day == D[19], "the next run's"
    assert stream(dag=dag(next_dagrun_run_after=None)).first_day is None


def test_the_newest_instance_has_the_newest_log() -> None:
    failed = run("failed", at=NOW)
    assert stream(runs=[failed], reports=[report(D[0], NOW - ONE_DAY)]).newest_instance == ("run-failed", -1)
    assert stream(runs=[failed], reports=[report(D[0], NOW + ONE_DAY)]).newest_instance == ("r", -1)
    assert stream().newest_instance is None
