"""The days of a job, several at a time: in groups, oldest first, until one of them forbids to go on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_connect.job import DayReport
from airflow_provider_connect.spark.capabilities.grouping import DaysLeft, Grouping
from airflow_provider_connect.spark.days.life import Days


def move_all(days: Days, grouping: Grouping, width: int) -> list[DayReport]:
    """Move every day: those of the window, oldest first, then those of the lookback.

    :param grouping: decides before each plan which days it takes.
    :param width: how many plans are under way at once.

    No further day begins after a ConfigError, after the source asked for more time than a task may wait, or after a
    poll spent its budget of requests: each day would only send more requests, which sources count.
    """
    stop = threading.Event()
    left = DaysLeft(days.job.all_days, grouping)

    def move_some() -> None:
        while group := left.take():
            if stop.is_set():
                left.end([DayReport.of(day, "not_started", lookback=day in days.job.lookback) for day in group])
                continue
            try:
                reports = days.move(group)
            except BaseException:
                stop.set()
                raise
            left.end(reports)
            if any(report.failure is not None and report.failure.forbids_more for report in reports):
                stop.set()

    threads = max(1, min(width, len(days.job.all_days)))
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="day") as pool:
        for moved in [pool.submit(move_some) for _ in range(threads)]:
            moved.result()
    return left.reports
