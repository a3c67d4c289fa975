"""Runs that a person starts: each loads the day of its date, and Airflow shows the same day."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from zoneinfo import ZoneInfo

import pytest

from tests.equipment.airflow.tables import OnDelta
from tests.system.conftest import System, wait_for

pytestmark = pytest.mark.slow

PACIFIC = ZoneInfo("US/Pacific")


def cli(system: System, *arguments: str) -> str:
    command = [sys.executable, "-m", "airflow", *arguments]
    ended = subprocess.run(
        command,
        env=system.airflow.environment(),
        cwd=system.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def dated(system: System) -> System:
    """The DAG's runs, all started before the first of them is awaited."""
    system.airflow.wait_for_dag("dated")
    system.airflow.api("PATCH", "dags/dated?update_mask=is_paused", json={"is_paused": False})

    def trigger(run_id: str, **body: object) -> None:
        system.airflow.api("POST", "dags/dated/dagRuns", json={"dag_run_id": run_id, **body})

    trigger("noon", logical_date="2026-10-05T20:00:00Z")
    trigger("bare", logical_date="2026-10-06T00:00:00Z")
    trigger("early", logical_date="2026-10-01T03:00:00Z")  # Airflow itself starts no task of an earlier date
    trigger("form", logical_date=None, conf={"days": "2026-09-28..2026-09-29"})
    trigger("undated", logical_date=None)
    day = {"data_interval_start": "2026-10-09T07:00:00Z", "data_interval_end": "2026-10-10T07:00:00Z"}
    trigger("interval", logical_date="2026-10-12T00:00:00Z", **day)
    cli(system, "dags", "trigger", "dated", "-l", "2026-10-07", "-r", "by_cli")
    return system


def days_of(system: System, run_id: str) -> list[str]:
    system.wait_for_run(run_id, "dated")
    return [day["day"] for day in system.report(run_id, "dated")["days"]]


@pytest.mark.parametrize(
    ("run_id", "days"),
    [
        ("noon", ["2026-10-05"]),
        ("bare", ["2026-10-06"]),
        ("by_cli", ["2026-10-07"]),
        ("interval", ["2026-10-09"]),
        ("form", ["2026-09-28", "2026-09-29"]),
    ],
)
def test_each_way_loads_the_day_that_was_named(dated: System, run_id: str, days: list[str]) -> None:
    assert days_of(dated, run_id) == days


def test_no_date_loads_yesterday(dated: System) -> None:
    created = dt.datetime.fromisoformat(dated.run("undated", "dated")["run_after"]).astimezone(PACIFIC)
    assert days_of(dated, "undated") == [str(created.date() - dt.timedelta(days=1))]


@pytest.mark.parametrize(("run_id", "start"), [("noon", "2026-10-05T07:00:00Z"), ("bare", "2026-10-06T07:00:00Z")])
def test_airflow_shows_the_day_that_is_loaded(dated: System, run_id: str, start: str) -> None:
    assert dated.run(run_id, "dated")["data_interval_start"] == start


def test_a_day_before_the_start_date_is_refused_by_name(dated: System) -> None:
    wait_for(lambda: dated.run("early", "dated")["state"] == "failed", 100, "the refused run")
    assert "day 2026-09-30 of this manual run lies before 2026-10-01" in dated.log("early", "dated")
    assert dated.task("early", "dated")["try_number"] == 1


def test_the_log_begins_with_the_day_and_the_reason(dated: System) -> None:
    days_of(dated, "noon")
    first_line = "Days 2026-10-05 in US/Pacific, by the logical date 2026-10-05T20:00:00+00:00 of the manual run"
    log = dated.log("noon", "dated")
    assert first_line in log
    assert log.index(first_line) < log.index("attempt")


def test_dags_test_loads_the_day_that_it_is_given(dated: System) -> None:
    # Else the scheduler, which sees the run too, may be the one to start its task.
    dated.airflow.api("PATCH", "dags/dated?update_mask=is_paused", json={"is_paused": True})
    log = cli(dated, "dags", "test", "dated", "2026-10-08")
    assert "Days 2026-10-08 in US/Pacific" in log
    assert "2026-10-08" in OnDelta(str(dated.folder / "tables" / "dated")).rows()


def test_catchup_goes_on_after_a_run_that_the_command_line_put_in_place_of_a_scheduled_one(system: System) -> None:
    """Airflow gives such a run the interval of yesterday, after which its own timetable would go on."""
    system.airflow.wait_for_dag("stepped")
    cli(system, "dags", "trigger", "stepped", "-l", "2026-10-03T07:00:00+00:00", "-r", "by_cli")
    system.airflow.api("PATCH", "dags/stepped?update_mask=is_paused", json={"is_paused": False})
    days = {f"2026-10-0{number}T07:00:00Z" for number in (1, 2, 3, 4, 5)}

    def logical_dates() -> set[str]:
        runs = system.airflow.api("GET", "dags/stepped/dagRuns?limit=50")["dag_runs"]
        return {run["logical_date"] for run in runs}

    wait_for(lambda: logical_dates() == days, 60, "a run for each day")
