"""What a job's report must show, and the ledger confirm, before a task is green."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.job import DayReport, JobConfig, JobReport
from airflow_provider_connect.operators.job_outcome import format_days, verify_report
from airflow_provider_connect.sink import Intent, LedgerRow
from airflow_provider_connect.window import Day, SourceKind
from tests.equipment.airflow.connectors import TinyLedger

DATE, LATER = dt.date(2026, 10, 5), dt.date(2026, 10, 6)
DAY = Day(date=DATE, zone="UTC")


def config(*dates: dt.date) -> JobConfig:
    return JobConfig(
        source_name="tiny",
        source={},
        sink_name="tiny",
        sink={},
        days=tuple(Day(date=date, zone="UTC") for date in dates or (DATE,)),
        intent=Intent(token="t", run="dag/run/task"),
        attempt="a",
        report="/report",
    )


def reported(status: Any, **fields: Any) -> JobReport:
    return JobReport.from_days("a", [DayReport.for_day(DAY, status, **fields)])


def test_a_superseded_day_that_was_never_published_is_no_failure(ledger: TinyLedger) -> None:
    ledger.append(LATER)
    verify_report(reported("superseded"), config(), ledger)
    assert ledger.row(DATE) is None


def test_a_superseded_day_that_has_a_generation_is_no_failure(ledger: TinyLedger) -> None:
    ledger.append(DATE, 3)
    ledger.append(LATER)
    verify_report(reported("superseded", generation=3), config(), ledger)


def test_a_day_of_the_lookback_must_be_reported_and_may_be_overtaken(ledger: TinyLedger) -> None:
    ledger.append(DATE)
    ledger.append(LATER)
    both = config(LATER).model_copy(update={"lookback": (DAY,)})
    later = DayReport.for_day(Day(date=LATER), "published", generation=1)
    verify_report(JobReport.from_days("a", [later, DayReport.for_day(DAY, "overtaken", lookback=True)]), both, ledger)
    with pytest.raises(RetriableError, match=r"did not report.*2026-10-05"):
        verify_report(JobReport.from_days("a", [later]), both, ledger)


def test_an_unchanged_day_is_settled_and_marked_in_the_table(ledger: TinyLedger) -> None:
    ledger.append(DATE)
    ledger.append(LATER)
    later = DayReport.for_day(Day(date=LATER), "published", generation=1)
    report = JobReport.from_days("a", [later, DayReport.for_day(DAY, "unchanged", lookback=True, generation=1)])
    verify_report(report, config(LATER).model_copy(update={"lookback": (DAY,)}), ledger)
    assert "unchanged (lookback)" in format_days(report)
    assert report.summary()["days"][1]["status"] == "unchanged"


@pytest.mark.parametrize("published", [None, DATE, DATE - dt.timedelta(days=1)], ids=["nothing", "itself", "earlier"])
def test_a_superseded_day_needs_a_later_one_in_the_ledger(ledger: TinyLedger, published: dt.date | None) -> None:
    if published is not None:
        ledger.append(published)
    with pytest.raises(RetriableError, match=r"superseded.*no later day.*2026-10-05"):
        verify_report(reported("superseded"), config(), ledger)


@pytest.mark.parametrize("generations", [(), (1,)], ids=["no row", "an older generation"])
@pytest.mark.parametrize("status", ["published", "already_published", "unchanged"])
def test_a_published_day_must_stand_in_the_ledger(ledger: TinyLedger, status: str, generations: tuple[int]) -> None:
    for generation in generations:
        ledger.append(DATE, generation)
    with pytest.raises(RetriableError, match=r"ledger does not have.*2026-10-05"):
        verify_report(reported(status, generation=2), config(), ledger)


class LedgerWithALongHistory(TinyLedger):
    """A ledger whose rows are told in full by its history alone, as Delta's: every one takes a read of it all."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.histories_read = 0

    def row(self, day: dt.date) -> LedgerRow | None:
        self.histories_read += 1
        return super().row(day)

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the day's newest; of a snapshot, the stream's, which may be another day's."""
        return super().row(day) if kind == "day" else self.rows()[-1]


def test_verification_of_many_days_reads_each_day_and_no_history(tmp_path: Path) -> None:
    ledger = LedgerWithALongHistory(tmp_path / "ledger")
    dates = [DATE + dt.timedelta(days=i) for i in range(30)]
    for i, date in enumerate(dates):
        ledger.append(date, 30 - i)
    days = [
        DayReport.for_day(Day(date=date, zone="UTC"), "published", generation=30 - i) for i, date in enumerate(dates)
    ]
    verify_report(JobReport.from_days("a", days), config(*dates), ledger)
    assert ledger.histories_read == 0
