"""A disk that is full, for real: a small tmpfs under the table, filled while a day is on its way."""

from __future__ import annotations

import datetime as dt
import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.demo.mixpanel.events import Project
from airflow_provider_connect.demo.mixpanel.server import StandIn
from airflow_provider_connect.job import DayReport, JobConfig
from airflow_provider_connect.sink import Intent, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark import poll
from airflow_provider_connect.spark.days import Days
from airflow_provider_connect.spark.freezer import Freezer
from airflow_provider_connect.spark.progress import Progress
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day
from tests.equipment.stores.small_disk import PAGE_BYTES, Disk, small_disk

pytestmark = pytest.mark.slow

FIRST, SECOND = Day(date=dt.date(2026, 10, 5)), Day(date=dt.date(2026, 10, 6))
ROWS = 2000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", "2m") as mounted:
        yield mounted


@dataclass
class Mover:
    """Moves days in this process, through the real halves of driver and executor."""

    standin: StandIn
    table: Path
    attempts: int = 0

    def move(
        self, day: Day, *, before_poll: Any = None, before_manifest: Any = None, before_commit: Any = None
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
        source, sink = MixpanelSource(retry_budget_seconds=0), DeltaSink(path=str(self.table))
        self.attempts += 1
        token = f"{day.date:%Y%m%d}" * 4
        job = JobConfig(
            source_name=source.name,
            source=source.serialize(),
            sink_name=sink.name,
            sink=sink.serialize(),
            days=(day,),
            intent=Intent(token=token, run="dag/run/task"),
            attempt=f"{token[:16]}-{self.attempts:06x}",
            report=str(self.table.parent / "report.json"),
            labels={"note": "x" * 8 * PAGE_BYTES},  # so that the commit needs more room than what goes before it
        )

        def poll_parts(tasks: list[str]) -> list[str]:
            if before_poll:
                before_poll()
            outcomes = list(poll.run(tasks, schema=schema, connection=connection))
            if before_manifest:
                before_manifest()
            return outcomes

        def put_shares(*_: Any) -> list[Any]:
            if before_commit:
                before_commit()
            return []

        key = StreamKey(connector=source.name, stream=source.stream_key)
        poller, publisher = source.open(connection), sink.open(key, {})
        schema = poller.schema()
        root = Folder(str(self.table))
        if not self.table.exists():
            assert publisher.preflight(schema, (day,), "day") == []
        progress = Progress(root, 60, 1)
        days = Days(
            job=job,
            source=source,
            sink=sink,
            publisher=publisher,
            key=key,
            schema=schema,
            root=root,
            keeps_stage=True,
            progress=progress,
            freezer=Freezer(
                job=job,
                source=source,
                sink=sink,
                connection=connection,
                poller=poller,
                root=root,
                progress=progress,
                poll_parts=poll_parts,
            ),
            put_shares=put_shares,
            task_lives=lambda: True,
        )
        (report,) = days.move([day])
        return report

    def state(self) -> tuple[int, dict[str, int]]:
        """Return the table's version and its rows by day, read from the files."""
        table = DeltaTable(str(self.table))
        days = [str(day) for day in table.to_pyarrow_table(columns=["day", "properties"])["day"].to_pylist()]
        return table.version(), {day: days.count(day) for day in sorted(set(days))}


@pytest.fixture
def mover(disk):
    project = Project(seed=3, events_per_day=ROWS, duplicates_per_day=50)
    with StandIn(project, now=lambda: dt.datetime(2026, 11, 20, tzinfo=dt.UTC)) as standin:
        mover = Mover(standin, disk.path / "table")
        assert mover.move(FIRST).status == "published"
        yield mover


def assert_no_space(report: DayReport, disk: Disk) -> None:
    assert (report.status, report.failure.type) == ("failed", "RetriableError")
    assert f"no space left for {disk.path}/table" in report.failure.message
    assert "make room" in report.failure.message


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


@pytest.mark.parametrize(("free_pages", "place"), [(0, "publishing.json"), (3, "/table: ")])
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
