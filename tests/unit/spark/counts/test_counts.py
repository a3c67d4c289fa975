"""The vendor's own count of a day: when the driver asks for it, and what becomes of a day that disagrees."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider_connect.capabilities import source as capabilities
from airflow_provider_connect.capabilities.poller import CountsRows
from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError, RetriableError
from airflow_provider_connect.job import Allowance, DayReport
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.spark.capabilities.counts import DayCounter
from airflow_provider_connect.spark.count_budget import CountBudget
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.clock import NoTime
from tests.equipment.spark.lab import DAY, Lab, rewired

REQUESTS = 2  # for one count


class Vendor(capabilities.Counts, CountsRows):
    """Answers counts in turn, the last one for ever: a number, or an error to raise."""

    counts_first = False  # type: ignore[assignment]

    def capability(self, kind: type) -> Any:
        return self

    def __init__(self, *answers: int | VendorCount | ConnectError) -> None:
        self.answers = list(answers)
        self.asked: list[Day] = []

    def requests_to_count(self, days: Sequence[Day]) -> int:
        return REQUESTS * len(days)

    def count(self, day: Day, tally: Tally) -> VendorCount:
        self.asked.append(day)
        for _ in range(REQUESTS):
            tally.request()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ConnectError):
            raise answer
        return VendorCount(answer) if isinstance(answer, int) else answer


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> NoTime:
    clock = NoTime()
    for module in ("capabilities.counts", "count_budget"):
        monkeypatch.setattr(f"airflow_provider_connect.spark.{module}.CLOCK", clock)
    return clock


def counts(vendor: Vendor, mode: Any = "fail", percent: float = 1, budget: CountBudget | None = None) -> DayCounter:
    rules = Rules(on_shrink="accept", reconcile=mode, reconcile_percent=percent)
    return DayCounter(vendor, vendor, rules, budget)  # type: ignore[arg-type]


def allowance(requests: int, **more: Any) -> Allowance:
    return Allowance(requests=requests, **{"until": time.time() + 600} | more)


def moved(lab: Lab, given: DayCounter, token: str = "aaaa", attempt: str = "1", rows: int = 100) -> DayReport:
    days = lab.days(token=token, attempt=attempt, source={"rows": rows})
    days = rewired(days, counts=given)
    (report,) = days.run([DAY])
    return report


@pytest.mark.parametrize(("count", "said"), [
    (100, None), (101, None), (102, "1.961 % fewer"), (99, "1.01 % more"), (0, "more"), (10_000, "99 % fewer"),
])  # fmt: skip
def test_a_day_that_disagrees_is_not_published(lab: Lab, count: int, said: str | None) -> None:
    report = moved(lab, counts(Vendor(count)))
    if said is None:
        assert (report.status, report.warnings) == ("published", ())
        return
    assert report.failure is not None
    assert (report.status, report.failure.type) == ("failed", "DataError")
    assert f"answered with 100 rows, and counts {count:,} itself: {said}" in report.failure.message
    assert "reconcile_percent allows 1 %" in report.failure.message
    assert not lab.manifest().exists(), "the next try asks the source again"
    assert lab.ledger.row(DAY.date) is None


def test_with_warn_a_day_that_disagrees_is_published_and_the_report_warns(lab: Lab) -> None:
    report = moved(lab, counts(Vendor(200), "warn"))
    assert report.status == "published"
    (warning,) = report.warnings
    assert "100 rows, and counts 200 itself: 50 % fewer" in warning


def test_a_count_that_is_the_least_there_is_only_refuses_less(lab: Lab) -> None:
    assert moved(lab, counts(Vendor(VendorCount(10, is_least=True)))).status == "published"
    assert moved(lab, counts(Vendor(VendorCount(200, is_least=True))), "bbbb").status == "failed"


def test_a_count_that_is_the_most_there_is_is_compared_where_somebody_asks_for_it(lab: Lab) -> None:
    vendor = Vendor(VendorCount(103, is_most=True))
    report = moved(lab, counts(vendor))
    assert report.failure is not None
    assert "such as deleted ones" in report.failure.message
    assert moved(lab, counts(vendor, percent=5), "bbbb").status == "published"
    assert moved(lab, counts(Vendor(VendorCount(90, is_most=True)), percent=5), "cccc").status == "failed"
    vendor.counts_first = True
    first = counts(vendor, "off")
    first.count_before_plan(DAY)
    assert first.compare(DAY, 1) is None, "the plan needed it; nobody asked to compare"


def test_an_answer_that_changed_nothing_and_a_lookback_day_are_compared_too(lab: Lab) -> None:
    assert moved(lab, counts(Vendor(100))).status == "published"
    assert moved(lab, counts(Vendor(200)), "bbbb").status == "failed"
    vendor, before = Vendor(50), Day(date=DAY.date - ONE_DAY)
    days = lab.days(token="cccc", source={"rows": 100}, lookback=(before,))
    reports = rewired(days, counts=counts(vendor)).run([DAY, before])
    assert [(report.status, report.lookback) for report in reports] == [("failed", False), ("failed", True)]
    assert vendor.asked == [DAY, before]


@pytest.mark.parametrize("mode", ["fail", "warn"])
def test_a_lookback_day_that_did_not_change_is_compared_too(lab: Lab, mode: str) -> None:
    moved(lab, counts(Vendor(100)))
    days = lab.days(token="bbbb", window=(), lookback=(DAY,), source={"rows": 100})
    (report,) = rewired(days, counts=counts(Vendor(200), mode)).run([DAY])
    text = report.failure.message if report.failure is not None else report.warnings[0]
    assert report.status == ("failed" if mode == "fail" else "unchanged")
    assert "answered with 100 rows, and counts 200 itself" in text


def test_the_vendor_counts_those_whom_an_erase_leaves_out(lab: Lab) -> None:
    erased = EraseList().with_values("n", [str(n) for n in range(40)])
    (lab.root / "erased").write_text(erased.model_dump_json())
    report = moved(lab, counts(Vendor(100)))
    assert (report.status, report.rows_written) == ("published", 60)
    report = moved(lab, counts(Vendor(60)), "bbbb")
    assert report.failure is not None
    assert "answered with 100 rows, and counts 60 itself" in report.failure.message


def test_the_tolerance_is_the_operators(lab: Lab) -> None:
    assert moved(lab, counts(Vendor(200), percent=50)).status == "published"
    assert moved(lab, counts(Vendor(201), percent=50), "bbbb").status == "failed"


def test_no_count_is_requested_for_days_that_are_published_or_not_compared(lab: Lab) -> None:
    vendor = Vendor(1)
    assert moved(lab, counts(vendor, "off")).status == "published"
    assert moved(lab, counts(vendor), attempt="2").status == "already_published"
    assert vendor.asked == []


def test_a_day_that_a_plan_counted_is_not_counted_again_and_is_compared_in_any_mode(lab: Lab) -> None:
    vendor = Vendor(100)
    vendor.counts_first = True
    assert moved(lab, counts(vendor, "off")).status == "published"
    assert len(vendor.asked) == 1
    vendor.answers = [50]
    assert moved(lab, counts(vendor, "off"), "bbbb").status == "failed"
    assert moved(lab, counts(vendor, "warn"), "cccc").warnings


def test_a_day_that_cannot_be_counted_first_is_not_polled(lab: Lab) -> None:
    vendor = Vendor(ConfigError("402"))
    vendor.counts_first = True
    report = moved(lab, counts(vendor, "warn"))
    assert report.failure is not None
    assert report.failure.type == "ConfigError"
    assert lab.polls == 0


@pytest.mark.parametrize("error", [ConfigError("no plan"), RetriableError("away")], ids=str)
def test_without_a_count_fail_keeps_the_answer_for_the_next_try_and_warn_publishes(
    lab: Lab, error: ConnectError
) -> None:
    report = moved(lab, counts(Vendor(error)))
    assert report.failure is not None
    assert report.failure.type == type(error).__name__
    assert str(error) in report.failure.message
    polls = lab.polls
    assert moved(lab, counts(Vendor(100)), attempt="2").status == "published"
    assert lab.polls == polls, "what was polled is still good"
    report = moved(lab, counts(Vendor(error), "warn"), "bbbb")
    assert report.status == "published"
    assert f"{error}" in report.warnings[0]
    assert "nothing was compared" in report.warnings[0]


def test_a_gate_is_asked_once_a_job() -> None:
    vendor = Vendor(ConfigError("no plan"))
    given = counts(vendor, "warn")
    for _ in range(3):
        assert given.compare(DAY, 1) is not None
    assert len(vendor.asked) == 1


def test_a_passing_trouble_is_asked_again_within_the_budget(no_wait: NoTime) -> None:
    budget = CountBudget(allowance(3 * REQUESTS))
    vendor = Vendor(RetriableError("away"), RetriableError("away"), 100)
    assert counts(vendor, budget=budget).compare(DAY, 100) is None
    assert len(budget.sent_at) == 3 * REQUESTS
    assert no_wait.now() > 0


def test_a_vendor_that_asks_for_time_is_left_alone() -> None:
    vendor = Vendor(RetriableError("busy", retry_after_seconds=60), 100)
    with pytest.raises(RetriableError, match="busy"):
        counts(vendor).compare(DAY, 100)
    assert len(vendor.asked) == 1


@pytest.mark.parametrize("mode", ["warn", "fail"])
def test_a_count_is_never_begun_without_the_requests_it_may_take(lab: Lab, mode: str) -> None:
    vendor, budget = Vendor(100), CountBudget(allowance(2 * REQUESTS - 1))
    given = counts(vendor, mode, budget=budget)
    assert moved(lab, given).status == "published"
    report = moved(lab, given, "bbbb")
    assert report.failure is not None
    assert (report.status, report.failure.type) == ("not_started", "QuotaError")
    assert f"may send {REQUESTS - 1} more of its 3 requests" in report.failure.message
    assert len(budget.sent_at) == REQUESTS == len(budget.report_fields()["counted"])
    polls = lab.polls
    assert moved(lab, counts(Vendor(100)), "bbbb", "2").status == "published"
    assert lab.polls == polls


def test_a_reservation_that_lapsed_sends_nothing() -> None:
    vendor = Vendor(100)
    with pytest.raises(QuotaError, match="expired"):
        counts(vendor, budget=CountBudget(allowance(9, until=time.time() - 1))).compare(DAY, 100)
    assert vendor.asked == []


def test_the_vendors_quota_of_counts_is_kept_apart_from_that_of_polls() -> None:
    budget = CountBudget(allowance(9))
    with pytest.raises(QuotaError) as caught:
        counts(Vendor(QuotaError("full", said=(61, 60, 5.0))), "warn", budget=budget).compare(DAY, 100)
    assert caught.value.said is None
    assert budget.report_fields()["count_said"] == (61, 60, 5.0)


def test_requests_for_counts_keep_to_the_pace(no_wait: NoTime) -> None:
    counts(Vendor(100), budget=CountBudget(allowance(9, per_second=2))).compare(DAY, 100)
    assert no_wait.now() == pytest.approx(REQUESTS / 2)
