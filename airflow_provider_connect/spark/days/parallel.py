"""Runs the days of a job in parallel: in groups, oldest first, until an error forbids more."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from airflow_provider_connect.job import DayReport
from airflow_provider_connect.spark.capabilities.grouping import DayGrouping, DayQueue
from airflow_provider_connect.spark.days.runner import DayRunner


def run_all_days(runner: DayRunner, grouping: DayGrouping, width: int) -> list[DayReport]:
    """Run every day: the window's days, oldest first, then the lookback's.

    No further day starts after a ConfigError, after the source requested a longer wait than a task may take, or after a
    poll spent its request budget.
    """
    stop = threading.Event()
    queue = DayQueue(runner.job.all_days, grouping)

    def run_groups() -> None:
        while group := queue.take_group():
            if stop.is_set():
                queue.add_reports(
                    [DayReport.for_day(day, "not_started", lookback=day in runner.job.lookback) for day in group]
                )
                continue
            try:
                reports = runner.run(group)
            except BaseException:
                stop.set()
                raise
            queue.add_reports(reports)
            if any(report.failure is not None and report.failure.forbids_more for report in reports):
                stop.set()

    threads = max(1, min(width, len(runner.job.all_days)))
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="day") as pool:
        for future in [pool.submit(copy_context().run, run_groups) for _ in range(threads)]:
            future.result()
    return queue.reports
