"""Which days a run loads again: those late rows may have reached, and nobody has polled since."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.operators.lookback import days_before_window, days_not_polled_since
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.airflow.connectors import TinyLedger
from tests.unit.operators.conftest import SparkSubmit, Supervisor, Task, dag_run

END = dt.datetime(2026, 10, 6, tzinfo=dt.UTC)  # of the run's day, 2026-10-05
HOUR = dt.timedelta(hours=1)
START = dt.datetime(2026, 10, 1, tzinfo=dt.UTC)
REPORTS = """
    days = [*job["days"], *job["lookback"]]
    for day in days:
        publish(day["date"], 2)
    report(*[dict(day=day["date"], status="published", generation=2, lookback=day in job["lookback"]) for day in days])
"""


def run(ledger: TinyLedger, spark_submit: SparkSubmit, *, run_type: str = "scheduled", **options: Any) -> list[str]:
    """Run the task of 2026-10-05; return the days that it looked back at."""
    spark_submit.does(REPORTS)
    task = Task(ledger, **({"lookback_days": 3} | options))
    task.context["dag"].start_date = START
    task.context["dag_run"] = dag_run(run_type=run_type)
    task.run()
    assert [day["date"] for day in spark_submit.seen["job"]["days"]] == ["2026-10-05"]
    return [day["date"] for day in spark_submit.seen["job"]["lookback"]]


def on(day: int) -> dt.date:
    return dt.date(2026, 10, day)


@pytest.fixture
def loaded(supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger) -> TinyLedger:
    """The ledger after each day was polled an hour after its end."""
    for day in range(1, 5):
        ledger.append(on(day), polled_at=dt.datetime(2026, 10, day, 1, tzinfo=dt.UTC) + ONE_DAY)
    return ledger


@pytest.mark.parametrize("run_type", ["scheduled", "manual"])
def test_a_run_loads_the_days_before_its_window_again(
    loaded: TinyLedger, spark_submit: SparkSubmit, run_type: str
) -> None:
    assert run(loaded, spark_submit, run_type=run_type) == ["2026-10-02", "2026-10-03", "2026-10-04"]


def test_a_run_without_lookback_days_loads_no_earlier_day(loaded: TinyLedger, spark_submit: SparkSubmit) -> None:
    assert run(loaded, spark_submit, lookback_days=0) == []


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
@pytest.mark.parametrize(("lookback_days", "has_lookback"), [(0, False), (3, True)])
def test_answers_are_digested_from_the_first_load_on_for_tasks_with_lookback_days(
    supervisor: Supervisor,
    spark_submit: SparkSubmit,
    ledger: TinyLedger,
    run_type: str,
    lookback_days: int,
    has_lookback: bool,
) -> None:
    assert run(ledger, spark_submit, run_type=run_type, lookback_days=lookback_days) == []
    assert JobConfig.model_validate(spark_submit.seen["job"]).digests_answers == has_lookback


def test_the_job_may_poll_the_days_of_the_lookback_at_the_same_time(
    loaded: TinyLedger, spark_submit: SparkSubmit
) -> None:
    days = run(loaded, spark_submit)
    assert JobConfig.model_validate(spark_submit.seen["job"]).concurrent_polls == len(days) + 1 == 4


def test_a_backfills_run_loads_no_earlier_day(loaded: TinyLedger, spark_submit: SparkSubmit) -> None:
    assert run(loaded, spark_submit, run_type="backfill") == []


@pytest.mark.parametrize(("origin", "first"), [(None, 1), ("2026-10-03", 3)])
def test_no_day_before_the_origin_is_loaded(
    loaded: TinyLedger, spark_submit: SparkSubmit, origin: str | None, first: int
) -> None:
    loaded.append(dt.date(2026, 9, 30), polled_at=START)
    found = run(loaded, spark_submit, lookback_days=30, origin=origin)
    assert found == [str(on(day)) for day in range(first, 5)]


def test_a_day_that_the_ledger_does_not_have_is_not_loaded(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger
) -> None:
    ledger.append(on(3), polled_at=START)
    assert run(ledger, spark_submit) == ["2026-10-03"]


def test_a_day_that_was_polled_since_the_windows_end_is_skipped(loaded: TinyLedger, spark_submit: SparkSubmit) -> None:
    loaded.append(on(3), 2, polled_at=END)
    assert run(loaded, spark_submit) == ["2026-10-02", "2026-10-04"]


def test_a_day_polled_before_the_window_was_ready_is_loaded_again(
    loaded: TinyLedger, spark_submit: SparkSubmit
) -> None:
    loaded.append(on(3), 2, polled_at=END + HOUR)
    assert "2026-10-03" in run(loaded, spark_submit, ready_after=2 * HOUR)


def test_report_and_event_say_which_days_were_looked_back_at(loaded: TinyLedger, spark_submit: SparkSubmit) -> None:
    spark_submit.does(REPORTS)
    task = Task(loaded, lookback_days=1)
    task.context["dag"].start_date = START
    summary = task.run()
    assert [(day["day"], day["lookback"]) for day in summary["days"]] == [("2026-10-05", False), ("2026-10-04", True)]
    assert task.context["outlet_events"][task.operator.outlets[0]].extra == summary
    assert task.operator.days == "2026-10-05"


@given(
    days=st.integers(1, 30),
    lookback=st.integers(1, 7),
    now=st.integers(31, 60),
)
def test_a_catchup_polls_each_day_once_whatever_it_looks_back(days: int, lookback: int, now: int) -> None:
    first, polled_at = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + now * ONE_DAY
    rows: dict[dt.date, LedgerRow] = {}
    for number in range(days):
        day = Day(date=first + ONE_DAY * number)
        before = days_before_window([day], lookback, first)
        assert days_not_polled_since(before, rows.values(), day.end) == ()
        rows[day.date] = LedgerRow(day=day.date, generation=1, token="t", rows=1, polled_at=polled_at)


@given(days=st.integers(1, 30), lookback=st.integers(0, 7))
def test_a_daily_schedule_polls_each_day_as_often_as_it_looks_back(days: int, lookback: int) -> None:
    first = dt.date(2026, 1, 1)
    polls: dict[dt.date, list[dt.datetime]] = {}
    for number in range(days):
        day = Day(date=first + ONE_DAY * number)
        rows = [LedgerRow(day=at, generation=1, token="t", rows=1, polled_at=all_[-1]) for at, all_ in polls.items()]
        again = days_not_polled_since(days_before_window([day], lookback, first), rows, day.end) if lookback else ()
        for each in (day, *again):
            polls.setdefault(each.date, []).append(day.end + HOUR)
    assert [len(polls[first + ONE_DAY * i]) for i in range(days)] == [
        min(lookback, days - 1 - i) + 1 for i in range(days)
    ]


def test_a_row_without_a_poll_time_counts_by_its_publish_or_is_skipped() -> None:
    row = LedgerRow(day=on(4), generation=1, token="t", rows=1)
    days = [Day(date=on(4))]
    assert days_not_polled_since(days, [row], END) == ()
    assert days_not_polled_since(days, [row.model_copy(update={"published_at": END - HOUR})], END) == tuple(days)
