"""A job never sends more than it may: the driver deals its allowance out, and executors keep to their hand."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import Failure, QuotaError, RetriableError, worst_failure
from airflow_provider_connect.job import Allowance, DayReport, JobReport
from airflow_provider_connect.source import InputPartition, PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark.capabilities.allowance import RequestBudget
from airflow_provider_connect.spark.poll import PollOutcome, PollTask, stage_partition
from airflow_provider_connect.window import Day, days_between
from tests.equipment.clock import NoTime
from tests.standins.mixpanel.access import Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

DAYS = days_between(dt.date(2026, 10, 1), dt.date(2026, 10, 8), "UTC")


def allowance(requests: int, **fields: Any) -> Allowance:
    return Allowance(requests=requests, **({"until": time.time() + 60} | fields))


def part(day: Day) -> InputPartition:
    return InputPartition(days=(day,))


def deal(dealer: RequestBudget, day: Day, *sent: float, failure: Failure | None = None) -> int:
    """Let a day send; return how many requests it might have sent."""
    with dealer.reserve([part(day)], 1) as hand:
        most = hand.limits(part(day))["requests"]
        hand.outcomes = [PollOutcome(sent=sent, failure=failure)]
    return int(most)


def test_days_get_what_they_cost_and_the_first_what_is_to_spare() -> None:
    dealer = RequestBudget(allowance(5))
    dealer.expect(3, max_requests_each=5)
    assert deal(dealer, DAYS[0], 1.0) == 3
    assert deal(dealer, DAYS[1], 2.0, 3.0) == 3, "the first gave the spare ones back"
    assert deal(dealer, DAYS[2], 4.0) == 2
    assert dealer.report_fields()["sent"] == (1.0, 2.0, 3.0, 4.0)


def test_a_day_that_the_vendor_refused_half_way_says_how_far_it_came_and_has_failed_in_nothing() -> None:
    dealer = RequestBudget(allowance(2))
    parts = [InputPartition(days=(DAYS[0],), index=index) for index in range(2)]
    with dealer.reserve(parts, 2) as hand:
        refused = Failure.from_error(QuotaError("no more", said=(0, 9, 60.0), needs=4))
        hand.outcomes = [PollOutcome(sent=(1.0, 2.0, 3.0, 4.0), failure=refused), PollOutcome(sent=(1.0, 2.0))]
    assert dealer.report_fields()["ran_out"] == {DAYS[0].date: 6}
    assert dealer.report_fields()["failed"] == {}
    with pytest.raises(QuotaError, match="may send 0 more of its 2"):
        deal(dealer, DAYS[1])


def test_the_parts_of_a_large_day_take_nothing_from_what_other_days_need() -> None:
    dealer = RequestBudget(allowance(10))
    dealer.expect(4, max_requests_each=5)
    parts = [InputPartition(days=(DAYS[0],), index=index) for index in range(6)]
    with dealer.reserve(parts, 1) as hand:
        assert hand.total == 7, "three days are to come"
        assert [deal(dealer, day, 1.0) for day in DAYS[1:4]] == [1, 1, 1]
        hand.outcomes = []


def test_no_further_day_begins_once_the_allowance_is_spent() -> None:
    dealer = RequestBudget(allowance(2))
    dealer.expect(8, max_requests_each=5)
    for day in DAYS[:2]:
        assert deal(dealer, day, 1.0) == 1
    with pytest.raises(QuotaError, match="0 more of its 2"):
        deal(dealer, DAYS[2])


def test_no_day_begins_after_the_reservation_has_expired() -> None:
    dealer = RequestBudget(allowance(9, until=time.time() - 1))
    with pytest.raises(QuotaError, match="expired"):
        deal(dealer, DAYS[0])


def test_what_a_lost_task_may_have_sent_counts_as_sent() -> None:
    dealer = RequestBudget(allowance(4))
    dealer.expect(1, max_requests_each=3)
    with pytest.raises(RetriableError), dealer.reserve([part(DAYS[0])], 1):
        raise RetriableError("Spark lost a task")
    assert dealer.report_fields() == {"sent": (), "lost": 3, "failed": {}}


def test_requests_in_vain_are_remembered_but_not_those_that_the_quota_refused() -> None:
    dealer = RequestBudget(allowance(9, failed={DAYS[0].date: 1}))
    deal(dealer, DAYS[0], 1.0, 2.0, failure=Failure(type="RetriableError", message=""))
    deal(dealer, DAYS[1], 3.0, failure=Failure(type="QuotaError", message="", said=(61, 60, 0.0)))
    assert dealer.report_fields()["failed"] == {DAYS[0].date: 3, DAYS[1].date: 0}


def test_without_a_quota_nothing_is_limited() -> None:
    dealer = RequestBudget()
    with dealer.reserve([part(DAYS[0])], 1) as hand:
        assert hand.limits(part(DAYS[0])) == {}
    assert dealer.report_fields() == {}
    assert dealer.max_days > 1000


def test_a_job_spreads_its_requests_over_the_seconds() -> None:
    dealer = RequestBudget(allowance(9, per_second=20))
    began = time.monotonic()
    for day in DAYS[:5]:
        deal(dealer, day, 1.0)
    assert time.monotonic() - began >= 4 / 20


def freeze_with(server: StandIn, stage: Path, **limits: Any) -> tuple[Any, list[float]]:
    account = server.account
    extra = {"project_id": account.project_id}
    connection = Connection(conn_id="m", host=server.url, login=account.username, password=account.secret, extra=extra)
    source = MixpanelSource()
    with source.open(connection, PollContext()) as poller:
        (planned,) = poller.plan(DAYS[:1])
        task = PollTask(
            source_name="mixpanel",
            source=source.serialize(),
            part=planned,
            root=str(stage),
            attempts=("a-1",),
            progress_seconds=1,
            **({"until": time.time() + 60} | limits),
        )
        sent: list[float] = []
        try:
            return stage_partition(task, poller.schema(), connection, sent_at=sent, clock=NoTime()), sent
        except RetriableError as error:
            return error, sent


def test_an_executor_sends_what_it_was_dealt_and_no_more(tmp_path: Path) -> None:
    with StandIn(Project(events_per_day=5)) as server:
        server.faults.replace([Fault("status", status=500, times=None)])
        error, sent = freeze_with(server, tmp_path, requests=2)
        assert isinstance(error, QuotaError)
        assert len(sent) == 2
        error, sent = freeze_with(server, tmp_path, requests=9, until=time.time() - 1)
        assert isinstance(error, QuotaError)
        assert sent == []
        error, sent = freeze_with(server, tmp_path, requests=9, failed=3)
        assert "with 5 of retry_budget_requests=5" in str(error), "the budget is one for all jobs of a try"
        assert not isinstance(error, QuotaError)
        assert len(sent) == 2


def test_the_vendors_counters_reach_the_driver(tmp_path: Path) -> None:
    with StandIn(Project(events_per_day=5), limits=Limits(queries_per_hour=1, hour_seconds=600)) as server:
        polled, sent = freeze_with(server, tmp_path, requests=5)
        assert polled[DAYS[0].date].rows_written == 5
        assert abs(sent[0] - time.time()) < 30
        error, sent = freeze_with(server, tmp_path, requests=5)
    assert isinstance(error, QuotaError)
    assert error.said == (2, 1, 0.0)
    assert len(sent) == 1, "no use to ask again: the task waits"
    again = Failure.model_validate_json(Failure.from_error(error).model_dump_json()).error()
    assert isinstance(again, QuotaError)
    assert again.said == (2, 1, 0.0)


def test_want_of_requests_decides_only_if_nothing_worse_happened() -> None:
    wanting = Failure(type="QuotaError", message="")
    bad, wrong = Failure(type="DataError", message=""), Failure(type="ConfigError", message="")
    failed = Failure(type="RetriableError", message="")
    assert worst_failure([bad, wanting]) == wanting
    assert worst_failure([wanting, failed]) == failed
    assert worst_failure([wanting, wrong]) == wrong
    reports = [DayReport.for_day(DAYS[0], "published"), DayReport.for_day(DAYS[1], "not_started", failure=wanting)]
    assert JobReport.from_days("a", reports).exit_code == 75
