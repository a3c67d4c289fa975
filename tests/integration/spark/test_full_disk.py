"""A disk that is full, for real: a small tmpfs under the table, filled while a day is on its way."""

from __future__ import annotations

import datetime as dt
import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.job import DayReport, JobConfig
from airflow_provider_connect.sink import Intent, LedgerRow
from airflow_provider_connect.sinks._delta.publisher import DeltaPublisher
from airflow_provider_connect.spark import poll
from airflow_provider_connect.window import Day
from tests.equipment.spark.here import drive
from tests.equipment.stores.small_disk import PAGE_BYTES, Disk, small_disk
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn

pytestmark = pytest.mark.slow

FIRST, SECOND = Day(date=dt.date(2026, 10, 5)), Day(date=dt.date(2026, 10, 6))
ROWS = 2000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", "2m") as mounted:
        yield mounted


def nothing() -> None:
    pass


@dataclass
class Mover:
    """Moves days into one table."""

    standin: StandIn
    table: Path
    run_folder: Path
    attempts: int = 0

    def move(
        self,
        day: Day,
        *,
        before_poll: Callable[[], None] = nothing,
        before_manifest: Callable[[], None] = nothing,
        before_commit: Callable[[], None] = nothing,
    ) -> DayReport:
        account = self.standin.account
        connection = Connection(
            conn_id="mixpanel_default",
            conn_type="mixpanel",
            host="http://127.0.0.1",
            port=self.standin.port,
            login=account.username,
            password=account.secret,
            extra={"project_id": str(account.project_id)},
        )
        self.attempts += 1
        token = f"{day.date:%Y%m%d}" * 4
        job = JobConfig(
            source_name="mixpanel",
            source={"retry_budget_seconds": 0},
            sink_name="delta",
            sink={"path": str(self.table)},
            days=(day,),
            intent=Intent(token=token, run="dag/run/task"),
            attempt=f"{token[:16]}-{self.attempts:06x}",
            report=str(self.run_folder / "report.json"),
            labels={"note": "x" * 8 * PAGE_BYTES},  # so that the commit needs more room than what goes before it
        )
        polls, commits = poll.run_poll_tasks, DeltaPublisher.commit

        def run(*tasks: Any, **how: Any) -> Iterator[str]:
            before_poll()
            yield from polls(*tasks, **how)
            before_manifest()

        def commit(*publish: Any) -> LedgerRow:
            before_commit()
            return commits(*publish)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(poll, "run_poll_tasks", run)
            patch.setattr(DeltaPublisher, "commit", commit)
            [report] = drive(job, {connection.conn_id: connection}).days
        return report

    def state(self) -> tuple[int, dict[str, int]]:
        """Return the table's version and its rows by day, read from the files."""
        table = DeltaTable(str(self.table))
        days = [str(day) for day in table.to_pyarrow_table(columns=["day", "properties"])["day"].to_pylist()]
        return table.version(), {day: days.count(day) for day in sorted(set(days))}


@pytest.fixture
def mover(disk, tmp_path):
    project = Project(seed=3, events_per_day=ROWS, duplicates_per_day=50)
    with StandIn(project, now=lambda: dt.datetime(2026, 11, 20, tzinfo=dt.UTC)) as standin:
        mover = Mover(standin, disk.path / "table", tmp_path / "run")
        assert mover.move(FIRST).status == "published"
        yield mover


def assert_no_space(report: DayReport, disk: Disk) -> None:
    assert (report.status, report.failure.type) == ("failed", "RetriableError")
    assert f"no space left for {disk.path}/table" in report.failure.message
    assert "Free some space" in report.failure.message


def assert_a_retry_succeeds(mover: Mover, disk: Disk) -> None:
    disk.make_room()
    assert mover.move(SECOND).status == "published"
    assert mover.state()[1] == {str(FIRST): ROWS, str(SECOND): ROWS}


@pytest.mark.parametrize("free_pages", [0, 1, 4, 16])
def test_a_disk_full_while_polling(mover, disk, free_pages):
    before = mover.state()
    assert_no_space(mover.move(SECOND, before_poll=lambda: disk.fill(free_pages)), disk)
    assert mover.state() == before
    assert_a_retry_succeeds(mover, disk)


def test_a_disk_full_before_the_manifest(mover, disk):
    before = mover.state()
    report = mover.move(SECOND, before_manifest=disk.fill)
    assert_no_space(report, disk)
    assert "manifest.json" in report.failure.message
    assert mover.state() == before
    assert_a_retry_succeeds(mover, disk)


@pytest.mark.parametrize(("free_pages", "place"), [(0, "publishing.json"), (3, "/table. ")])
def test_a_disk_full_at_the_commit_polls_nothing_again(mover, disk, free_pages, place):
    before = mover.state()
    report = mover.move(SECOND, before_commit=lambda: disk.fill(free_pages))
    assert_no_space(report, disk)
    assert place in report.failure.message
    assert mover.state() == before
    polled = mover.standin.stats["requests"]
    assert_a_retry_succeeds(mover, disk)
    assert mover.standin.stats["requests"] == polled


def test_the_disk_is_really_full(disk):
    disk.fill()
    with pytest.raises(OSError, match="No space") as caught:
        (disk.path / "more").write_bytes(b"\0" * PAGE_BYTES)
    assert caught.value.errno == errno.ENOSPC
