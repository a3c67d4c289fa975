"""An error while something is closed is said. It neither throws away work that is done, nor hides why work failed."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.source import PollContext
from tests.equipment.spark.here import drive
from tests.equipment.spark.lab import CONNECTION, Lab

SECRET = "hush-hush"
TINY = {"tiny": CONNECTION}


def refuse(thing: Any) -> None:
    raise RuntimeError(f"logout refused for {SECRET}")


@pytest.fixture
def _poller_cannot_close(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    source = registry.source_class("tiny").from_options({"folder": str(lab.root)})
    monkeypatch.setattr(type(source.open(CONNECTION, PollContext())), "close", refuse)


@pytest.mark.usefixtures("_poller_cannot_close")
def test_a_poller_that_cannot_be_closed_loses_no_poll(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.move()
    assert (report.status, report.rows_written) == ("published", 3)
    said = capsys.readouterr().err
    assert "connect: TinyPoller could not be closed: unexpected RuntimeError at " in said
    assert SECRET not in said


@pytest.mark.usefixtures("_poller_cannot_close")
def test_a_poller_that_cannot_be_closed_does_not_hide_why_the_poll_failed(lab: Lab) -> None:
    report = lab.move(source={"faults": {0: ["DataError"]}})
    assert report.failure is not None
    assert report.failure.type == "DataError"


def test_a_publisher_that_cannot_be_closed_loses_no_share(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.move(sink=["close:KeyError"]).status == "published"
    assert "abort" not in lab.steps
    assert "TinyPublisher could not be closed" in capsys.readouterr().err


def test_a_publisher_that_cannot_be_closed_does_not_hide_why_the_share_failed(lab: Lab) -> None:
    report = lab.move(sink=["put:DataError", "close:KeyError"])
    assert report.failure is not None
    assert report.failure.type == "DataError"


@pytest.mark.usefixtures("_poller_cannot_close")
def test_the_driver_reports_its_days_whatever_cannot_be_closed(lab: Lab) -> None:
    report = drive(lab.job(sink=["close:KeyError"]), TINY)
    assert report.failure is None
    assert [day.status for day in report.days] == ["published"]


@pytest.mark.usefixtures("_poller_cannot_close")
def test_the_driver_reports_why_a_day_failed_though_closing_fails(lab: Lab) -> None:
    report = drive(lab.job(sink=["close:KeyError"], source={"faults": {0: ["DataError"]}}), TINY)
    assert report.failure is not None
    assert report.failure.type == "DataError"
    assert [day.status for day in report.days] == ["failed"]


def test_the_driver_closes_what_it_opened(lab: Lab) -> None:
    drive(lab.job(), TINY)
    notes = (lab.root / "poller").read_text().split()
    assert notes.count("open") == notes.count("close") == 2, "one on the driver, one in the task"
