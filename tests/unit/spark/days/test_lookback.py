"""Days of a lookback on the driver: done when somebody else was quicker, and failed as any other; what they changed."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_provider_connect.capabilities.publisher import TellsDifferences
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.job import JobReport
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.spark.days.runner import DayRunner
from airflow_provider_connect.spark.poll import PollTask
from airflow_provider_connect.stage.differences import Differences
from airflow_provider_connect.window import Day
from tests.equipment.spark.lab import DAY, Lab, moved, poll_parts_of, polling

BEFORE = Day(date=dt.date(2026, 10, 4))


def test_a_lookback_day_that_somebody_else_publishes_meanwhile_is_done(lab: Lab) -> None:
    lab.days(window=(BEFORE,)).run([BEFORE])
    days = lab.days(token="bbbb", lookback=(BEFORE,))
    poll = poll_parts_of(days)

    def overtaken(tasks: list[str]) -> list[str]:
        answers = poll(tasks)
        if str(BEFORE) in tasks[0]:
            lab.days(token="cccc", window=(BEFORE,)).run([BEFORE])
        return answers

    polls = lab.polls
    reports = [report for day in (DAY, BEFORE) for report in polling(days, overtaken).run([day])]
    assert [(report.status, report.lookback) for report in reports] == [("published", False), ("overtaken", True)]
    assert reports[1].failure is not None
    assert "has published generation 2 since" in reports[1].failure.message
    assert JobReport.from_days("a", reports).failure is None
    assert lab.polls == polls + 3, "it polled again"


def test_a_lookback_day_is_loaded_and_marked(lab: Lab) -> None:
    lab.days(window=(BEFORE,)).run([BEFORE])
    (report,) = lab.days(token="bbbb", lookback=(BEFORE,), source={"rows": 5}).run([BEFORE])
    assert (report.status, report.generation, report.lookback) == ("published", 2, True)
    assert (report.rows_before, report.rows_written) == (3, 5)


def test_the_first_publish_of_a_day_followed_none(lab: Lab) -> None:
    assert lab.move().rows_before is None


def test_a_lookback_day_that_fails_fails_the_job(lab: Lab) -> None:
    lab.days(window=(BEFORE,)).run([BEFORE])
    (report,) = lab.days(token="bbbb", lookback=(BEFORE,), source={"rows": 0}).run([BEFORE])
    assert (report.status, report.lookback) == ("failed", True)
    assert JobReport.from_days("a", [report]).failure is not None


def telling(days: DayRunner, answer: Differences | Exception | None) -> tuple[DayRunner, list[Publish]]:
    """Return days whose sink answers so when it is asked for differences, and what it is asked about."""
    asked: list[Publish] = []

    def differences(publish: Publish) -> Differences | None:
        asked.append(publish)
        if isinstance(answer, Exception):
            raise answer
        return answer

    publisher: Any = days.context.outlet.publisher
    named = {"differences": lambda self, publish: differences(publish)}
    publisher.__class__ = type("Telling", (type(publisher), TellsDifferences), named)
    return days, asked


def test_what_a_reload_changes_is_counted_in_report_and_ledger(lab: Lab) -> None:
    found = Differences(added=3, changed=2, vanished=0)
    first, asked = telling(lab.days(), found)
    assert moved(first).counts == {}
    assert asked == [], "a first publish costs nothing"
    again, asked = telling(lab.days(token="bbbb"), found)
    assert moved(again).counts == {"added": 3, "changed": 2, "vanished": 0}
    assert [publish.manifest.seen.generation for publish in asked] == [1]
    counts = lab.ledger.row(DAY.date).counts
    assert (counts["added"], counts["changed"], counts["vanished"]) == (3, 2, 0)
    assert counts["duplicates"] == 1
    retry = lab.move(token="bbbb")
    assert (retry.status, retry.counts) == ("already_published", found.model_dump())


@pytest.mark.parametrize("answer", [None, RetriableError("the disk is full"), KeyError("a fault of ours")], ids=str)
def test_a_reload_whose_changes_cannot_be_counted_is_published_all_the_same(
    lab: Lab, answer: Exception | None, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.move()
    days, asked = telling(lab.days(token="bbbb"), answer)
    report = moved(days)
    assert (report.status, report.generation, report.counts, len(asked)) == ("published", 2, {}, 1)
    assert ("changed rows could not be counted" in capsys.readouterr().err) == (answer is not None)


def test_figures_of_an_overtaken_attempt_are_dropped_with_it(lab: Lab) -> None:
    lab.move()
    asked: list[int] = []
    days = lab.days(token="bbbb")
    publisher: Any = days.context.outlet.publisher

    def differences(publish: Publish) -> Differences:
        asked.append(publish.manifest.seen.generation)
        if len(asked) == 1:
            lab.move(token="cccc")
        return Differences(added=publish.manifest.seen.generation, changed=0, vanished=0)

    named = {"differences": lambda self, publish: differences(publish)}
    publisher.__class__ = type("Telling", (type(publisher), TellsDifferences), named)
    report = moved(days)
    assert (report.generation, asked) == (3, [1, 2])
    assert report.counts["added"] == lab.ledger.row(DAY.date).counts["added"] == 2


def test_executors_are_told_when_the_day_was_polled_before(lab: Lab) -> None:
    tasks: list[PollTask] = []

    def seeing(days: DayRunner) -> DayRunner:
        poll = poll_parts_of(days)

        def poll_parts(texts: list[str]) -> list[str]:
            tasks.extend(PollTask.model_validate_json(text) for text in texts)
            return poll(texts)

        return polling(days, poll_parts)

    moved(seeing(lab.days()))
    polled_at = lab.ledger.row(DAY.date).polled_at
    assert polled_at is not None
    moved(seeing(lab.days(token="bbbb")))
    assert [task.polled_before for task in tasks] == [(None,), (polled_at,)]
