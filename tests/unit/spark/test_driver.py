"""What the driver does around Spark: how many days at once, and when it stops."""

from __future__ import annotations

import datetime as dt
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.errors import ConfigError, DataError, Failure
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.spark import job
from airflow_provider_connect.window import Day, span

WEEK = span(dt.date(2026, 10, 5), dt.date(2026, 10, 11), "UTC")


class Mover:
    """Stands where ``Days`` stands: fails the days it is told to, and counts how many move at once."""

    def __init__(self, **errors: Exception) -> None:
        self.job = SimpleNamespace(days=WEEK)
        self.errors = errors
        self.now = self.most = 0
        self.together = 1  # how many should be at work at once before one of them goes on
        self.lock = threading.Lock()
        self.order: list[str] = []

    def move(self, day: Day) -> DayReport:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.order.append(str(day))
        deadline = time.monotonic() + 2
        while self.now < self.together and len(self.order) < len(WEEK) and time.monotonic() < deadline:
            threading.Event().wait(0.005)
        with self.lock:
            self.now -= 1
        error = self.errors.get(f"d{day.date.day}")
        return DayReport.of(day, "failed" if error else "published", failure=Failure.of(error) if error else None)


def moved(mover: Any, width: int) -> list[str]:
    reports = job._all_days(mover, width)
    assert [report.day for report in reports] == [day.date for day in WEEK]
    return [report.status for report in reports]


@pytest.mark.parametrize(("width", "most"), [(0, 1), (1, 1), (3, 3)])
def test_days_move_side_by_side_oldest_first(width: int, most: int) -> None:
    mover = Mover()
    mover.together = most
    assert set(moved(mover, width)) == {"published"}
    assert mover.most == most
    assert width > 1 or mover.order == [str(day) for day in WEEK]


def test_a_bad_day_stops_no_other() -> None:
    assert moved(Mover(d6=DataError("bad")), 2) == ["published", "failed", *["published"] * 5]


def test_after_a_config_error_no_further_day_is_begun() -> None:
    assert moved(Mover(d6=ConfigError("rights")), 1) == ["published", "failed", *["not_started"] * 5]


def test_a_sweep_that_fails_is_said_and_does_not_lose_the_report(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table"
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / "00000000000000000000.json").write_text("no json")
    sink = registry.sink_class("delta")(path=str(path))  # type: ignore[call-arg]
    key = StreamKey(connector="a", stream="b")
    assert job._swept(sink.target, lambda: sink.sweep(key, {})) == 0
    assert f"under {path} could not be swept" in capsys.readouterr().err
