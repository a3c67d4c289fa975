"""How many days go together is decided before each plan, from what is known of days by then."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.capabilities.poller import SeveralDaysARequest, Sizes, Together
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.registry import requests_for
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark.capabilities.grouping import DayGrouping, DayQueue
from airflow_provider_connect.spark.days.parallel import run_all_days
from airflow_provider_connect.window import Day, days_between
from tests.equipment.spark.lab import Fixed

DAYS = days_between(dt.date(2026, 10, 1), dt.date(2026, 10, 20), "UTC")


class Choosy(SeveralDaysARequest):
    """A poller that takes as many days as fit into 100 bytes."""

    def __init__(self, most: int = 5) -> None:
        self.days_per_plan = most
        self.told: list[list[int]] = []

    def days_together(self, wanted: Sequence[Day], sizes: Sizes) -> Together:
        known = list(sizes())
        self.told.append(known)
        return Together(100 // max(known) if known else 1, f"{len(wanted)} are wanted")


class Books:
    """A ledger whose rows have a size, or tell it only when they are asked for alone."""

    def __init__(self, sizes: dict[int, int] | None = None, *, tells: bool = True) -> None:
        self.sizes, self.tells, self.asked = sizes or {}, tells, 0

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        self.asked += 1
        found = [self.row(day) for day in (first + dt.timedelta(days=i) for i in range((last - first).days + 1))]
        return [row if self.tells else row.model_copy(update={"counts": {}}) for row in found if row is not None]

    def row(self, date: dt.date) -> LedgerRow | None:
        number = (date - DAYS[0].date).days
        if number not in self.sizes:
            return None
        counts = {"raw_bytes": self.sizes[number]}
        return LedgerRow(day=date, generation=1, token="t", run="d/r/t", rows=1, counts=counts)


def move(poller: Choosy, ledger: Any, size_of: Any = lambda day: 40, days: Sequence[Day] = DAYS) -> list[int]:
    """Move days, one group after the other; return how many each group had."""
    groups: list[int] = []

    def moved(group: Sequence[Day]) -> list[DayReport]:
        groups.append(len(group))
        return [DayReport.for_day(day, "published", raw_bytes=size_of(day)) for day in group]

    mover: Any = SimpleNamespace(job=SimpleNamespace(all_days=tuple(days), lookback=()), run=moved)
    made: Any = poller
    reports = run_all_days(mover, DayGrouping(made, days, ledger), 1)
    assert [report.day for report in reports] == [day.date for day in days]
    return groups


def test_without_a_ledger_the_first_day_tells() -> None:
    assert move(Choosy(), Books()) == [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]


@pytest.mark.parametrize("tells", [True, False])
def test_the_ledger_tells_of_days_around_the_first(tells: bool) -> None:
    ledger = Books({-1: 30, -2: 20, 3: 10}, tells=tells)
    poller = Choosy()
    assert move(poller, ledger)[0] == 3
    assert sorted(poller.told[0]) == [10, 20, 30]
    assert ledger.asked == 1


def test_a_day_that_an_erase_wrote_anew_tells_no_size() -> None:
    poller = Choosy()
    assert move(poller, Books({-2: 20, -1: 0}))[0] == 5
    assert poller.told[0] == [20]


def test_larger_days_on_the_way_make_smaller_groups() -> None:
    assert move(Choosy(), Books({-1: 20}), lambda day: 20 if day.date.day < 10 else 50) == [5, 5, 2, 2, 2, 2, 2]


def test_the_seven_nearest_days_tell() -> None:
    poller = Choosy()
    move(poller, Books(), lambda day: 100 + day.date.day)
    assert poller.told[2] == [102, 101]
    assert poller.told[-1] == [119, 118, 117, 116, 115, 114, 113]


def test_a_ledger_that_cannot_be_read_fails_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    ledger: Any = SimpleNamespace(between=lambda *_: (_ for _ in ()).throw(RetriableError("the store is away")))
    assert move(Choosy(), ledger)[:2] == [1, 2]
    assert "the sizes of earlier days are not known: the store is away" in capsys.readouterr().err


def test_nobody_asks_for_a_source_that_takes_one_day_at_a_time() -> None:
    poller, ledger = Choosy(1), Books()
    assert move(poller, ledger) == [1] * 20
    assert (poller.told, ledger.asked) == ([], 0)


def test_never_more_than_the_poller_may_take() -> None:
    assert max(move(Choosy(4), Books({-1: 1}), lambda day: 1)) == 4


def test_the_log_says_what_was_chosen_and_why_once(capsys: pytest.CaptureFixture[str]) -> None:
    move(Choosy(), Books())
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "in one request" in line] == [
        "connect: from day 2026-10-01 on: 1 day in one request; 20 are wanted",
        "connect: from day 2026-10-02 on: 2 days in one request; 20 are wanted",
    ]
    move(Choosy(), Books(), days=DAYS[:1])
    assert capsys.readouterr().err == "", "a single day is no question"


def test_a_day_whose_size_the_ledger_has_forgotten_tells_nothing() -> None:
    grouping = DayGrouping(Choosy(), DAYS, Books())  # type: ignore[arg-type]
    grouping.note_sizes(
        [DayReport.for_day(DAYS[0], "already_published"), DayReport.for_day(DAYS[1], "failed", raw_bytes=9)]
    )
    assert grouping.group_size(DAYS[2]) == 1
    grouping.note_sizes([DayReport.for_day(DAYS[0], "already_published", raw_bytes=25)])
    assert grouping.group_size(DAYS[2]) == 4


def test_days_that_are_asked_for_alone_cut_a_group_and_cost_what_the_others_leave() -> None:
    """What the task reserves by, and how the job groups days, is one rule."""
    alone = [DAYS[at].date for at in (0, 3, 4)]
    grouping = DayGrouping(Choosy(7), DAYS, Books({0: 1}), alone)  # type: ignore[arg-type]
    left, groups = DayQueue(DAYS, grouping), []
    while group := left.take_group():
        groups.append([DAYS.index(day) for day in group])
    assert groups == [[0], [1, 2], [3], [4], [*range(5, 12)], [*range(12, 19)], [19]]
    source = MixpanelSource(conn_id="m", days_per_request=7, zone="UTC")
    assert (requests_for(source, DAYS, alone), requests_for(source, DAYS)) == (len(groups), 3)
    assert requests_for(source, DAYS[3:5], alone) == 2


def test_an_error_in_one_thread_ends_the_others_and_is_raised() -> None:
    began: list[Day] = []

    def moved(group: Sequence[Day]) -> list[DayReport]:
        began.extend(group)
        raise ConfigError("a defect")

    mover: Any = SimpleNamespace(job=SimpleNamespace(all_days=tuple(DAYS), lookback=()), run=moved)
    with pytest.raises(ConfigError, match="a defect"):
        run_all_days(mover, Fixed(2), 2)
    assert len(began) <= 4
