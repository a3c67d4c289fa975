"""The step from days to partitions: split at a deadline, counted where the plan needs it, gone on with or new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.spark.capabilities.counts import Counts
from airflow_provider_connect.spark.capabilities.deadlines import Deadlines
from airflow_provider_connect.spark.capabilities.resuming import Resuming
from airflow_provider_connect.spark.states import DaysToPoll, PlannedDays
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class Planner:
    """Plans days.

    :param counts: the vendor's own, which some plans need.
    """

    deadlines: Deadlines
    resuming: Resuming
    counts: Counts | None

    def plan(self, days: DaysToPoll) -> PlannedDays:
        """Cut days into partitions.

        :raises ConnectError: they cannot be counted or planned, or the source plans others.
        """
        for day in days.days:
            self._prepare(day)
        parts = self.resuming.planned(days, is_split=self.deadlines.is_split(days.days[0]))
        if len(parts) > 1:
            self.hold_split(days.days)
        cost, ends_late = self.deadlines.cost(days.days), self.deadlines.can_split(days.days, len(parts))
        return PlannedDays(days, parts, self.resuming.taken(days.days), cost, ends_late)

    def hold_split(self, days: Sequence[Day]) -> None:
        """Have days compared with the counts that decided their partitions."""
        for day in days:
            if self.counts is not None and self.deadlines.is_split(day):
                self.counts.hold_to(day)

    def _prepare(self, day: Day) -> None:
        """Count a day whose plan needs it: one that ran into its deadline, or each, as the source says.

        :raises ConnectError: it cannot be counted.
        """
        is_split = self.deadlines.split(day)
        if self.counts is None:
            return
        try:
            self.counts.before_plan(day, is_split=is_split)
        except ConfigError as error:
            if not is_split or self.counts.are_always_needed:
                raise
            self.deadlines.leave_whole(day, error)
