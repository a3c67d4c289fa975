"""The step from days to partitions: splits days after a deadline, counts if needed, resumes earlier plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.spark.capabilities.counts import DayCounter
from airflow_provider_connect.spark.capabilities.deadlines import DaySplitter
from airflow_provider_connect.spark.capabilities.resuming import PlanResumer
from airflow_provider_connect.spark.states import DaysToPoll, PlannedDays
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class DayPlanner:
    """Splits days into partitions."""

    splitter: DaySplitter
    resumer: PlanResumer
    counter: DayCounter | None

    def plan(self, days: DaysToPoll) -> PlannedDays:
        """Split days into partitions.

        :raises ConnectError: the days cannot be counted or planned, or the plan lacks a requested day or has another.
        """
        for day in days.days:
            self._prepare(day)
        parts = self.resumer.plan(days, is_split=self.splitter.is_split(days.days[0]))
        if len(parts) > 1:
            self.require_matching_counts(days.days)
        cost, ends_late = self.splitter.reserved_requests(days.days), self.splitter.can_split(days.days, len(parts))
        return PlannedDays(days, parts, self.resumer.reused_outcomes(days.days), cost, ends_late)

    def require_matching_counts(self, days: Sequence[Day]) -> None:
        """Require that split days match the vendor's counts, which decided their partitions."""
        for day in days:
            if self.counter is not None and self.splitter.is_split(day):
                self.counter.require_match(day)

    def _prepare(self, day: Day) -> None:
        is_split = self.splitter.split(day)
        if self.counter is None:
            return
        try:
            self.counter.count_before_plan(day, is_split=is_split)
        except ConfigError as error:
            if not is_split or self.counter.is_always_needed:
                raise
            self.splitter.stop_splitting(day, error)
