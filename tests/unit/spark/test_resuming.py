"""A try that dies half way: the next one takes over the partitions that are whole, and polls the rest."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.errors import Failure
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.spark.days.poll import lane_count, poll_in_lanes
from airflow_provider_connect.spark.days.runner import DayRunner
from airflow_provider_connect.spark.poll import PollOutcome
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.manifest import Manifest
from tests.equipment.spark.lab import DAY, Lab, moved, poll_parts_of, polling, rewired

PARTS = 6
SOURCE = {"parts": PARTS, "resumes": True, "at_once": 2, "rejects": 1}


class KilledError(BaseException):
    """What a SIGKILL leaves of a driver: nobody cleans up."""


def killed_after(days: DayRunner, parts: int) -> DayRunner:
    """Return days whose driver dies once so many partitions were polled."""
    poll_parts, lock, left = poll_parts_of(days), threading.Lock(), [parts]

    def poll(tasks: list[str]) -> list[str]:
        with lock:
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
        return poll_parts(tasks)

    return polling(days, poll)


def die(lab: Lab, parts: int, **options: Any) -> None:
    with pytest.raises(KilledError):
        moved(killed_after(lab.days(source=SOURCE, **options), parts))


def polled(lab: Lab) -> list[int]:
    """Return which partitions were polled, once for each time."""
    return sorted(int(path.name[-1]) for path in lab.root.glob("polls-*") for _ in path.read_bytes())


def figures(report: DayReport) -> tuple[Any, ...]:
    return (
        report.status,
        report.rows_read,
        report.rows_written,
        report.rejected,
        report.duplicates,
        report.raw_bytes,
        report.digest,
    )


@pytest.fixture
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    return figures(Lab(tmp_path_factory.mktemp("undisturbed")).move(source=SOURCE))


@pytest.mark.parametrize("keeps_stage", [True, False])
def test_the_next_try_polls_only_missing_partitions(
    lab: Lab, undisturbed: tuple[Any, ...], keeps_stage: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dt.datetime.now(dt.UTC)
    die(lab, 4)
    between = dt.datetime.now(dt.UTC)
    report = lab.move(source=SOURCE, attempt="2", keeps_stage=keeps_stage)
    assert figures(report) == undisturbed
    assert polled(lab) == [*range(PARTS)]
    assert "an earlier try was reading it in 6 partitions, and this one goes on: 4 are there already" in (
        capsys.readouterr().err
    )
    row = lab.ledger.row(DAY.date)
    assert before < row.polled_at < between, "rows were read from then on"
    if keeps_stage:
        found = Manifest.read(lab.manifest("aaaa-2").read_bytes(), DAY, "aaaa-2-20261005")
        events = pa.concat_tables(pq.read_table(lab.stage / file.path) for file in found.polled.files)["event"]
        assert sorted(events.to_pylist()) == sorted(f"{DAY}/{part}" for part in range(PARTS) for _ in range(3))


def test_a_failed_try_is_resumed_too(lab: Lab, undisturbed: tuple[Any, ...]) -> None:
    source = SOURCE | {"faults": {3: ["RetriableError"]}, "at_once": 1}
    assert lab.move(source=source).status == "failed"
    assert polled(lab) == [0, 1, 2, 3], "none begins after the one that failed"
    assert figures(lab.move(source=source, attempt="2")) == undisturbed
    assert polled(lab) == sorted([*range(PARTS), 3])


def test_a_plan_with_all_partitions_but_no_manifest_is_resumed_without_a_poll(
    lab: Lab, undisturbed: tuple[Any, ...]
) -> None:
    lab.move(source=SOURCE, sink=["commit:RetriableError"])
    lab.manifest().unlink()
    assert figures(lab.move(source=SOURCE, attempt="2")) == undisturbed
    assert polled(lab) == [*range(PARTS)]


@settings(deadline=None, max_examples=8)
@given(st.lists(st.integers(0, PARTS), max_size=4))
def test_rows_counts_and_digest_are_the_same_however_many_tries_it_took(
    tmp_path_factory: pytest.TempPathFactory, deaths: list[int]
) -> None:
    root = tmp_path_factory.mktemp("tries")
    try:
        lab, left = Lab(root), PARTS
        for attempt, parts in enumerate(deaths):
            if parts >= left:
                break
            die(lab, parts, attempt=str(attempt))
            left -= parts
        report = lab.move(source=SOURCE, attempt="last")
        assert (report.status, report.rows_read, report.rows_written, report.rejected) == ("published", 18, 18, 6)
        assert (report.duplicates, report.raw_bytes, report.digest) == (6, 600, f"{18:032x}")
        assert polled(lab) == [*range(PARTS)]
    finally:
        shutil.rmtree(root)


def stage_of(lab: Lab, attempt: str = "aaaa-1-20261005") -> Path:
    return lab.stage / "_connect/attempts" / attempt


def lose_a_file(lab: Lab) -> None:
    next(lab.stage.glob("day=*/*-00003-*.parquet")).unlink()


def cut_a_file(lab: Lab) -> None:
    file = next(lab.stage.glob("day=*/*-00003-*.parquet"))
    file.write_bytes(file.read_bytes()[:-1])


def lose_rejects(lab: Lab) -> None:
    next(stage_of(lab).glob("rejects-00003-*")).unlink()


def name_a_file_of_others(lab: Lab) -> None:
    record = json.loads((stage_of(lab) / "part-00003.json").read_text())
    (lab.stage / "day=2026-10-05/bbbb-1-20261005-00003-a.parquet").write_text("theirs")
    record["polled"]["files"][0] |= {"path": "day=2026-10-05/bbbb-1-20261005-00003-a.parquet", "size_bytes": 6}
    (stage_of(lab) / "part-00003.json").write_text(json.dumps(record))


def name_the_file_of_another_part(lab: Lab) -> None:
    shutil.copy(stage_of(lab) / "part-00002.json", stage_of(lab) / "part-00003.json")


def record_another_partition(lab: Lab) -> None:
    record = json.loads((stage_of(lab) / "part-00003.json").read_text())
    record["part"]["params"] = {"other": "bounds"}
    (stage_of(lab) / "part-00003.json").write_text(json.dumps(record))


def spoil_the_record(lab: Lab) -> None:
    (stage_of(lab) / "part-00003.json").write_text('{"part"')


@pytest.mark.parametrize(
    "spoil",
    [
        lose_a_file,
        cut_a_file,
        lose_rejects,
        name_a_file_of_others,
        name_the_file_of_another_part,
        record_another_partition,
        spoil_the_record,
    ],
)
def test_a_partition_that_is_not_whole_is_polled_again(
    lab: Lab, undisturbed: tuple[Any, ...], spoil: Callable[[Lab], None]
) -> None:
    die(lab, 4)
    spoil(lab)
    assert figures(lab.move(source=SOURCE, attempt="2")) == undisturbed
    assert polled(lab) == sorted([*range(PARTS), 3])


def age(lab: Lab) -> None:
    for file in stage_of(lab).iterdir():
        os.utime(file, (time.time() - 13 * 3600,) * 2)


def plan_otherwise(lab: Lab) -> None:
    plan = json.loads((stage_of(lab) / "plan.json").read_text())
    plan["parts"]["0"]["params"] = {"where": "1 = 1; and all that is in another table"}
    (stage_of(lab) / "plan.json").write_text(json.dumps(plan))


def plan_another_day(lab: Lab) -> None:
    plan = json.loads((stage_of(lab) / "plan.json").read_text())
    plan["parts"]["0"]["days"][0]["date"] = "2026-10-06"
    (stage_of(lab) / "plan.json").write_text(json.dumps(plan))


def publish_meanwhile(lab: Lab) -> None:
    lab.move(token="bbbb", source=SOURCE)
    for file in lab.root.glob("polls-*"):
        file.write_bytes(b".")


def erase_meanwhile(lab: Lab) -> None:
    (lab.root / "erased").write_text(EraseList().with_values("n", ["1"]).model_dump_json())


@pytest.mark.parametrize("change", [age, plan_otherwise, plan_another_day, publish_meanwhile, erase_meanwhile])
def test_a_changed_poll_is_not_resumed(
    lab: Lab, change: Callable[[Lab], None], capsys: pytest.CaptureFixture[str]
) -> None:
    die(lab, 4)
    change(lab)
    before = len(polled(lab))
    assert lab.move(source=SOURCE, attempt="2").status == "published"
    assert len(polled(lab)) == before + PARTS
    told = capsys.readouterr().err
    assert ("all of them are read again" in told) or ("plan.json is ignored" in told)


@pytest.mark.parametrize("other", [{"token": "bbbb"}, {"source": SOURCE | {"rows": 4}}])
def test_a_clear_and_another_source_do_not_resume(lab: Lab, other: dict[str, Any]) -> None:
    die(lab, 4)
    assert lab.move(**{"source": SOURCE, "attempt": "2"} | other).status == "published"
    assert len(polled(lab)) == 4 + PARTS


def test_another_schema_does_not_resume(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    die(lab, 4)
    days = lab.days(source=SOURCE, attempt="2")
    wider = days.context.outlet.published_schema.set(1, pa.field("n", pa.int64(), metadata={"comment": "was narrower"}))
    intake = dataclasses.replace(days.context.intake, source_schema=wider)
    days = rewired(days, context=dataclasses.replace(days.context, intake=intake))
    assert moved(days).status == "published"
    assert len(polled(lab)) == 4 + PARTS


def test_a_plan_that_cannot_be_resumed_is_logged_with_the_reason(
    lab: Lab, undisturbed: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    source = SOURCE | {"resumes": False, "begins_anew": "they shared a snapshot; mode='loose' goes on"}
    with pytest.raises(KilledError):
        moved(killed_after(lab.days(source=source), 4))
    assert "all of them are read again" not in capsys.readouterr().err
    assert figures(lab.move(source=source, attempt="2")) == undisturbed
    assert len(polled(lab)) == 4 + PARTS
    said = "an earlier try was reading it in 6 partitions, and all of them are read again: they shared a snapshot"
    assert said in capsys.readouterr().err


def test_a_refused_answer_is_not_resumed(lab: Lab) -> None:
    lab.move(token="bbbb", source=SOURCE | {"rows": 10})
    die(lab, 4)
    for attempt in ("2", "3"):
        assert lab.move(source=SOURCE, attempt=attempt, rules=Rules()).status == "failed"
    assert len(polled(lab)) == 3 * PARTS


@pytest.mark.parametrize("old_is_first", [True, False])
@pytest.mark.parametrize("keeps_stage", [True, False])
def test_an_earlier_driver_that_lives_on_does_no_harm(
    lab: Lab, undisturbed: tuple[Any, ...], old_is_first: bool, keeps_stage: bool
) -> None:
    """It stalls after four partitions, and goes on while the next try is polling."""
    old = lab.days(source=SOURCE | {"at_once": 1}, keeps_stage=keeps_stage)
    new = lab.days(source=SOURCE | {"at_once": 1}, attempt="2", keeps_stage=keeps_stage)
    stalls, goes_on = threading.Event(), threading.Event()
    reports: dict[str, DayReport] = {}
    poll_old, poll_new, count = poll_parts_of(old), poll_parts_of(new), [0]

    def stalling(tasks: list[str]) -> list[str]:
        count[0] += 1
        if count[0] == 5:
            stalls.set()
            assert goes_on.wait(30)
        return poll_old(tasks)

    def meanwhile(tasks: list[str]) -> list[str]:
        goes_on.set()
        if old_is_first:
            thread.join(30)
        return poll_new(tasks)

    thread = threading.Thread(target=lambda: reports.update(old=moved(polling(old, stalling))))
    thread.start()
    assert stalls.wait(30)
    if old_is_first:
        reports["new"] = moved(polling(new, meanwhile))
    else:
        reports["new"] = moved(new)
        goes_on.set()
    thread.join(30)
    first, second = ("old", "new") if old_is_first else ("new", "old")
    assert figures(reports[first]) == undisturbed
    assert (reports[second].status, reports[second].digest) == ("already_published", undisturbed[-1])
    assert lab.ledger.row(DAY.date).rows == 18


def test_partitions_are_polled_as_many_at_once_as_the_source_says() -> None:
    now, most, lock, ended = [0], [0], threading.Lock(), []
    parts = [InputPartition(days=(DAY,), index=index) for index in range(12)]

    def poll(tasks: list[str]) -> list[str]:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1
        return [PollOutcome(polled={}).model_dump_json() for _ in tasks]

    outcomes = poll_in_lanes(
        parts, [str(part.index) for part in parts], 3, poll, lambda part, _: ended.append(part.index)
    )
    assert (most[0], sorted(ended), len(outcomes)) == (3, [*range(12)], 12)


@pytest.mark.parametrize(
    ("resumes", "asked", "most", "parts", "found"),
    [
        (False, None, 99, 12, None),
        (False, 4, 99, 4, None),
        (False, 4, 99, 12, 4),
        (False, 4, 2, 4, 2),
        (True, 4, 99, 12, 4),
        (True, 4, 99, 2, 2),
        (True, 4, 1, 12, 1),
        (True, None, 99, 1000, 32),
        (True, 4, 99, 0, 1),
    ],
)
def test_one_spark_job_polls_all_where_nothing_bounds_them(
    lab: Lab, resumes: bool, asked: int | None, most: int, parts: int, found: int | None
) -> None:
    poller = lab.days(source={"resumes": resumes, "at_once": asked}).context.intake.poller
    assert lane_count(poller, parts, most) == found


def test_no_partition_begins_after_one_that_failed() -> None:
    parts = [InputPartition(days=(DAY,), index=index) for index in range(12)]
    failure, begun = Failure(type="DataError", message="bad"), []

    def poll(tasks: list[str]) -> list[str]:
        begun.extend(tasks)
        return [PollOutcome(failure=failure if tasks == ["2"] else None).model_dump_json()]

    outcomes = poll_in_lanes(parts, [str(part.index) for part in parts], 1, poll, lambda *_: None)
    assert begun == ["0", "1", "2"]
    assert [outcome.failure for outcome in outcomes] == [None, None, failure, *[None] * 9]
