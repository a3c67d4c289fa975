"""Decides before each plan how many days it takes, from the known sizes of days."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Collection, Iterable, Sequence

from airflow_provider_connect.capabilities.poller import SeveralDaysARequest
from airflow_provider_connect.errors import Failure
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.sink import Ledger
from airflow_provider_connect.source import Poller
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.window import ONE_DAY, Day, group_days

_NEAREST = 7
"""Number of days that estimate the size of the next day. A week has busy and quiet days."""


class DayGrouping:
    """Has the poller choose how many days the next plan takes, from the sizes of known days in bytes.

    Sizes come from the ledger's days around the window's first one, and from the job's own polls.
    """

    def __init__(self, poller: Poller, days: Sequence[Day], ledger: Ledger, alone: Collection[dt.date] = ()) -> None:
        self._poller = poller
        self._days_of_job = days
        self._ledger = ledger
        self._lone_dates = alone
        self._polled_sizes: dict[dt.date, int] = {}
        self._published_sizes: dict[dt.date, int] | None = None
        self._logged_size = 0

    def group_size(self, day: Day) -> int:
        """Return how many days a plan that begins with this day should take."""
        poller = self._poller
        if not isinstance(poller, SeveralDaysARequest) or (max_days := poller.days_per_plan) == 1:
            return 1
        choice = poller.days_together(self._days_of_job, lambda: self._nearest_sizes(day.date))
        days = max(1, min(choice.days, max_days))
        if choice.why and days != self._logged_size and len(self._days_of_job) > 1:
            self._logged_size = days
            log_line(f"from day {day} on: {days} {'day' if days == 1 else 'days'} in one request; {choice.why}")
        return days

    def next_group(self, days: Sequence[Day]) -> tuple[Day, ...]:
        """Return the consecutive days of the next plan."""
        size = self.group_size(days[0])
        group_end = next((at for at, day in enumerate(days[:size]) if day.date in self._lone_dates), size)
        return group_days(days[: max(1, group_end)], size)[0]

    def note_sizes(self, reports: Iterable[DayReport]) -> None:
        """Note the sizes of reported days."""
        for report in reports:
            # The ledger may have forgotten the size of a published day.
            is_known = report.status in ("published", "unchanged") or (
                report.status == "already_published" and report.raw_bytes
            )
            if is_known:
                self._polled_sizes[report.day] = report.raw_bytes

    def _nearest_sizes(self, date: dt.date) -> list[int]:
        if self._published_sizes is None:
            self._published_sizes = self._sizes_in_ledger()
        sizes = self._published_sizes | self._polled_sizes
        return [sizes[day] for day in sorted(sizes, key=lambda known_date: abs(known_date - date))[:_NEAREST]]

    def _sizes_in_ledger(self) -> dict[dt.date, int]:
        first = self._days_of_job[0].date
        try:
            ledger_rows = self._ledger.between(first - _NEAREST * ONE_DAY, first + _NEAREST * ONE_DAY)[-_NEAREST:]
            rows = [row if "raw_bytes" in row.counts else self._ledger.row(row.day) for row in ledger_rows]
        except Exception as error:  # noqa: BLE001  # whoever publishes meets the same error, and reports it
            log_line(f"the sizes of earlier days are not known: {Failure.from_error(error).message}")
            return {}
        # An erase writes rows without a request: they have no size.
        sizes = {row.day: (row.counts.get("raw_bytes"), row.rows) for row in rows if row is not None}
        return {day: size for day, (size, has_rows) in sizes.items() if size or (size == 0 and not has_rows)}


class DayQueue:
    """Hands out a job's days in groups, and keeps their reports. Thread-safe."""

    def __init__(self, days: Sequence[Day], grouping: DayGrouping) -> None:
        self._days = list(days)
        self._days_left = list(days)
        self._grouping = grouping
        self._reports: dict[dt.date, DayReport] = {}
        self._lock = threading.Lock()

    def take_group(self) -> tuple[Day, ...]:
        """Return the next consecutive days, or () at the end."""
        with self._lock:
            if not self._days_left:
                return ()
            group = self._grouping.next_group(self._days_left)
            del self._days_left[: len(group)]
            return group

    def add_reports(self, reports: Sequence[DayReport]) -> None:
        """Keep the reports of a group."""
        with self._lock:
            self._reports |= {report.day: report for report in reports}
            self._grouping.note_sizes(reports)

    @property
    def reports(self) -> list[DayReport]:
        """The reports in the order of the days."""
        return [self._reports[day.date] for day in self._days]
