"""Every further poll of a partition is told: a line each in the log, and their number in the report."""

from __future__ import annotations

import re

import pytest

from airflow_provider_connect.job import JobReport
from airflow_provider_connect.operators.job_outcome import format_days
from airflow_provider_connect.spark.progress import PollProgress, ProgressFile
from tests.equipment.clock import NoTime
from tests.equipment.spark.lab import DAY, Lab

FAULTS = {"parts": 2, "retry_budget_seconds": 60.0, "faults": {1: ["RetriableError", "wait:0"]}}


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return re.findall(r"connect: day 2026-10-05: (retry \d of partition \d): waits", capsys.readouterr().err)


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.patience.CLOCK", NoTime())


def test_every_retry_of_a_poll_leaves_a_line_in_the_log(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.move(source=FAULTS)
    assert lines(capsys) == ["retry 1 of partition 1", "retry 2 of partition 1"]
    assert (report.status, report.retries) == ("published", 2)


def test_a_day_that_fails_after_retries_reports_them(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.move(source=FAULTS | {"faults": {0: ["RetriableError", "DataError"]}})
    assert lines(capsys) == ["retry 1 of partition 0"]
    assert (report.status, report.retries) == ("failed", 1)


def test_a_retry_logged_during_the_poll_is_not_logged_again(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    progress, poll = (
        lab.days().context.progress,
        PollProgress([DAY], {0: ProgressFile(DAY, "_connect/attempts/t-1/progress-00000.json")}),
    )
    for reasons in (["waits a", "waits b"], ["waits a", "waits b", "waits c"], ["waits a"]):
        progress.log_retries(poll, 0, reasons)
    assert lines(capsys) == [f"retry {number} of partition 0" for number in (1, 2, 3)]
    assert progress.retries(DAY) == 3


def test_the_number_of_retries_stands_in_table_and_xcom(lab: Lab) -> None:
    report = JobReport.from_days("t-1", [lab.move(source=FAULTS)])
    heads, cells = (line.split() for line in format_days(report).replace("MB read", "MB").splitlines()[:2])
    assert cells[heads.index("retries")] == "2"
    summary = report.summary()
    assert (summary["retries"], summary["days"][0]["retries"]) == (2, 2)


def test_a_publish_from_an_earlier_try_s_stage_has_no_retries_of_its_own(lab: Lab) -> None:
    lab.move(source=FAULTS, sink=["commit:RetriableError"])
    assert lab.move(source=FAULTS, attempt="2").retries == 0
