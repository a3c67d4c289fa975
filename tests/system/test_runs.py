"""Retry, clear, backfill and failure as Airflow has them, and what the sink's generations make of it."""

from __future__ import annotations

import datetime as dt

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.demo.mixpanel_faults import Fault

from .conftest import PASSWORD, System, served, wait_for

pytestmark = pytest.mark.slow


def generation(system: System, day: str) -> int:
    history = DeltaTable(str(system.tables / "by_hand")).history()
    return max(int(entry["connect.generation"]) for entry in history if entry.get("connect.day") == day)


def test_a_clear_reloads_the_day_with_a_new_generation(system: System):
    run = system.trigger("2026-09-01", "clear-me")
    system.wait_for_run(run)
    assert generation(system, "2026-09-01") == 1
    body = {"dag_run_id": run, "dry_run": False, "reset_dag_runs": True, "only_failed": False}
    system.airflow.api("POST", "dags/by_hand/clearTaskInstances", json=body)
    wait_for(lambda: system.task(run)["try_number"] > 1, 60, "a second try")
    system.wait_for_run(run)
    assert generation(system, "2026-09-01") == 2
    assert system.rows("by_hand")["2026-09-01"] == served(system.by_hand.project, [dt.date(2026, 9, 1)])["2026-09-01"]


def test_an_automatic_retry_keeps_the_generation_and_waits_as_long_as_asked(system: System):
    fault = Fault("status", date=dt.date(2026, 9, 2), status=429, headers={"Retry-After": "9"}, times=1)
    system.by_hand.faults.replace([fault])
    run = system.trigger("2026-09-02", "retry-me")
    system.wait_for_run(run)
    system.by_hand.faults.replace([])
    assert system.task(run)["try_number"] == 2
    assert generation(system, "2026-09-02") == 1
    assert system.report(run)["days"][0]["rows_written"] == 3000


def test_a_window_of_days_in_one_run(system: System):
    run = system.trigger("2026-09-03..2026-09-05", "three-days")
    system.wait_for_run(run)
    assert [day["day"] for day in system.report(run)["days"]] == ["2026-09-03", "2026-09-04", "2026-09-05"]
    events = system.airflow.api("GET", "assets/events?limit=200")["asset_events"]
    mine = [event for event in events if event["source_run_id"] == run]
    assert {event["partition_key"] for event in mine} == {"2026-09-03", "2026-09-04", "2026-09-05"}
    assert mine[0]["extra"]["rows_written"] == 9000


def test_a_config_error_fails_at_once_without_a_retry(system: System):
    run = system.trigger("2026-13-45", "no-such-day")
    wait_for(lambda: system.run(run)["state"] == "failed", 60, "failed")
    assert system.task(run)["try_number"] == 1
    assert "is neither 'YYYY-MM-DD'" in system.log(run)


def test_a_bad_line_fails_the_day_without_a_retry(system: System):
    system.by_hand.faults.replace([Fault("bad_line", date=dt.date(2026, 9, 6))])
    run = system.trigger("2026-09-06", "bad-line")
    wait_for(lambda: system.run(run)["state"] == "failed", 90, "failed")
    system.by_hand.faults.replace([])
    assert system.task(run)["try_number"] == 1
    assert "2026-09-06" not in system.rows("by_hand")


def test_rendered_fields_show_source_sink_and_days_and_no_secret(system: System):
    run = system.trigger("2026-09-07", "rendered")
    system.wait_for_run(run)
    fields = system.task(run)["rendered_fields"]
    assert fields["days"] == "2026-09-07"
    assert "mixpanel_by_hand" in str(fields["source"])
    assert str(system.tables / "by_hand") in str(fields["sink"])


def test_the_canary_is_nowhere(system: System):
    """After everything else in this file: no secret in logs, XCom, Variables, rendered fields, files or the database.

    Airflow's own connection table holds it, of course; without a Fernet key it is looked for everywhere else.
    """
    run = system.trigger("2026-09-08", "canary")
    system.wait_for_run(run)
    canary = "c4nary-p4ssword"
    assert canary in PASSWORD
    hits = [
        path
        for root in (system.airflow.home, system.tables)
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith("airflow.db") and canary.encode() in path.read_bytes()
    ]
    assert hits == []
    for path in ("variables?limit=100", f"dags/by_hand/dagRuns/{run}/taskInstances/events/xcomEntries?limit=100"):
        assert canary not in str(system.airflow.api("GET", path))
    assert canary not in str(system.task(run))
    assert canary not in str(system.report(run))
