"""What the driver does around Spark: how many days at once, and when it stops."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.errors import ConfigError, DataError, Failure, RetriableError
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.spark.context import open_stage
from airflow_provider_connect.spark.days.parallel import run_all_days
from airflow_provider_connect.spark.days.sweep import sweep_quietly
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day, days_between
from tests.equipment.spark.lab import Fixed

WEEK = days_between(dt.date(2026, 10, 5), dt.date(2026, 10, 11), "UTC")


class Mover:
    """Stands where ``Days`` stands: fails the days it is told to, and counts how many move at once."""

    def __init__(self, **errors: Exception) -> None:
        self.job = SimpleNamespace(all_days=WEEK, lookback=())
        self.errors = errors
        self.now = self.most = 0
        self.together = 1  # how many should be at work at once before one of them goes on
        self.lock = threading.Lock()
        self.order: list[str] = []

    def run(self, days: Sequence[Day]) -> list[DayReport]:
        (day,) = days
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
        return [
            DayReport.for_day(
                day, "failed" if error else "published", failure=Failure.from_error(error) if error else None
            )
        ]


def moved(mover: Any, width: int) -> list[str]:
    reports = run_all_days(mover, Fixed(1), width)
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


def test_after_a_spent_budget_of_requests_no_further_day_is_begun() -> None:
    spent = RetriableError("500", request_budget_spent=True)
    assert moved(Mover(d6=spent), 1) == ["published", "failed", *["not_started"] * 5]
    assert moved(Mover(d6=RetriableError("cut")), 1) == ["published", "failed", *["published"] * 5]


def test_a_sweep_that_fails_is_said_and_does_not_lose_the_report(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table"
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / "00000000000000000000.json").write_text("no json")
    sink = registry.sink_class("delta")(path=str(path))  # type: ignore[call-arg]
    publisher = sink.open(StreamKey(connector="a", stream="b"), {})
    assert sweep_quietly(sink.target, publisher.sweep) == 0
    assert f"under {path} could not be swept" in capsys.readouterr().err


def stage_of(staging: str | None, own: str | None = None) -> str:
    job: Any = SimpleNamespace(staging=staging, sink_name="bigquery")
    return open_stage(own, job).url


@pytest.mark.parametrize("depth", ["", "stage", "stage/deeper/still", "day=2026-10-05", "_connect"])
def test_a_stage_inside_a_delta_table_is_refused_at_any_depth(tmp_path: Path, depth: str) -> None:
    table = tmp_path / "lake" / "table"
    (table / "_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"lies in the Delta table {table}. "):
        stage_of(f"{table}/{depth}")
    assert [path.name for path in table.iterdir()] == ["_delta_log"]


@pytest.mark.parametrize("staging", ["into", "into/deeper", "around/stage"])
def test_a_stage_inside_a_delta_table_is_found_behind_a_link(tmp_path: Path, staging: str) -> None:
    table = tmp_path / "lake" / "table"
    for folder in (table / "_delta_log", table / "day=2026-10-05", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    (tmp_path / "into").symlink_to(table / "day=2026-10-05")
    (tmp_path / "around").symlink_to(table)
    with pytest.raises(ConfigError, match="lies in the Delta table"):
        stage_of(str(tmp_path / staging))
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    assert stage_of(str(tmp_path / "out")) == str(tmp_path / "out")


def test_a_stage_among_the_tables_of_a_template_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_connect_head" / "_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigError, match="lies in the Delta table"):
        stage_of(f"{tmp_path}/stage")


def test_a_stage_beside_a_delta_table_or_above_one_is_fine(tmp_path: Path) -> None:
    (tmp_path / "lake" / "table" / "_delta_log").mkdir(parents=True)
    for staging in (tmp_path / "lake", tmp_path / "lake" / "table2", tmp_path):
        assert stage_of(str(staging)) == str(staging)
    own = str(tmp_path / "lake" / "table")
    assert stage_of(None, own) == own, "the sink's own table is where Delta wants it"
    with pytest.raises(ConfigError, match="needs a URL for the stage"):
        stage_of(None)


def test_folders_above_the_stage_that_nobody_may_look_into_do_not_hinder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = tmp_path / "mine" / "stage"
    exists = Folder.exists

    def refused_above(folder: Folder, name: str = "") -> bool:
        if folder.url != str(stage):
            raise RetriableError("PERMISSION_DENIED")
        return exists(folder, name)

    monkeypatch.setattr(Folder, "exists", refused_above)
    assert stage_of(str(stage)) == str(stage)
    monkeypatch.setattr(Folder, "exists", lambda *_: (_ for _ in ()).throw(RetriableError("away")))
    with pytest.raises(RetriableError, match="away"):
        stage_of(str(stage))
