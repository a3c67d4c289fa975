"""A day that shrank, or is out of bounds: what the driver compares it with, and what becomes of it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_provider_connect.completeness import RowBounds, Rules
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.spark.days.runner import DayRunner
from airflow_provider_connect.window import Day
from tests.equipment.spark.lab import DAY, Lab, moved


def on(day: int) -> Day:
    return Day(date=dt.date(2026, 10, day))


def filled(lab: Lab, days: range, rows: int = 100) -> None:
    window = tuple(map(on, days))
    assert {report.status for report in lab.days(source={"rows": rows}, window=window).run(window)} == {"published"}


@pytest.mark.parametrize("keeps_stage", [True, False])
def test_a_day_that_shrank_too_far_keeps_its_rows_and_the_next_try_polls_again(lab: Lab, *, keeps_stage: bool) -> None:
    lab.move(source={"rows": 1000})
    steps, polls = lab.steps, lab.polls
    for attempt in ("1", "2"):
        report = lab.move(token="bbbb", attempt=attempt, source={"rows": 499}, keeps_stage=keeps_stage, rules=Rules())
        assert report.failure is not None
        assert (report.status, report.failure.type) == ("failed", "DataError")
        assert "499 rows, and 1,000 are published" in report.failure.message
        assert not lab.manifest("bbbb-1").exists()
    assert (lab.steps, lab.polls) == (steps, polls + 2)
    assert lab.ledger.row(DAY.date).generation == 1


def test_a_day_that_shrank_within_the_limit_is_an_answer(lab: Lab) -> None:
    lab.move(source={"rows": 1000})
    report = lab.move(token="bbbb", source={"rows": 500}, rules=Rules())
    assert (report.status, report.warnings) == ("published", ())


def test_warn_publishes_and_says_so_in_the_report(lab: Lab) -> None:
    lab.move(source={"rows": 1000})
    report = lab.move(token="bbbb", source={"rows": 10}, rules=Rules(on_shrink="warn"))
    assert (report.status, report.generation) == ("published", 2)
    (warning,) = report.warnings
    assert "10 rows, and 1,000 are published" in warning


def test_a_sink_in_which_nothing_is_replaced_is_not_compared(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.move(source={"rows": 1000})
    days = lab.days(token="bbbb", source={"rows": 1}, rules=Rules())
    monkeypatch.setattr(type(days.context.outlet.sink), "replaces", lambda sink, kind: False)
    assert moved(days).status == "published"


def snapshots(days: DayRunner, monkeypatch: pytest.MonkeyPatch) -> DayRunner:
    monkeypatch.setattr(type(days.context.intake.source), "kind", property(lambda source: "snapshot"))
    return days


def test_the_first_snapshot_of_a_day_is_compared_with_the_one_before(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(lab, range(1, 4), rows=100)
    filled(lab, range(7, 8), rows=1)
    report = moved(snapshots(lab.days(token="bbbb", source={"rows": 40}, rules=Rules()), monkeypatch))
    assert report.failure is not None
    assert "100 are published of 2026-10-03" in report.failure.message
    assert (
        moved(snapshots(lab.days(token="cccc", source={"rows": 60}, rules=Rules()), monkeypatch)).status == "published"
    )


def test_days_of_events_are_not_compared_with_each_other_without_bounds(lab: Lab) -> None:
    filled(lab, range(1, 5), rows=100)
    assert lab.move(token="bbbb", source={"rows": 1}, rules=Rules()).warnings == ()


@pytest.mark.parametrize(
    ("rows", "said"), [(49, "51 % fewer"), (151, "51 % more"), (50, None), (150, None), (0, "100 % fewer")]
)
def test_a_day_out_of_bounds_fails(lab: Lab, rows: int, said: str | None) -> None:
    filled(lab, range(1, 5))
    report = bounded(lab, RowBounds(), rows)
    if said is None:
        assert (report.status, report.warnings) == ("published", ())
    else:
        assert report.failure is not None
        assert report.failure.type == "DataError"
        assert f"{said} than the mean 100 of the 4 days" in report.failure.message


def test_bounds_that_only_warn_publish(lab: Lab) -> None:
    filled(lab, range(1, 5))
    report = bounded(lab, RowBounds(on="warn"), 1)
    assert report.status == "published"
    assert "99 % fewer" in report.warnings[0]


def test_without_enough_days_there_is_no_bound_and_the_report_says_so(lab: Lab) -> None:
    filled(lab, range(2, 5))
    report = bounded(lab, RowBounds(), 1)
    assert report.status == "published"
    assert "the ledger has rows of 3 of the 7 days before, and 4 are needed" in report.warnings[0]


def bounded(lab: Lab, bounds: RowBounds, rows: int, **options: Any) -> DayReport:
    return lab.move(token="bbbb", source={"rows": rows}, rules=Rules(row_bounds=bounds), **options)
