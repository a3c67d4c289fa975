"""The driver and its connections: read once, gone before the work begins, and named when they cannot be read."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection, write_connections
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.job import JobConfig, JobReport, SealedConnections
from airflow_provider_connect.sink import Connections, Intent
from airflow_provider_connect.spark import job
from airflow_provider_connect.spark.capabilities.allowance import RequestBudget
from airflow_provider_connect.submit.sealed import seal
from airflow_provider_connect.window import Day

CONNECTIONS = {"c": Connection(conn_id="c", host="h", password="canary")}


class Driver:
    """A job's folder; its work only looks at what lies there when it begins."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.stage = folder / "run", folder / "stage"
        self.folder.mkdir()
        self.found: list[str] = []
        self.given: Connections = {}
        monkeypatch.setattr(job, "_run", self._look)

    def _look(self, config: JobConfig, connections: Connections, started: float, dealer: RequestBudget) -> JobReport:
        files = [path for folder in (self.folder, self.stage) for path in folder.rglob("*") if path.is_file()]
        self.found = [path.name for path in files]
        self.given = connections
        return JobReport(attempt=config.attempt)

    def run(self, sealed: SealedConnections | None = None) -> int:
        config = JobConfig(
            source_name="tiny",
            source={},
            sink_name="tiny",
            sink={},
            days=(Day(date=dt.date(2026, 10, 5)),),
            intent=Intent(token="t" * 32, run="dag/run/task"),
            attempt="t-1",
            report=str(self.folder / "report.json"),
            sealed_connections=sealed,
        )
        (self.folder / "job.json").write_text(config.model_dump_json())
        return job.main(["job.py", str(self.folder / "job.json")])

    @property
    def failure(self) -> Any:
        return JobReport.model_validate_json((self.folder / "report.json").read_text()).failure


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    return Driver(tmp_path, monkeypatch)


def test_no_secret_lies_beside_the_job_when_the_work_begins(driver: Driver) -> None:
    write_connections(driver.folder / "connections.json", CONNECTIONS)
    assert driver.run() == 0
    assert driver.given == CONNECTIONS
    assert driver.found == []


def test_no_half_lies_in_the_stage_when_the_work_begins(driver: Driver) -> None:
    assert driver.run(seal(str(driver.stage), "t-1", CONNECTIONS)) == 0
    assert driver.given == CONNECTIONS
    assert driver.found == []


def test_connections_that_are_gone_are_named_in_the_report(driver: Driver) -> None:
    assert driver.run() == 75
    assert "connections.json is missing" in driver.failure.message
    sealed = seal(str(driver.stage), "t-1", CONNECTIONS)
    (driver.stage / "sealed" / "t-1").unlink()
    assert driver.run(sealed) == 75
    assert "sealed/t-1 are gone" in driver.failure.message
    assert driver.given == {}


def test_an_error_is_left_to_the_task_where_the_driver_s_output_is_in_its_log(
    driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert driver.run() == 75
    assert driver.failure.message not in capsys.readouterr().err


def test_an_error_is_said_once_where_the_driver_s_output_is_elsewhere(
    driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    sealed = seal(str(driver.stage), "t-1", CONNECTIONS)
    (driver.stage / "sealed" / "t-1").unlink()
    assert driver.run(sealed) == 75
    assert capsys.readouterr().err.count(driver.failure.message) == 1


def test_an_error_is_said_where_the_report_cannot_be_written(
    driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    (driver.folder / "report.json").mkdir()
    with pytest.raises(ConnectError):
        driver.run()
    assert "connections.json is missing" in capsys.readouterr().err


def test_a_changed_half_stops_the_driver_before_it_speaks_to_anybody(driver: Driver) -> None:
    sealed = seal(str(driver.stage), "t-1", CONNECTIONS)
    half = driver.stage / "sealed" / "t-1"
    half.write_bytes(bytes([half.read_bytes()[0] ^ 1]) + half.read_bytes()[1:])
    assert driver.run(sealed) == 78
    assert "not what the task wrote" in driver.failure.message
    assert driver.given == {}
    assert not half.exists()


def test_connections_that_cannot_be_read_are_deleted_all_the_same(driver: Driver) -> None:
    (driver.folder / "connections.json").write_text('{"c": {"conn_id": "c", "password": "canary"')
    assert driver.run() == 70
    assert "canary" not in driver.failure.message
    assert not (driver.folder / "connections.json").exists()
