"""An error while something is closed is said. It neither throws away work that is done, nor hides why work failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.connection import write_connections
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.spark import job
from tests.equipment.spark.lab import CONNECTION, DAY, Lab

SECRET = "hush-hush"


def refuse(thing: Any) -> None:
    raise RuntimeError(f"logout refused for {SECRET}")


@pytest.fixture
def _poller_cannot_close(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    source = registry.source_class("tiny").of({"folder": str(lab.root)})
    monkeypatch.setattr(type(source.open(CONNECTION)), "close", refuse)


class Context:
    """Stands where the Spark context stands: does each task at once, in this process."""

    defaultParallelism = 1  # noqa: N815  # its own name

    def parallelize(self, items: list[Any], slices: int) -> Any:
        def map_partitions(run: Callable[[Iterable[Any]], Iterable[Any]]) -> Any:
            return SimpleNamespace(collect=lambda: [answer for item in items for answer in run([item])])

        return SimpleNamespace(mapPartitions=map_partitions)

    def setLogLevel(self, level: str) -> None:  # noqa: N802  # its own name
        pass


def drive(lab: Lab, monkeypatch: pytest.MonkeyPatch, *fails: str, **source: Any) -> JobReport:
    """Run the driver, and return its report."""
    monkeypatch.setattr(job, "_start_spark", lambda: Context)
    folder: Path = lab.root / "run"
    folder.mkdir()
    config = JobConfig(
        source_name="tiny",
        source={"folder": str(lab.root), "retry_budget_seconds": 0.0} | source,
        sink_name="tiny",
        sink={"folder": str(lab.root), "fails": fails},
        days=(DAY,),
        intent=Intent(token="aaaa", run="d/r/t"),
        attempt="aaaa-1",
        report=str(folder / "report.json"),
        staging=str(lab.stage),
    )
    (folder / job.JOB_FILE).write_text(config.model_dump_json())
    write_connections(folder / job.CONNECTIONS_FILE, {"tiny": CONNECTION})
    job.main(["job.py", str(folder / job.JOB_FILE)])
    return JobReport.model_validate_json((folder / "report.json").read_text())


@pytest.mark.usefixtures("_poller_cannot_close")
def test_a_poller_that_cannot_be_closed_loses_no_poll(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.move()
    assert (report.status, report.rows_written) == ("published", 3)
    said = capsys.readouterr().err
    assert "connect: TinyPoller could not be closed: unexpected RuntimeError at " in said
    assert SECRET not in said


@pytest.mark.usefixtures("_poller_cannot_close")
def test_neither_does_it_hide_why_the_poll_failed(lab: Lab) -> None:
    report = lab.move(source={"faults": {0: ["DataError"]}})
    assert report.failure is not None
    assert report.failure.type == "DataError"


def test_a_publisher_that_cannot_be_closed_loses_no_share(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.move(sink=["close:KeyError"]).status == "published"
    assert "abort" not in lab.steps
    assert "TinyPublisher could not be closed" in capsys.readouterr().err


def test_neither_does_it_hide_why_the_share_failed(lab: Lab) -> None:
    report = lab.move(sink=["put:DataError", "close:KeyError"])
    assert report.failure is not None
    assert report.failure.type == "DataError"


@pytest.mark.usefixtures("_poller_cannot_close")
def test_the_driver_reports_its_days_whatever_cannot_be_closed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    report = drive(lab, monkeypatch, "close:KeyError")
    assert report.failure is None
    assert [day.status for day in report.days] == ["published"]


@pytest.mark.usefixtures("_poller_cannot_close")
def test_and_tells_why_a_day_failed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    report = drive(lab, monkeypatch, "close:KeyError", faults={0: ["DataError"]})
    assert report.failure is not None
    assert report.failure.type == "DataError"
    assert [day.status for day in report.days] == ["failed"]


def test_the_driver_closes_what_it_opened(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    drive(lab, monkeypatch)
    notes = (lab.root / "poller").read_text().split()
    assert notes.count("open") == notes.count("close") == 2, "one on the driver, one in the task"
