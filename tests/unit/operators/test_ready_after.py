"""H19: a day that its source has not closed yet is not asked for; the task waits without a worker's slot."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_provider_connect.operators.run_days import ready_at
from airflow_provider_connect.window import Day
from tests.equipment.airflow.connectors import TinyLedger, TinySource
from tests.unit.operators.conftest import DONE, SparkSubmit, Supervisor, Task

TWO_HOURS = dt.timedelta(hours=2)


class Clock(dt.datetime):
    """Stands still until it is set."""

    at = dt.datetime(2026, 10, 6, tzinfo=dt.UTC)

    @classmethod
    def now(cls, tz: Any = None) -> dt.datetime:
        return cls.at.astimezone(tz)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    # The operator's name for it alone: everything else keeps the real one.
    frozen = SimpleNamespace(datetime=Clock, UTC=dt.UTC)
    monkeypatch.setattr("airflow_provider_connect.operators.connect.dt", frozen)
    monkeypatch.setattr(Clock, "at", Clock.at)
    return Clock


def deferred(task: Task) -> DateTimeTrigger:
    with pytest.raises(TaskDeferred) as caught:
        task.run()
    assert isinstance(caught.value.trigger, DateTimeTrigger)
    assert caught.value.method_name == "go_on"
    return caught.value.trigger


def test_a_day_is_asked_for_only_so_long_after_its_end(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, clock: type[Clock]
) -> None:
    spark_submit.does(DONE)
    task = Task(ledger, ready_after=TWO_HOURS)
    clock.at = dt.datetime(2026, 10, 6, 1, 59, 59, tzinfo=dt.UTC)
    assert deferred(task).moment.isoformat() == "2026-10-06T02:00:00+00:00"
    assert not (spark_submit.folder / "seen.json").exists(), "Spark was started"
    assert not list(ledger.days()), "the day is done"

    clock.at = dt.datetime(2026, 10, 6, 2, tzinfo=dt.UTC)
    again = Task(ledger, ready_after=TWO_HOURS)
    summary = again.operator.go_on(again.context, {})
    assert [day["status"] for day in summary["days"]] == ["published"]


def test_a_task_that_was_woken_may_submit_though_nested_operators_are_refused(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    """Airflow takes a submit that does not come from execute() for an operator inside another one's task."""
    spark_submit.does(DONE)
    task = Task(ledger, ready_after=TWO_HOURS, allow_nested_operators=False)
    assert task.operator.go_on(task.context, {})["days"][0]["status"] == "published"
    assert "outside of the Task Runner" not in capsys.readouterr().out


def test_a_task_that_is_woken_too_early_waits_again(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, clock: type[Clock]
) -> None:
    task = Task(ledger, ready_after=TWO_HOURS)
    with pytest.raises(TaskDeferred):
        task.operator.go_on(task.context, {})


def test_the_wait_counts_from_the_days_end_in_the_source_s_zone(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, clock: type[Clock]
) -> None:
    source = TinySource(conn_id="tiny_default", zone_name="US/Pacific")
    task = Task(ledger, ready_after=TWO_HOURS, source=source, days="2026-10-04..2026-10-05")
    assert deferred(task).moment.isoformat() == "2026-10-06T09:00:00+00:00"


def test_days_ahead_are_refused_at_once(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, clock: type[Clock]
) -> None:
    with pytest.raises(AirflowFailException, match="are in the future"):
        Task(ledger, ready_after=TWO_HOURS, days="2026-10-07").run()


@pytest.mark.parametrize("ready_after", [None, dt.timedelta(0), TWO_HOURS])
def test_days_that_are_ready_do_not_wait(ready_after: dt.timedelta | None) -> None:
    days = [Day(date=dt.date(2026, 10, 4)), Day(date=dt.date(2026, 10, 5))]
    ready = days[-1].end + (ready_after or dt.timedelta(0))
    assert ready_at(days, ready_after, ready) is None
    assert ready_at(days, ready_after, ready - dt.timedelta(seconds=1)) == (None if ready_after is None else ready)
