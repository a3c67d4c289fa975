"""Retry, clear, backfill and failure as Airflow has them, and what the sink's generations make of it."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Any

import psutil
import pytest

from tests.demo.local_airflow import marked
from tests.standins.mixpanel.faults import Fault
from tests.system.conftest import PASSWORD, System, served, wait_for

pytestmark = pytest.mark.slow


def generation(system: System, day: str) -> int:
    return system.written_by["by_hand"].ledger()[day].generation


CANARY = "c4nary-p4ssword"
TIMES = ("end_date", "start_date")
RUNS = {
    "clear-me": "2026-09-01",
    "retry-me": "2026-09-02",
    "three-days": "2026-09-03..2026-09-05",
    "bad-line": "2026-09-06",
    "no-such-day": "2026-13-45",
    "canary": "2026-09-08",
}


@pytest.fixture(scope="module", autouse=True)
def runs(system: System):
    """Trigger every run of this file at once: most of a run's time is waiting."""
    too_many = Fault("status", date=dt.date(2026, 9, 2), status=429, headers={"Retry-After": "9"}, times=1)
    system.by_hand.faults.replace([too_many, Fault("bad_line", date=dt.date(2026, 9, 6))])
    for run_id, days in RUNS.items():
        system.trigger(days, run_id)


def test_a_clear_reloads_the_day_with_a_new_generation(system: System):
    run = "clear-me"
    system.wait_for_run(run)
    assert generation(system, "2026-09-01") == 1
    system.clear(run)
    wait_for(lambda: system.task(run)["try_number"] > 1, 60, "a second try")
    system.wait_for_run(run)
    assert generation(system, "2026-09-01") == 2
    assert system.rows("by_hand")["2026-09-01"] == served(system.by_hand.project, [dt.date(2026, 9, 1)])["2026-09-01"]


def test_an_automatic_retry_keeps_the_generation_and_waits_as_long_as_asked(system: System):
    run = "retry-me"
    system.wait_for_run(run)
    tries = system.airflow.api("GET", f"dags/by_hand/dagRuns/{run}/taskInstances/events/tries")["task_instances"]
    assert [each["state"] for each in tries] == ["failed", "success"]
    first, second = (dt.datetime.fromisoformat(each[when]) for each, when in zip(tries, TIMES, strict=True))
    assert (second - first).total_seconds() > 8, "the retry did not wait for the nine seconds that were asked"
    assert generation(system, "2026-09-02") == 1
    assert system.report(run)["days"][0]["rows_written"] == 3000


def asset_event(system: System, run: str) -> Any:
    """Return the one asset event of a run, None while Airflow cannot answer.

    Airflow 3.3 lists with an event the DAG runs it started, and answers 500 while one of them is still queued: such
    a run has no start date yet, which its own answer model requires.
    """
    if any(each["start_date"] is None for each in system.airflow.runs("on_table")):
        return None
    try:
        events = system.airflow.api("GET", "assets/events?limit=200")["asset_events"]
    except RuntimeError as error:
        if " 500 " in str(error):
            return None
        raise
    [event] = [event for event in events if event["source_run_id"] == run]
    return event


def test_a_window_of_days_in_one_run(system: System):
    run = "three-days"
    system.wait_for_run(run)
    assert [day["day"] for day in system.report(run)["days"]] == ["2026-09-03", "2026-09-04", "2026-09-05"]
    event = wait_for(lambda: asset_event(system, run), 120, "the asset event")
    assert (event["partition_key"], event["extra"]["rows_written"]) == (None, 9000)
    assert [day["day"] for day in event["extra"]["days"]] == ["2026-09-03", "2026-09-04", "2026-09-05"]


def test_a_dag_scheduled_on_the_table_is_started(system: System):
    wait_for(lambda: system.airflow.runs("on_table"), 60, "a run of the DAG that waits for the table")


def test_a_config_error_fails_at_once_without_a_retry(system: System):
    wait_for(lambda: system.run("no-such-day")["state"] == "failed", 120, "failed")
    assert system.task("no-such-day")["try_number"] == 1
    assert "is neither 'YYYY-MM-DD'" in system.log("no-such-day")


def test_a_bad_line_fails_the_day_without_a_retry(system: System):
    wait_for(lambda: system.run("bad-line")["state"] == "failed", 120, "failed")
    assert system.task("bad-line")["try_number"] == 1
    assert system.log("bad-line").count("accept rejects with errors_tolerance='all'") == 1, "an error is repeated"
    assert "2026-09-06" not in system.rows("by_hand")


def test_rendered_fields_show_source_sink_and_days_and_no_secret(system: System):
    system.wait_for_run("canary")
    fields = system.task("canary")["rendered_fields"]
    assert fields["days"] == "2026-09-08"
    assert "mixpanel_by_hand" in str(fields["source"])
    assert system.written_by["by_hand"].target in str(fields["sink"])


def test_the_canary_is_nowhere(system: System):
    """No secret in logs, XCom, Variables, rendered fields, staged files, process arguments or temporary files.

    Airflow's own connection table holds it, of course: its database lies elsewhere, and is looked at through the API.
    """
    commands: set[str] = set()
    run = system.trigger("2026-09-09", "canary-2")
    while system.run(run)["state"] != "success":
        for process in marked(str(system.airflow.home.resolve())):
            with contextlib.suppress(psutil.Error):
                commands.add(" ".join(process.cmdline()))
    assert any("SparkSubmit" in command for command in commands)
    assert not any(CANARY in command for command in commands)
    assert CANARY in PASSWORD
    hits = [path for path in system.folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert hits == []
    for path in ("variables?limit=100", f"dags/by_hand/dagRuns/{run}/taskInstances/events/xcomEntries?limit=100"):
        assert CANARY not in str(system.airflow.api("GET", path))
    assert CANARY not in str(system.task(run))
    assert CANARY not in str(system.report(run))
