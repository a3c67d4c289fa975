"""One request serves two days: they are polled together, and each is published, and fails, by itself."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.errors import ConfigError, ConnectError, Failure, QuotaError, RetriableError
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.spark.capabilities.allowance import RequestBudget
from airflow_provider_connect.spark.days.parallel import run_all_days
from airflow_provider_connect.spark.days.poll import PlanPoller
from airflow_provider_connect.spark.days.runner import DayRunner
from airflow_provider_connect.spark.poll import PollOutcome
from airflow_provider_connect.spark.states import PlannedDays, PolledDays
from airflow_provider_connect.window import Day, days_between
from tests.equipment.clock import NoTime
from tests.equipment.spark.lab import Fixed, Lab, freezer_in, poll_parts_of, polling

WEEK = tuple(days_between(dt.date(2026, 10, 5), dt.date(2026, 10, 11), "UTC"))
MONDAY, TUESDAY, WEDNESDAY, THURSDAY = WEEK[:4]
RETRIED = {"retry_budget_seconds": 60.0, "faults": {0: ["RetriableError"]}}


def move(lab: Lab, *window: Day, together: int = 2, **options: Any) -> list[DayReport]:
    """Move days as the driver does."""
    source = {"together": together} | options.pop("source", {})
    return run_all_days(lab.days(source=source, window=window, **options), Fixed(together), 1)


def polled(lab: Lab) -> list[str]:
    """Return the first day of every poll."""
    return sorted(path.name[6:16] for path in lab.root.glob("polls-*") for _ in range(path.stat().st_size))


def statuses(reports: list[DayReport]) -> list[str]:
    return [report.status for report in reports]


def kinds(reports: list[DayReport]) -> list[str | None]:
    return [report.failure and report.failure.type for report in reports]


def plan_each_day_apart(days: DayRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one plan give each of its days a partition of its own."""

    def plan(poller: Any, wanted: Sequence[Day]) -> list[InputPartition]:
        return [InputPartition(days=(day,), index=index) for index, day in enumerate(wanted)]

    monkeypatch.setattr(type(days.context.intake.poller), "plan", plan)


def test_two_days_are_one_poll_and_two_publishes(lab: Lab) -> None:
    reports = move(lab, MONDAY, TUESDAY, WEDNESDAY)
    assert statuses(reports) == ["published"] * 3
    assert polled(lab) == ["2026-10-05", "2026-10-07"]
    for day in (MONDAY, TUESDAY, WEDNESDAY):
        row = lab.ledger.row(day.date)
        assert (row.rows, row.attempt, row.digest) == (3, f"aaaa-1-{day.date:%Y%m%d}", f"{3:032x}")
        assert (row.counts["rows_read"], row.counts["duplicates"]) == (3, 1)
        (file,) = lab.stage.glob(f"day={day}/*.parquet")
        assert pq.read_table(file, partitioning=None)["event"].to_pylist() == [f"{day}/0"] * 3
        assert lab.manifest(day=day).exists()


def test_all_partitions_of_a_plan_bring_rows_of_both_days(lab: Lab) -> None:
    assert [report.rows_written for report in move(lab, MONDAY, TUESDAY, source={"parts": 3})] == [9, 9]
    assert len(polled(lab)) == 3


