"""The days of a job, several at a time: in groups, oldest first, until one of them forbids to go on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_connect.job import DayReport
from airflow_provider_connect.spark.capabilities.grouping import DayGrouping, DayQueue
from airflow_provider_connect.spark.days.runner import DayRunner


def run_all_days(runner: DayRunner, grouping: DayGrouping, width: int) -> list[DayReport]:
    """Move every day: those of the window, oldest first, then those of the lookback.

    :param grouping: decides before each plan which days it takes.
    :param width: how many plans are under way at once.

    No further day begins after a ConfigError, after the source asked for more time than a task may wait, or after a
    poll spent its budget of requests: each day would only send more requests, which sources count.
    """
    stop = threading.Event()
    left = DayQueue(runner.job.all_days, grouping)

    def move_some() -> None:
        while group := left.take_group():
            if stop.is_set():
                left.add_reports(
                    [DayReport.for_day(day, "not_started", lookback=day in runner.job.lookback) for day in group]
                )
                continue
            try:
                reports = runner.run(group)
            except BaseException:
                stop.set()
                raise
            left.add_reports(reports)
            if any(report.failure is not None and report.failure.forbids_more for report in reports):
                stop.set()

    threads = max(1, min(width, len(runner.job.all_days)))
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="day") as pool:
        for moved in [pool.submit(move_some) for _ in range(threads)]:
            moved.result()
    return left.reports
