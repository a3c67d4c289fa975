"""The first step: what the ledger, and then the stage, know of days that are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_connect.errors import Failure
from airflow_provider_connect.publishing import seen_in
from airflow_provider_connect.spark.context import Context
from airflow_provider_connect.spark.days.publish import already_published
from airflow_provider_connect.spark.days.sweep import forget
from airflow_provider_connect.spark.states import DayFreezer, DayState, FrozenDay, UnpolledDay
from airflow_provider_connect.stage.erasing import EraseList
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class Look:
    """Looks days up."""

    context: Context
    freezer: DayFreezer

    def erase_list(self) -> EraseList:
        """Return the erase list that the days' rows are held against.

        :raises ConnectError: the ledger is away, or the list is of other shapes.
        """
        outlet, shaping = self.context.outlet, self.context.intake.shaping
        return outlet.publisher.ledger.erased().accepted(shaping.column_digest, outlet.sink.target)

    def states(self, days: Sequence[Day], erased: EraseList) -> dict[Day, DayState]:
        """Return a report for each day that is published already, else its state."""
        return {day: self._state(day, erased) for day in days}

    def _state(self, day: Day, erased: EraseList) -> DayState:
        try:
            ledger, job = self.context.outlet.publisher.ledger, self.context.job
            if (row := ledger.published(day.date, job.intent.token)) is not None:
                self._forget_leftovers(day)
                return already_published(day, row)
            newest = ledger.newest(day.date, self.context.intake.source.kind)
            kept = self.freezer.kept(day, seen_in(newest, erased.version))
            return UnpolledDay(newest) if kept is None else FrozenDay(kept, newest, is_kept=True)
        except Exception as error:  # noqa: BLE001  # it concerns this day alone
            return Failure.of(error)

    def _forget_leftovers(self, day: Day) -> None:
        """Delete the staged files of drivers that published the day and died before they cleaned up."""
        if not self.context.outlet.keeps_stage:
            for leftover in self.freezer.leftovers.manifests(day):
                forget(self.context.outlet, leftover)