def test_retries_are_reported_with_the_first_day_and_bytes_are_shared_out_by_rows(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("airflow_provider_connect.patience.CLOCK", NoTime())
    reports = move(lab, MONDAY, TUESDAY, source={"rejects": 2, **RETRIED})
    assert [report.raw_bytes for report in reports] == [50, 50]
    assert [report.retries for report in reports] == [1, 0]
    assert [report.rejected for report in reports] == [0, 2]
    assert "days 2026-10-05..2026-10-06: retry 1 of partition 0: waits" in capsys.readouterr().err


@pytest.mark.parametrize("error", ["DataError", "RetriableError"])
def test_a_failure_of_a_request_fails_its_days_and_no_other(lab: Lab, error: str) -> None:
    reports = move(lab, *WEEK[:6], source={"bad": {"2026-10-08": error}})
    assert statuses(reports) == ["published", "published", "failed", "failed", "published", "published"]
    assert kinds(reports) == [None, None, error, error, None, None]
    assert not list(lab.stage.glob("day=2026-10-0[78]/*"))


def test_after_a_config_error_no_further_request_is_sent(lab: Lab) -> None:
    reports = move(lab, *WEEK, source={"bad": {"2026-10-08": "ConfigError"}})
    assert statuses(reports) == [*["published"] * 2, *["failed"] * 2, *["not_started"] * 3]
    assert polled(lab) == ["2026-10-05", "2026-10-07"]


def test_after_a_fatal_error_no_request_is_sent_across_published_days(lab: Lab) -> None:
    move(lab, TUESDAY)
    reports = move(lab, MONDAY, TUESDAY, WEDNESDAY, together=3, attempt="2", source={"bad": {"2026-10-05": "wait:9"}})
    assert statuses(reports) == ["failed", "already_published", "not_started"]


def test_a_day_that_is_published_already_is_not_polled(lab: Lab) -> None:
    move(lab, MONDAY)
    reports = move(lab, MONDAY, TUESDAY, attempt="2")
    assert statuses(reports) == ["already_published", "published"]
    assert polled(lab) == ["2026-10-05", "2026-10-06"]


def test_a_day_that_an_earlier_try_has_staged_is_not_polled(lab: Lab) -> None:
    move(lab, MONDAY, sink=["begin:RetriableError"])
    reports = move(lab, MONDAY, TUESDAY, attempt="2")
    assert statuses(reports) == ["published", "published"]
    assert lab.ledger.row(MONDAY.date).attempt == "aaaa-1-20261005"
    assert polled(lab) == ["2026-10-05", "2026-10-06"]


def test_what_was_frozen_together_is_published_apart_by_the_next_try(lab: Lab) -> None:
    assert statuses(move(lab, MONDAY, TUESDAY, sink=["commit:RetriableError"])) == ["failed", "failed"]
    reports = move(lab, MONDAY, TUESDAY, attempt="2")
    assert statuses(reports) == ["published", "published"]
    assert polled(lab) == ["2026-10-05"]


def test_a_day_that_is_overtaken_is_polled_again_alone(lab: Lab) -> None:
    days, others = lab.days(source={"together": 2}, window=(MONDAY, TUESDAY)), ["bbbb"]

    def poll_parts(tasks: list[str]) -> list[str]:
        answers = poll_parts_of(days)(tasks)
        for token in others:
            row = LedgerRow(day=TUESDAY.date, generation=1, token=token, run="d/other/t", rows=7)
            lab.ledger.path.write_text(row.model_dump_json() + "\n")
        others.clear()
        return answers

    reports = run_all_days(polling(days, poll_parts), Fixed(2), 1)
    assert [(report.status, report.generation) for report in reports] == [("published", 1), ("published", 2)]
    assert polled(lab) == ["2026-10-05", "2026-10-06"]
    assert lab.ledger.row(TUESDAY.date).attempt == "aaaa-1r-20261006"


@pytest.mark.parametrize(
    ("error", "asked_again"),
    [(RetriableError("429", retry_after_seconds=900), 1), (ConfigError("rights"), 1), (RetriableError("cut"), 2)],
)
def test_days_overtaken_together_are_not_polled_again_after_a_fatal_error(
    lab: Lab, error: ConnectError, asked_again: int
) -> None:
    days, asked = lab.days(source={"together": 2}, window=(MONDAY, TUESDAY)), []

    def poll_parts(tasks: list[str]) -> list[str]:
        asked.append(len(tasks))
        if len(asked) > 1:
            return [PollOutcome(failure=Failure.from_error(error)).model_dump_json()]
        rows = [LedgerRow(day=day.date, generation=1, token="bbbb", run="d/o/t", rows=7) for day in (MONDAY, TUESDAY)]
        lab.ledger.path.write_text("".join(row.model_dump_json() + "\n" for row in rows))
        return poll_parts_of(days)(tasks)

    reports = run_all_days(polling(days, poll_parts), Fixed(2), 1)
    assert statuses(reports) == ["failed", "failed"]
    assert kinds(reports) == [type(error).__name__, "OvertakenError" if asked_again == 1 else "RetriableError"]
    assert len(asked) == 1 + asked_again


def test_an_overtaken_day_is_not_polled_again_after_its_neighbour_met_a_fatal_error(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = lab.days(source={"together": 2, "bad": {"2026-10-06": "wait:900"}}, window=(MONDAY, TUESDAY))
    plan_each_day_apart(days, monkeypatch)

    def poll_parts(tasks: list[str]) -> list[str]:
        row = LedgerRow(day=MONDAY.date, generation=1, token="bbbb", run="d/o/t", rows=7)
        lab.ledger.path.write_text(row.model_dump_json() + "\n")
        return poll_parts_of(days)(tasks)

    assert kinds(run_all_days(polling(days, poll_parts), Fixed(2), 1)) == ["OvertakenError", "RetriableError"]
    assert polled(lab) == ["2026-10-05", "2026-10-06"]


def test_rows_of_a_day_that_was_not_requested_are_the_sources_error(lab: Lab) -> None:
    reports = move(lab, MONDAY, TUESDAY, source={"stray": THURSDAY.model_dump(mode="json")})
    assert kinds(reports) == ["ConnectError", "ConnectError"]
    for report in reports:
        assert report.failure is not None
        assert "sent rows of day 2026-10-08, which its partition does not name" in report.failure.message
    assert not list(lab.stage.glob("day=*/*"))


def test_a_plan_of_another_day_is_the_sources_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    days = lab.days(source={"together": 2}, window=(MONDAY, TUESDAY))
    parts = [InputPartition(days=(MONDAY, WEDNESDAY))]
    monkeypatch.setattr(type(days.context.intake.poller), "plan", lambda poller, days: parts)
    (report, _) = run_all_days(days, Fixed(2), 1)
    assert report.failure is not None
    assert "planned day 2026-10-07, but the job requested days 2026-10-05..2026-10-06" in report.failure.message
    assert polled(lab) == []


@pytest.mark.parametrize("planned", [[], [MONDAY]])
def test_a_day_that_a_plan_of_several_forgets_is_no_empty_day(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, planned: list[Day]
) -> None:
    days = lab.days(source={"together": 2}, window=(MONDAY, TUESDAY))
    parts = [InputPartition(days=tuple(planned))] if planned else []
    monkeypatch.setattr(type(days.context.intake.poller), "plan", lambda poller, days: parts)
    reports = run_all_days(days, Fixed(2), 1)
    assert kinds(reports) == ["ConnectError", "ConnectError"]
    assert reports[1].failure is not None
    assert "2026-10-06, but the job requested days 2026-10-05..2026-10-06" in reports[1].failure.message
    assert polled(lab) == []


def test_a_single_day_without_a_partition_is_empty(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    days = lab.days(source={"together": 2}, window=(MONDAY,))
    monkeypatch.setattr(type(days.context.intake.poller), "plan", lambda poller, days: [])
    (report,) = run_all_days(days, Fixed(2), 1)
    assert (report.status, report.rows_written) == ("published", 0)


@pytest.mark.parametrize("error", ["DataError", "RetriableError"])
def test_a_partition_that_fails_fails_the_days_it_names_and_no_other_of_its_plan(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    days = lab.days(source={"together": 3, "bad": {"2026-10-06": error}}, window=WEEK[:3])
    plan_each_day_apart(days, monkeypatch)
    reports = run_all_days(days, Fixed(3), 1)
    assert statuses(reports) == ["published", "failed", "published"]
    assert kinds(reports) == [None, error, None]
    assert not list(lab.stage.glob("day=2026-10-06/*"))


def test_a_failed_day_reports_the_retries_of_its_own_partitions(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.patience.CLOCK", NoTime())
    faults = {1: ["RetriableError", "DataError"]}
    days = lab.days(source={"together": 2, "retry_budget_seconds": 60.0, "faults": faults}, window=(MONDAY, TUESDAY))
    plan_each_day_apart(days, monkeypatch)
    reports = run_all_days(days, Fixed(2), 1)
    assert [(report.status, report.retries) for report in reports] == [("published", 0), ("failed", 1)]


def test_a_day_ends_with_the_worst_failure_among_its_own_partitions(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    days = lab.days(source={"together": 3, "faults": {1: ["DataError"], 2: ["wait:9"]}}, window=WEEK[:3])
    parts = [InputPartition(days=cut, index=index) for index, cut in enumerate([WEEK[:1], WEEK[:2], WEEK[1:3]])]
    monkeypatch.setattr(type(days.context.intake.poller), "plan", lambda poller, days: parts)
    assert kinds(run_all_days(days, Fixed(3), 1)) == ["DataError", "RetriableError", "RetriableError"]


def test_after_a_config_error_of_one_partition_its_neighbours_are_published_and_no_request_is_sent(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = lab.days(source={"together": 2, "bad": {"2026-10-05": "ConfigError"}}, window=WEEK[:4])
    plan_each_day_apart(days, monkeypatch)
    assert statuses(run_all_days(days, Fixed(2), 1)) == ["failed", "published", "not_started", "not_started"]


def test_a_partition_without_an_outcome_fails_only_its_days(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    days = lab.days(source={"together": 2}, window=(MONDAY, TUESDAY))
    plan_each_day_apart(days, monkeypatch)
    first, second = run_all_days(polling(days, lambda tasks: poll_parts_of(days)(tasks[:1])), Fixed(2), 1)
    assert (first.status, second.status) == ("published", "failed")
    assert second.failure is not None
    assert "day 2026-10-06: 1 partitions were planned, but 0 answered" in second.failure.message


def test_a_tally_of_several_days_counts_each_apart() -> None:
    tally = Tally((MONDAY, TUESDAY))
    tally.for_day(MONDAY).rows += 3
    tally.for_day(TUESDAY).rows += 4
    assert (tally.for_day(MONDAY).rows, tally.for_day(TUESDAY).rows, tally.rows_of_all_days) == (3, 4, 7)
    with pytest.raises(ConnectError, match="day 2026-10-07, which its partition does not name"):
        tally.for_day(WEDNESDAY)


def test_a_tally_of_one_day_is_that_days() -> None:
    tally = Tally((MONDAY,))
    assert tally.for_day(MONDAY) is tally
    tally.rows += 3
    assert tally.rows_of_all_days == 3


LATE = {"retry_budget_seconds": 60.0, "shared": "DeadlineError"}
"""Every request for several days runs into its deadline."""


def test_days_that_run_into_a_deadline_together_are_asked_for_one_by_one(lab: Lab) -> None:
    reports = move(lab, MONDAY, TUESDAY, WEDNESDAY, together=3, source=LATE)
    assert polled(lab) == ["2026-10-05", "2026-10-05", "2026-10-06", "2026-10-07"]
    assert statuses(reports) == ["published"] * 3


def test_a_day_that_fails_alone_as_well_fails_alone(lab: Lab) -> None:
    reports = move(lab, MONDAY, TUESDAY, WEDNESDAY, together=3, source=LATE | {"bad": {"2026-10-06": "DataError"}})
    assert kinds(reports) == [None, "DataError", None]


def test_what_days_cost_alone_comes_on_top_of_what_their_group_did(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the job would take requests for spare ones that other groups need."""
    costs: list[int] = []
    dealt = RequestBudget.reserve

    def noted(self: RequestBudget, parts: Sequence[InputPartition], cost: int) -> Any:
        costs.append(cost)
        return dealt(self, parts, cost)

    monkeypatch.setattr(RequestBudget, "reserve", noted)
    days = lab.days(source=LATE | {"together": 2}, window=(MONDAY, TUESDAY, WEDNESDAY, THURSDAY))
    assert statuses(run_all_days(days, Fixed(2), 1)) == ["published"] * 4
    assert costs == [1, 0, 0, 1, 0, 0]
    assert freezer_in(days).planner.splitter.dates_to_poll_alone == tuple(day.date for day in days.job.days)


def test_without_room_for_single_days_the_rest_is_put_off(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    poll = PlanPoller.poll

    def short_of_requests(self: PlanPoller, planned: PlannedDays) -> PolledDays:
        if planned.days.days == (TUESDAY,):
            raise QuotaError("no room")
        return poll(self, planned)

    monkeypatch.setattr(PlanPoller, "poll", short_of_requests)
    reports = move(lab, MONDAY, TUESDAY, WEDNESDAY, together=3, source=LATE)
    assert statuses(reports) == ["published", "not_started", "not_started"]


def test_the_next_try_asks_for_each_day_alone_at_once(lab: Lab) -> None:
    """The first one had no time left for it."""
    source = LATE | {"retry_budget_seconds": 0.0}
    failed = move(lab, MONDAY, TUESDAY, source=source)
    assert kinds(failed) == ["DeadlineError"] * 2
    assert all("The next try splits the day into more requests" in str(report.failure) for report in failed)
    assert statuses(move(lab, MONDAY, TUESDAY, source=source)) == ["published"] * 2
    assert polled(lab) == ["2026-10-05", "2026-10-05", "2026-10-06"]
