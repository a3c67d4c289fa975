"""One day on the driver: Spark's place is taken by direct calls, everything else is real."""

from __future__ import annotations

import ast
import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.capabilities.publisher import StagesByExecutors
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.window import Day
from tests.equipment.spark.lab import DAY, Lab, moved, poll_parts_of, polling, rewired


def test_a_day_is_polled_frozen_and_published(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.move(source={"parts": 3})
    assert (report.status, report.generation, report.rows_written, report.duplicates) == ("published", 1, 9, 3)
    assert report.failure is None
    assert report.digest == f"{9:032x}"
    assert lab.manifest().exists()
    row = lab.ledger.row(DAY.date)
    assert (row.rows, row.token, row.attempt) == (9, "aaaa", "aaaa-1-20261005")
    assert "day 2026-10-05: published as generation 1, 9 rows" in capsys.readouterr().err


def test_a_days_files_and_then_its_manifest_are_on_the_disk_before_it_is_published(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def remembered(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", remembered)
    lab.move(source={"parts": 2}, sink=["commit:RetriableError"])
    names = [path.name for path in lab.stage.glob("day=*/*.parquet")]
    assert len(names) == 2
    assert all(synced.index(name) < synced.index("manifest.json") for name in names)


def test_a_stage_the_sink_does_not_keep_is_empty_after_the_publish(lab: Lab) -> None:
    report = lab.move(source={"rejects": 1}, keeps_stage=False)
    assert (report.status, report.rejected, report.rejects) == ("published", 1, ())
    assert [path for path in lab.stage.rglob("*") if path.is_file()] == []


def test_a_publish_that_failed_keeps_its_stage_for_the_next_try(lab: Lab) -> None:
    lab.move(sink=["commit:RetriableError"], keeps_stage=False)
    assert lab.manifest().exists()
    report = lab.move(attempt="2", keeps_stage=False)
    assert (report.status, report.poll_seconds, lab.polls) == ("published", 0.0, 1)


def test_an_error_after_the_commit_is_decided_by_the_ledger(lab: Lab) -> None:
    report = lab.move(sink=["committed:RetriableError"], keeps_stage=False)
    assert (report.status, report.generation, report.failure) == ("published", 1, None)
    assert [path for path in lab.stage.rglob("*") if path.is_file()] == []


def test_what_a_driver_left_that_died_after_its_commit_is_deleted(lab: Lab) -> None:
    lab.move(keeps_stage=True)
    assert lab.manifest().exists()
    report = lab.move(attempt="2", keeps_stage=False)
    assert report.status == "already_published"
    assert [path for path in lab.stage.rglob("*") if path.is_file()] == []


def test_a_published_day_is_not_touched_again(lab: Lab) -> None:
    lab.move()
    steps = lab.steps
    report = lab.move(attempt="2")
    assert (report.status, report.generation, report.rows_written) == ("already_published", 1, 3)
    assert (lab.polls, lab.steps) == (1, steps)


def test_a_report_has_the_sinks_own_counts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    days = lab.days()
    commit = type(days.context.outlet.publisher).commit

    def counting(self: Any, *given: Any) -> Any:
        row = commit(self, *given)
        return row.model_copy(update={"counts": row.counts | {"vanished": 7}})

    monkeypatch.setattr(type(days.context.outlet.publisher), "commit", counting)
    report = moved(days)
    assert (report.status, report.counts["vanished"], report.rows_read) == ("published", 7, 3)
    assert not {"rows_read", "rejected", "wire_bytes"} & set(report.counts)


def test_a_new_intent_polls_and_publishes_anew(lab: Lab) -> None:
    lab.move()
    report = lab.move(token="bbbb")
    assert (report.status, report.generation) == ("published", 2)
    assert lab.polls == 2


def test_every_file_is_sent_and_the_receipts_keep_the_files_order(lab: Lab) -> None:
    lab.move(source={"parts": 4})
    commit = (lab.root / "steps").read_text().splitlines()[-1]
    receipts = ast.literal_eval(commit.removeprefix("commit"))
    assert [(attempt, path.rpartition("-")[0]) for attempt, path in receipts] == [
        ("aaaa-1-20261005", f"day=2026-10-05/aaaa-1-20261005-{part:05d}") for part in range(4)
    ]
    assert lab.steps == ["begin", "put", "put", "put", "put", "commit"]


@pytest.mark.parametrize(
    ("fails", "status", "kind", "steps"),
    [
        ("begin:RetriableError", "failed", "RetriableError", ["begin"]),
        ("put:DataError", "failed", "DataError", ["begin", "put", "abort"]),
        ("put:KeyError", "failed", "ConnectError", ["begin", "put", "abort"]),
        ("commit:RetriableError", "failed", "RetriableError", ["begin", "put", "commit", "abort"]),
        ("commit:SupersededError", "superseded", "SupersededError", ["begin", "put", "commit", "abort"]),
    ],
)
def test_a_failed_publish_keeps_its_type_and_is_aborted(
    lab: Lab, fails: str, status: str, kind: str, steps: list[str]
) -> None:
    report = lab.move(sink=[fails])
    assert (report.status, report.failure and report.failure.type) == (status, kind)
    assert lab.steps == steps
    assert lab.ledger.row(DAY.date) is None
    again = lab.move(attempt="2")
    assert (again.status, lab.polls) == ("published", 1), "what was frozen is published without another poll"


def test_an_abort_that_fails_does_not_hide_why(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.move(sink=["commit:SupersededError", "abort:RetriableError"])
    assert report.status == "superseded"
    assert "the sink could not clean up after the failed publish: tiny's abort" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("faults", "kind"),
    [
        ({0: ["RetriableError"]}, "RetriableError"),
        ({1: ["DataError"]}, "DataError"),
        ({0: ["KeyError"]}, "ConnectError"),
        ({0: ["RetriableError"], 1: ["ConfigError"], 2: ["DataError"]}, "ConfigError"),
        ({0: ["DataError"], 1: ["RetriableError"]}, "RetriableError"),
    ],
)
def test_a_day_fails_as_its_worst_partition_and_nothing_is_published(lab: Lab, faults: Any, kind: str) -> None:
    report = lab.move(source={"parts": 3, "faults": faults})
    assert (report.status, report.failure and report.failure.type) == ("failed", kind)
    assert lab.steps == []
    assert not lab.manifest().exists()


def test_the_time_to_wait_reaches_the_report(lab: Lab) -> None:
    report = lab.move(source={"faults": {0: ["wait:33"]}})
    assert report.failure is not None
    assert report.failure.retry_after_seconds == 33


def test_a_partition_without_an_answer_fails_the_day(lab: Lab) -> None:
    days = lab.days(source={"parts": 2})
    report = moved(polling(days, lambda tasks: poll_parts_of(days)(tasks[:1])))
    assert report.failure is not None
    assert "2 partitions were planned, but 1 answered" in report.failure.message
    assert lab.steps == []


@pytest.fixture
def frozen(lab: Lab) -> Lab:
    """A day that an earlier attempt froze and could not publish."""
    lab.move(sink=["begin:RetriableError"], source={"rejects": 1})
    assert lab.manifest().exists()
    return lab


def again(lab: Lab, **options: Any) -> DayReport:
    return lab.move(attempt="2", source={"rejects": 1} | options.pop("source", {}), **options)


def test_a_frozen_day_is_published_as_it_is(frozen: Lab) -> None:
    report = again(frozen)
    assert (report.status, report.rows_written, report.rejected, report.poll_seconds) == ("published", 3, 1, 0.0)
    assert frozen.polls == 1
    assert frozen.ledger.row(DAY.date).attempt == "aaaa-1-20261005"


def test_a_stage_of_other_options_is_polled_again(frozen: Lab) -> None:
    assert again(frozen, source={"rows": 5}).rows_written == 5
    assert frozen.polls == 2


def test_another_version_of_the_package_polls_again(frozen: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.spark.context.__version__", "99.0")
    assert again(frozen).status == "published"
    assert frozen.polls == 2


def test_another_intent_polls_again(frozen: Lab) -> None:
    assert again(frozen, token="bbbb").status == "published"
    assert again(frozen, token="aaa").status == "published"
    assert frozen.polls == 3


@pytest.mark.parametrize("pattern", ["day=*/*.parquet", "_connect/attempts/*/rejects-*"])
@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_stage_that_is_not_whole_is_polled_again(frozen: Lab, pattern: str, damage: str) -> None:
    (victim,) = frozen.stage.glob(pattern)
    if damage == "missing":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:-1])
    report = again(frozen)
    assert (report.status, report.rows_written) == ("published", 3)
    assert frozen.polls == 2
    assert frozen.ledger.row(DAY.date).attempt == "aaaa-2-20261005"


@pytest.mark.parametrize("text", ["", "{}", '{"day": 1', '{"day": {"date": "2026-10-05"}, "speed": 9}'])
def test_a_manifest_that_cannot_be_read_is_polled_again(frozen: Lab, text: str) -> None:
    frozen.manifest().write_text(text)
    assert again(frozen).status == "published"
    assert frozen.polls == 2


def test_foreign_files_among_the_attempts_are_no_trouble(frozen: Lab) -> None:
    for name in ("stray", "manifest.json", "aaaa-9-20261005/deeper/manifest.json"):
        path = frozen.stage / "_connect/attempts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert again(frozen).status == "published"
    assert frozen.polls == 1


def test_without_a_put_nothing_is_sent(lab: Lab) -> None:
    days = lab.days()
    report = moved(rewired(days, put_shares=None))
    assert report.status == "published"
    assert lab.steps == ["begin", "commit"]
    assert isinstance(days.context.outlet.publisher, StagesByExecutors)


def test_why_the_only_day_failed_is_left_to_the_task(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.move(sink=["commit:DataError"])
    assert report.failure is not None
    said = capsys.readouterr().err
    assert "day 2026-10-05: failed" in said
    assert report.failure.message not in said


def test_why_a_day_of_several_failed_is_said_at_once(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.move(sink=["commit:DataError"], window=(DAY, Day(date=dt.date(2026, 10, 6))))
    assert report.failure is not None
    assert f"day 2026-10-05: failed: {report.failure.message}" in capsys.readouterr().err
