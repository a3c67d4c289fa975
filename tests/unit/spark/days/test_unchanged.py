"""Days of a lookback whose answer is the published one: confirmed, not published again."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.capabilities.publisher import StagesByExecutors
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.job import DayReport, JobReport
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher
from airflow_provider_connect.spark import context as digests
from airflow_provider_connect.spark.attempts import EarlierAttempts
from airflow_provider_connect.spark.days import check
from airflow_provider_connect.window import Day
from tests.equipment.spark.lab import DAY, Lab, poll_parts_of, polling

BEFORE = Day(date=dt.date(2026, 10, 4))


def look_back(lab: Lab, token: str = "bbbb", **options: Any) -> DayReport:
    (report,) = lab.days(token=token, lookback=(BEFORE,), **options).run([BEFORE])
    return report


@pytest.fixture
def published(lab: Lab) -> Lab:
    """Return a lab whose day before is published."""
    (report,) = lab.days(window=(BEFORE,)).run([BEFORE])
    assert report.status == "published"
    (lab.root / "steps").unlink()
    return lab


def publisher_class(lab: Lab) -> Any:
    """Return the class that the registry has imported."""
    return type(lab.days().context.outlet.publisher)


def staged(lab: Lab) -> list[Path]:
    return list(lab.stage.rglob("*.parquet"))


def test_the_same_answer_counts_a_check_and_no_generation(published: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    first = published.ledger.row(BEFORE.date)
    report = look_back(published, keeps_stage=False)
    assert (report.status, report.generation, report.lookback) == ("unchanged", 1, True)
    assert (report.rows_read, report.rows_written, report.rows_before) == (3, 3, 3)
    assert published.steps == ["confirm"]
    row = published.ledger.row(BEFORE.date)
    assert (row.generation, row.checks, row.token, row.run) == (1, 1, "bbbb", "d/r/t")
    assert (row.attempt, row.rows, row.answer) == (first.attempt, first.rows, first.answer)
    assert row.polled_at > first.polled_at
    assert JobReport.from_days("a", [report]).failure is None
    assert "unchanged as generation 1, 3 rows" in capsys.readouterr().err
    assert not [path for path in staged(published) if "bbbb" in path.name]
    assert look_back(published, "cccc").status == "unchanged"
    assert published.ledger.row(BEFORE.date).checks == 2


@pytest.mark.parametrize(
    "change",
    [{"rows": 4}, {"rejects": 1}, {"has_keys": False}],
    ids=["a row", "a reject", "a column"],
)
def test_another_answer_is_published(published: Lab, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EarlierAttempts, "fingerprint", "as before")
    look_back(published, "cccc")
    assert look_back(published, "dddd").status == "unchanged"
    report = look_back(published, source=change)
    assert (report.status, report.generation) == ("published", 3)
    assert published.ledger.row(BEFORE.date).checks == 0


@pytest.mark.parametrize(
    "change",
    [{"source": {"pause_seconds": 0.01}}, {"sink": ("never:KeyError",)}],
    ids=["of the source", "of the sink"],
)
def test_the_same_answer_to_other_options_is_published(published: Lab, change: dict[str, Any]) -> None:
    report = look_back(published, **change)
    assert (report.status, report.generation) == ("published", 2)


def test_another_version_of_this_package_publishes_again(published: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "__version__", "99.0.0")
    assert look_back(published).status == "published"


def test_a_clear_and_a_backfill_load_a_day_whatever_it_holds(published: Lab) -> None:
    (report,) = published.days(token="bbbb", window=(BEFORE,)).run([BEFORE])
    assert (report.status, report.generation) == ("published", 2)


def test_a_sink_that_cannot_confirm_publishes_again(published: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    able = publisher_class(published)
    steps = {name: getattr(able, name) for name in ("__init__", "ledger", "begin", "put", "commit", "abort", "close")}
    helpers = {name: getattr(able, name) for name in ("_step", "_fail")}
    unable = type("Unable", (Publisher, StagesByExecutors), {**steps, **helpers})
    monkeypatch.setattr(type(published.days().context.outlet.sink), "open", lambda self, key, connections: unable(self))
    assert look_back(published).status == "published"


def test_a_ledger_row_without_an_answer_is_never_unchanged(published: Lab) -> None:
    row = published.ledger.row(BEFORE.date)
    published.ledger.add(row.model_copy(update={"answer": None}))
    assert look_back(published).status == "published"


def test_a_task_that_gets_a_lookback_later_publishes_a_day_once_more_and_says_why(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.days(window=(BEFORE,), has_lookback=False).run([BEFORE])
    assert lab.ledger.row(BEFORE.date).answer is None, "the answer is digested although nothing compares it"
    assert [look_back(lab, token).status for token in ("bbbb", "cccc")] == ["published", "unchanged"]
    log = capsys.readouterr().err
    assert log.count("published once more, since the ledger has no digest of its published answer") == 1
    assert "had no lookback_days then" in log


def test_rows_of_a_type_that_cannot_be_read_are_published_again(
    published: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "answer_digest", lambda *_: None)
    row = published.ledger.row(BEFORE.date)
    published.ledger.add(row.model_copy(update={"answer": None}))
    assert look_back(published).status == "published"


def test_the_rules_of_completeness_are_not_asked_again(lab: Lab) -> None:
    lab.days(window=(BEFORE,), source={"rows": 0}).run([BEFORE])
    assert look_back(lab, source={"rows": 0}).status == "unchanged"


def test_a_day_overtaken_while_it_confirms_is_done(published: Lab) -> None:
    days = published.days(token="bbbb", lookback=(BEFORE,))
    poll = poll_parts_of(days)

    def overtaken(tasks: list[str]) -> list[str]:
        answers = poll(tasks)
        assert look_back(published, "cccc").status == "unchanged"
        return answers

    polls = published.polls
    (report,) = polling(days, overtaken).run([BEFORE])
    assert (report.status, report.failure is not None) == ("overtaken", True)
    assert report.failure is not None
    assert "d/r/t has confirmed generation 1 since" in report.failure.message
    assert published.polls == polls + 2, "it polled again"


def test_an_older_answer_does_not_land_on_a_confirmed_one(published: Lab) -> None:
    days = published.days(token="bbbb", window=(BEFORE,), task_lives=False, source={"rows": 9})
    poll = poll_parts_of(days)

    def confirmed_meanwhile(tasks: list[str]) -> list[str]:
        answers = poll(tasks)
        assert look_back(published, "cccc").status == "unchanged"
        return answers

    (report,) = polling(days, confirmed_meanwhile).run([BEFORE])
    assert report.status == "failed"
    assert published.ledger.row(BEFORE.date).rows == 3


def test_a_try_that_was_killed_after_it_confirmed_finds_the_day_done(published: Lab) -> None:
    assert look_back(published).status == "unchanged"  # and its report is lost
    before, polls = published.ledger.rows(), published.polls
    again = look_back(published, attempt="2")
    assert (again.status, again.generation) == ("already_published", 1)
    assert (published.ledger.rows(), published.polls) == (before, polls)


def test_a_confirmation_whose_answer_was_lost_is_found_in_the_ledger(
    published: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = publisher_class(published).confirm

    def lost(self: Publisher, publish: Publish) -> LedgerRow:
        real(self, publish)
        raise RetriableError("the answer was lost")

    monkeypatch.setattr(publisher_class(published), "confirm", lost)
    assert look_back(published).status == "unchanged"


def test_a_confirmation_that_fails_fails_the_day(published: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise RetriableError("tiny is away")

    with monkeypatch.context() as broken:
        broken.setattr(publisher_class(published), "confirm", away)
        assert look_back(published).status == "failed"
    polls = published.polls
    assert look_back(published, attempt="2").status == "unchanged", "the staged answer counts"
    assert published.polls == polls


def test_a_day_of_the_window_itself_is_never_confirmed(lab: Lab) -> None:
    lab.days().run([DAY])
    (report,) = lab.days(token="bbbb", lookback=(BEFORE,)).run([DAY])
    assert report.status == "published"
