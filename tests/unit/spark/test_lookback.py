"""Days of a lookback on the driver: done when somebody else was quicker, and failed as any other."""

from __future__ import annotations

import datetime as dt

from airflow_provider_connect.job import JobReport
from airflow_provider_connect.window import Day
from tests.equipment.spark.lab import DAY, Lab, polling

BEFORE = Day(date=dt.date(2026, 10, 4))


def test_a_lookback_day_that_somebody_else_publishes_meanwhile_is_done(lab: Lab) -> None:
    lab.days(window=(BEFORE,)).move([BEFORE])
    days = lab.days(token="bbbb", lookback=(BEFORE,))
    poll = days.freezer.poll_parts

    def overtaken(tasks: list[str]) -> list[str]:
        answers = poll(tasks)
        if str(BEFORE) in tasks[0]:
            lab.days(token="cccc", window=(BEFORE,)).move([BEFORE])
        return answers

    polls = lab.polls
    reports = [report for day in (DAY, BEFORE) for report in polling(days, overtaken).move([day])]
    assert [(report.status, report.lookback) for report in reports] == [("published", False), ("overtaken", True)]
    assert reports[1].failure is not None
    assert "has published generation 2 since" in reports[1].failure.message
    assert JobReport.of("a", reports).failure is None
    assert lab.polls == polls + 3, "it polled again"


def test_a_lookback_day_is_loaded_and_marked(lab: Lab) -> None:
    lab.days(window=(BEFORE,)).move([BEFORE])
    (report,) = lab.days(token="bbbb", lookback=(BEFORE,), source={"rows": 5}).move([BEFORE])
    assert (report.status, report.generation, report.lookback) == ("published", 2, True)
    assert (report.rows_before, report.rows_written) == (3, 5)


def test_the_first_publish_of_a_day_followed_none(lab: Lab) -> None:
    assert lab.move().rows_before is None


def test_a_lookback_day_that_fails_fails_the_job(lab: Lab) -> None:
    lab.days(window=(BEFORE,)).move([BEFORE])
    (report,) = lab.days(token="bbbb", lookback=(BEFORE,), source={"rows": 0}).move([BEFORE])
    assert (report.status, report.lookback) == ("failed", True)
    assert JobReport.of("a", [report]).failure is not None
