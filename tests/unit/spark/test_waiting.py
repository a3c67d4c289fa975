"""Days that were frozen together wait for their publish one after the other, and no sweep takes them for dead."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.spark.days.parallel import run_all_days
from airflow_provider_connect.spark.days.runner import DayRunner
from airflow_provider_connect.stage import temporary
from airflow_provider_connect.window import days_between
from tests.equipment.spark.lab import Fixed, Lab, poll_parts_of, polling, rewired

WEEK = tuple(days_between(dt.date(2026, 10, 5), dt.date(2026, 10, 7), "UTC"))
MONDAY, TUESDAY, WEDNESDAY = WEEK


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.spark.attempts.SIGN_INTERVAL_SECONDS", 0.01, raising=False)


def files(lab: Lab) -> list[Path]:
    return [path for path in lab.stage.rglob("*") if path.is_file() and path.suffix != ".tmp"]


def grow_old(lab: Lab, *but: str) -> None:
    """Let all files be two hours old, but those of some days."""
    then = time.time() - 7200
    for path in files(lab):
        if not any(day in str(path) for day in but):
            os.utime(path, (then, then))


def attempts_heard_of(lab: Lab, seconds: float) -> set[str]:
    """Return the attempts that gave a sign of life within the last hour; wait for two of them."""
    ends = time.monotonic() + seconds
    while True:
        young = {path.parent.name for path in files(lab) if path.stat().st_mtime > time.time() - 3600}
        if len(young & {f"aaaa-1-{day.date:%Y%m%d}" for day in WEEK[1:]}) == 2 or time.monotonic() > ends:
            return young
        time.sleep(0.005)


def slow_monday(lab: Lab, **options: Any) -> DayRunner:
    """Return days of which the first takes hours to publish, while another job sweeps."""
    days = lab.days(source={"together": 3}, window=WEEK, **options)

    def put_shares(token: Any, shares: Any) -> list[Any]:
        assert days.publisher.put_shares is not None
        receipts = days.publisher.put_shares(token, shares)
        if token["attempt"].endswith("20261005"):
            grow_old(lab, "20261005")
            attempts_heard_of(lab, 2)
            temporary.sweep_stage(
                days.context.outlet.root, days.context.outlet.root.storage_time() - dt.timedelta(hours=1)
            )
        return receipts

    return rewired(days, put_shares=put_shares)


def test_a_sweep_leaves_the_days_that_wait(lab: Lab) -> None:
    reports = run_all_days(slow_monday(lab), Fixed(3), 1)
    assert [report.status for report in reports] == ["published"] * 3


def test_a_day_whose_turn_has_come_leaves_nothing_in_a_stage_that_is_not_kept(lab: Lab) -> None:
    run_all_days(slow_monday(lab, keeps_stage=False), Fixed(3), 1)
    assert files(lab) == []


def test_a_day_of_an_earlier_try_waits_too_while_its_neighbours_are_polled(lab: Lab) -> None:
    lab.days(source={"together": 3}, window=WEEK[1:], sink=["commit:RetriableError"]).run(WEEK[1:])
    days = lab.days(source={"together": 3}, window=WEEK, attempt="2")

    def poll_parts(tasks: list[str]) -> list[str]:
        grow_old(lab)
        assert attempts_heard_of(lab, 2) >= {"aaaa-1-20261006", "aaaa-1-20261007"}
        return poll_parts_of(days)(tasks)

    reports = run_all_days(polling(days, poll_parts), Fixed(3), 1)
    assert [(report.status, report.poll_seconds > 0) for report in reports] == [
        ("published", True),
        ("published", False),
        ("published", False),
    ]


def test_a_single_day_waits_for_nobody(lab: Lab) -> None:
    assert lab.move().status == "published"
    assert "waiting.json" not in {path.name for path in files(lab)}
