"""A table of the tiny sink, and jobs that write to it. Direct calls replace Spark, everything else is real."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr

from airflow_provider_connect import registry
from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.job import DayReport, JobConfig
from airflow_provider_connect.shapes import Chain
from airflow_provider_connect.shapes.chain import Shaping
from airflow_provider_connect.sink import Intent, OnEmpty, StreamKey
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.spark import poll, put
from airflow_provider_connect.spark.capabilities.allowance import RequestBudget
from airflow_provider_connect.spark.capabilities.counts import DayCounter
from airflow_provider_connect.spark.composition import make_stager
from airflow_provider_connect.spark.context import Executors, Intake, JobContext, Outlet, PollPartitions
from airflow_provider_connect.spark.days.check import DayChecker
from airflow_provider_connect.spark.days.publish import DayPublisher
from airflow_provider_connect.spark.days.runner import DayRunner
from airflow_provider_connect.spark.days.stager import PolledStager
from airflow_provider_connect.spark.progress import ProgressLog
from airflow_provider_connect.stage.rejects import RejectsKeep
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day, group_days

DAY = Day(date=dt.date(2026, 10, 5))
CONNECTION = Connection(conn_id="tiny")
KEY = StreamKey(connector="tiny", stream="s")


class Lab:
    """A table of the tiny sink, and jobs that write to it."""

    def __init__(self, root: Path) -> None:
        self.root, self.stage = root, root / "stage"
        self.stage.mkdir()

    def job(
        self,
        *,
        token: str = "aaaa",
        attempt: str = "1",
        source: dict[str, Any] | None = None,
        sink: Any = (),
        on_empty: OnEmpty = "fail",
        rules: Rules | None = None,
        run: str = "d/r/t",
        clear_number: int = 0,
        target: str | None = None,
        window: tuple[Day, ...] = (DAY,),
        lookback: tuple[Day, ...] = (),
        has_lookback: bool = True,
        shape: tuple[dict[str, Any], ...] = (),
        rejects_keep: RejectsKeep = "record",
    ) -> JobConfig:
        return JobConfig(
            source_name="tiny",
            source={"folder": str(self.root), "retry_budget_seconds": 0.0} | (source or {}),
            sink_name="tiny",
            sink={"folder": target or str(self.root), "fails": sink},
            days=window,
            lookback=lookback,
            has_lookback=has_lookback,
            intent=Intent(token=token, run=run, clear_number=clear_number),
            attempt=f"{token}-{attempt}",
            report=str(self.root / "run" / "report.json"),
            staging=str(self.stage),
            on_empty=on_empty,
            rules=rules or Rules(on_shrink="accept"),
            shape=shape,
            rejects_keep=rejects_keep,
            progress_seconds=1,
        )

    def days(
        self,
        *,
        keeps_stage: bool = True,
        task_lives: bool = True,
        keys: Mapping[str, str] | None = None,
        **options: Any,
    ) -> DayRunner:
        """Return the runner of a job's days, for tests that replace a part before they run it.

        :param keys: keys of masks, by connection id.
        """
        job, root = self.job(**options), Folder(str(self.stage))
        source, sink = (
            registry.source_class("tiny").from_options(job.source),
            registry.sink_class("tiny").from_options(job.sink),
        )
        poller, progress = source.open(CONNECTION, PollContext()), ProgressLog(root, 60, len(job.days))
        secrets = {
            name: Connection(conn_id=name, conn_type="generic", password=SecretStr(key))
            for name, key in (keys or {}).items()
        }
        read, shaping = poller.schema(), Shaping(Chain.of(job.shape), secrets)
        poll_parts = functools.partial(poll.run_poll_tasks, schema=read, connection=CONNECTION, shaping=shaping)
        send = functools.partial(
            put.run_put_tasks, sink_name="tiny", sink=job.sink, key=KEY, stage=root.url, connections={}
        )
        intake = Intake(source, CONNECTION, poller, read, shaping)
        outlet = Outlet(sink, sink.open(KEY, {}), KEY, intake.staged_schema, root, keeps_stage=keeps_stage)
        executors = Executors(
            poll_partitions=lambda tasks: list(poll_parts(tasks)),
            put_shares=lambda token, shares: put.collect_receipts(list(send(shares, token=token))),
            concurrent_parts=sys.maxsize,
            concurrent_plans=None,
        )
        return wired(JobContext(job, intake, outlet, progress), executors, task_lives=task_lives)

    def move(self, **options: Any) -> DayReport:
        return moved(self.days(**options))

    @property
    def polls(self) -> int:
        return sum(path.stat().st_size for path in self.root.glob("polls-*"))

    @property
    def steps(self) -> list[str]:
        path = self.root / "steps"
        return [line.partition("[")[0] for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def ledger(self) -> Any:
        return registry.sink_class("tiny")(folder=str(self.root)).open(KEY, {}).ledger  # type: ignore[call-arg]

    def manifest(self, attempt: str = "aaaa-1", day: Day = DAY) -> Path:
        return self.stage / f"_connect/attempts/{attempt}-{day.date:%Y%m%d}/manifest.json"


def moved(days: DayRunner) -> DayReport:
    """Run the one day that most tests use."""
    (report,) = days.run([DAY])
    return report


def wired(
    context: JobContext,
    executors: Executors,
    dealer: RequestBudget | None = None,
    counts: DayCounter | None = None,
    *,
    task_lives: bool = True,
) -> DayRunner:
    """Assemble the runner of a job's days."""
    freezer = make_stager(context, executors, dealer or RequestBudget(), counts)
    publisher = DayPublisher(context, executors.put_shares)
    return DayRunner(context, freezer, DayChecker(context, counts), publisher, lambda: task_lives)


def rewired(
    days: DayRunner,
    *,
    context: JobContext | None = None,
    dealer: RequestBudget | None = None,
    counts: DayCounter | None = None,
    **executors: Any,
) -> DayRunner:
    """Return a runner with another context, budget, counter, or executors."""
    stager = freezer_in(days)
    new = wired(
        context or days.context,
        dataclasses.replace(stager.poller.executors, **executors),
        dealer or stager.poller.budget,
        counts or stager.planner.counter,
    )
    return dataclasses.replace(new, is_task_alive=days.is_task_alive)


def poll_parts_of(days: DayRunner) -> PollPartitions:
    """Return the function that polls partitions."""
    return freezer_in(days).poller.executors.poll_partitions


def freezer_in(days: DayRunner) -> PolledStager:
    """Return the stager of polled days, for runners without a transform."""
    return cast("PolledStager", days.stager)


def polling(days: DayRunner, poll_parts: PollPartitions) -> DayRunner:
    """Return a runner with another function to poll partitions."""
    return rewired(days, poll_partitions=poll_parts)


class Fixed:
    """A grouping with a fixed size: up to ``most`` consecutive days in each plan."""

    def __init__(self, most: int) -> None:
        self._most = most

    def next_group(self, days: list[Day]) -> tuple[Day, ...]:
        return group_days(days[: self._most], self._most)[0]

    def note_sizes(self, reports: list[DayReport]) -> None:
        pass
