"""A day without rows: a first load takes it, a day that has rows does not, unless the operator accepts it."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.window import Day
from tests.equipment.spark.lab import DAY, Lab, moved

NOTHING = {"rows": 0}
NOBODY = ({"filter": {"where": {"column": "n", "operator": "less_than", "value": 0}}},)


def test_a_first_load_may_be_empty_and_so_may_the_next(lab: Lab) -> None:
    assert [lab.move(token=token, source=NOTHING).status for token in ("aaaa", "bbbb")] == ["published", "published"]


def test_an_empty_publish_is_warned_of_until_the_stream_has_a_row(lab: Lab) -> None:
    """A wrong filter, or a missing right, looks like this: green for weeks, and nothing in the table."""
    first = lab.move(token="aaaa", source=NOTHING)
    (warning,) = first.warnings
    assert (first.status, "day 2026-10-05: the source answered without a row" in warning) == ("published", True)
    assert "no published day of this stream has a row" in warning
    assert "on_empty='never'" in warning
    other = Day(date=dt.date(2026, 10, 6))
    (empty,) = lab.days(token="bbbb", source=NOTHING, window=(other,)).run([other])
    assert len(empty.warnings) == 1
    (loaded,) = lab.days(token="cccc", window=(other,)).run([other])
    assert (loaded.rows_written, loaded.warnings) == (3, ())
    assert lab.move(token="dddd", source=NOTHING).warnings == ()


def test_what_shapes_leave_nothing_of_is_warned_of_too(lab: Lab) -> None:
    report = lab.move(shape=NOBODY)
    assert (report.status, report.rows_written) == ("published", 0)
    (warning,) = report.warnings
    assert "the source answered with 3 rows, and shapes left all of them out" in warning


def test_never_refuses_every_answer_without_a_row(lab: Lab) -> None:
    report = lab.move(source=NOTHING, on_empty="never")
    assert report.failure is not None
    assert (report.status, report.failure.type) == ("failed", "DataError")
    assert "day 2026-10-05: the source answered without a row" in report.failure.message
    assert "on_empty='fail'" in report.failure.message
    assert list(lab.ledger.days()) == []
    assert lab.move(token="bbbb", on_empty="never").status == "published"
    report = lab.move(token="cccc", source=NOTHING, on_empty="never")
    assert report.failure is not None
    assert "would delete the 3 published rows of 2026-10-05" in report.failure.message


def test_never_takes_rows_that_shapes_leave_out_for_an_answer(lab: Lab) -> None:
    assert lab.move(on_empty="never", shape=NOBODY).status == "published"


@pytest.mark.parametrize("keeps_stage", [True, False])
def test_an_empty_answer_does_not_replace_a_day_that_has_rows(lab: Lab, *, keeps_stage: bool) -> None:
    lab.move(source={"rows": 1234})
    steps = lab.steps
    report = lab.move(token="bbbb", source=NOTHING, keeps_stage=keeps_stage)
    assert report.failure is not None
    assert (report.status, report.failure.type) == ("failed", "DataError")
    assert (
        "answered without a row, and would delete the 1,234 published rows of 2026-10-05 (generation 1)"
        in report.failure.message
    )
    assert "on_empty='accept'" in report.failure.message
    assert lab.steps == steps, "a publish was begun"
    assert lab.ledger.row(DAY.date).generation == 1
    assert not lab.manifest("bbbb-1").exists()


@pytest.mark.parametrize("keeps_stage", [True, False])
def test_the_next_try_asks_the_source_again_after_an_empty_answer(lab: Lab, *, keeps_stage: bool) -> None:
    lab.move()
    assert lab.move(token="bbbb", source=NOTHING, keeps_stage=keeps_stage).status == "failed"
    polls = lab.polls
    assert lab.move(token="bbbb", attempt="2", source=NOTHING, keeps_stage=keeps_stage).status == "failed"
    assert lab.polls == polls + 1


def test_where_nothing_would_be_gone_an_empty_answer_is_an_answer(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.move()
    days = lab.days(token="bbbb", source=NOTHING)
    monkeypatch.setattr(type(days.context.outlet.sink), "replaces", lambda sink, kind: False)
    assert moved(days).status == "published"


def test_an_answer_of_rejects_alone_is_an_empty_one(lab: Lab) -> None:
    lab.move()
    report = lab.move(token="bbbb", source=NOTHING | {"rejects": 2})
    assert report.failure is not None
    assert report.failure.type == "DataError"
    assert (
        "with 2 rows, none of which can be published, and would delete the 3 published rows of 2026-10-05"
        in report.failure.message
    )


def test_an_empty_answer_that_is_accepted_replaces_the_day(lab: Lab) -> None:
    lab.move()
    report = lab.move(token="bbbb", source=NOTHING, on_empty="accept")
    assert (report.status, report.generation, report.rows_written) == ("published", 2, 0)
    assert lab.move(token="cccc", source=NOTHING).status == "published", "the day has no rows any more"
