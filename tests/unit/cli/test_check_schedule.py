"""The days of a task's next run, as ``airflow connect check`` shows them."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, task

from airflow_provider_connect.cli.check_functions import describe_function_days, function_tasks
from airflow_provider_connect.cli.check_schedule import describe_next_days
from airflow_provider_connect.cli.dag_files import DagFiles
from airflow_provider_connect.cli.tasks import tasks_of_dag
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily, every
from tests.equipment.airflow.connectors import TinySink, TinySource

NOW = dt.datetime.now(dt.UTC)
YESTERDAY = NOW.date() - dt.timedelta(days=1)


def described(schedule: Any, **options: Any) -> str | None:
    connectors = {"source": TinySource(conn_id="c"), "sink": TinySink()}
    with DAG("d", schedule=schedule, start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC)) as dag:
        ConnectOperator(task_id="events", **connectors | options)
    return describe_next_days(tasks_of_dag(dag)["events"], NOW)


@pytest.mark.parametrize("schedule", [daily("UTC"), CronDataIntervalTimetable("0 0 * * *", timezone="UTC")])
def test_the_newest_run_loads_yesterday(schedule: Any) -> None:
    assert str(described(schedule)).startswith(f"the newest run loads {YESTERDAY} in UTC, from ")


def test_a_weekly_schedule_loads_a_week() -> None:
    text = str(described(CronDataIntervalTimetable("0 0 * * MON", timezone="UTC")))
    first, last = (dt.date.fromisoformat(date) for date in text.split()[4].split(".."))
    assert (last - first).days == 6
    assert first.weekday() == 0


@pytest.mark.parametrize("schedule", [every("15 minutes"), CronDataIntervalTimetable("0 * * * *", timezone="UTC")])
def test_increments_need_no_whole_days(schedule: Any) -> None:
    followed = SqlSource(conn_id="c", table="t", mode="incrementing", incrementing_column="id")
    text = str(described(schedule, source=followed, sink=DeltaSink(path="/t")))
    assert text.startswith("a run reads the rows since the run before, the first one all rows, from ")
    with pytest.raises(ConfigError, match="the source's days begin at midnight in UTC"):
        described(schedule)


@pytest.mark.parametrize(("catchup", "rest"), [(True, ". Catchup makes its missing runs"), (False, "")])
def test_a_schedule_that_has_ended_may_still_have_runs_to_make(catchup: bool, rest: str) -> None:
    start, end = (dt.datetime(2026, 10, day, tzinfo=dt.UTC) for day in (1, 3))
    with DAG("d", schedule=daily("UTC"), start_date=start, end_date=end, catchup=catchup) as dag:
        ConnectOperator(task_id="events", source=TinySource(conn_id="c"), sink=TinySink())
    assert describe_next_days(tasks_of_dag(dag)["events"], NOW) == f"the schedule has ended{rest}"


def test_other_schedules_are_left_to_the_run() -> None:
    assert described([Asset("a")]) is None
    assert str(described(None)).startswith("no schedule.")


def test_days_of_the_task_are_checked() -> None:
    assert described(None, days="2026-10-01..2026-10-03") == "days= names 2026-10-01..2026-10-03"
    with pytest.raises(ConfigError, match=r"2999-01-01 is in the future. Correct days="):
        described(None, days="2999-01-01")


@pytest.mark.parametrize(
    ("schedule", "options", "is_refused"),
    [("@daily", {}, True), ("@daily", {"days": "{{ ds }}"}, False), (daily("UTC"), {}, False), (None, {}, False)],
)
def test_a_schedule_of_a_function_task_must_name_days(schedule: Any, options: Any, is_refused: bool) -> None:
    with DAG("d", schedule=schedule, start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC)) as dag:

        @task.connect(**options)
        def load(name: str) -> Any:
            raise AssertionError("only a run calls it")

        load("a")
        load.override(task_id="mapped").expand(name=["a", "b"])
    assert function_tasks(dag) == ["load", "mapped"]
    for task_id in function_tasks(dag):
        problem = describe_function_days(dag, task_id)
        assert (problem is not None) == is_refused
        assert not is_refused or "its runs have no data interval" in str(problem)


def test_a_check_shows_function_tasks_and_puts_problems_on_top(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with DAG("d", schedule="@daily", start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC)) as dag:
        ConnectOperator(task_id="events", source=TinySource(conn_id="c"), sink=TinySink(), days="2999-01-01")

        @task.connect
        def load() -> Any:
            raise AssertionError("only a run calls it")

        load()
    monkeypatch.setattr("airflow_provider_connect.cli.tasks.read_dag_files", lambda *_: DagFiles(dags={"d": dag}))

    def checked(*arguments: str) -> list[tuple[str, str, str]]:
        args = get_parser().parse_args(["connect", "check", "d", *arguments, "--offline", "-o", "json"])
        with pytest.raises(SystemExit):
            args.func(args)
        return [(line["task"], line["what"], line["state"]) for line in json.loads(capsys.readouterr().out)]

    functions = [("d.load", "source, sink", "not checked"), ("d.load", "days", "note")]
    states = checked()
    assert states[0] == ("d.events", "days", "problem")
    assert states[-2:] == functions
    assert checked("load") == functions
