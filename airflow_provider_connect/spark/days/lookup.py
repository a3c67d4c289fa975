"""The first step: looks days up in the ledger, then in the stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_connect.errors import Failure
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.spark.context import JobContext
from airflow_provider_connect.spark.days.publish import report_of_published
from airflow_provider_connect.spark.days.sweep import delete_stage
from airflow_provider_connect.spark.states import DayStager, DayState, StagedDay, UnpolledDay
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class DayLookup:
    """Looks days up in the ledger and in the stage."""

    context: JobContext
    stager: DayStager

    def read_erase_list(self) -> EraseList:
        """Return the erase list that applies to the days' rows.

        :raises ConnectError: the ledger is unreachable, or the list was made for other shapes.
        """
        outlet, shaping = self.context.outlet, self.context.intake.declared_shaping
        return outlet.publisher.ledger.erased().require_same_shapes(shaping.column_digest, outlet.sink.target)

    def look_up(self, days: Sequence[Day], erased: EraseList) -> dict[Day, DayState]:
        """Return the state of each day: its report if this intent has published it, else staged, unpolled or failed."""
        return {day: self._look_up_day(day, erased) for day in days}

    def _look_up_day(self, day: Day, erased: EraseList) -> DayState:
        try:
            ledger, job = self.context.outlet.publisher.ledger, self.context.job
            if (row := ledger.published(day.date, job.intent.token)) is not None:
                self._delete_leftovers(day)
                return report_of_published(day, row)
            newest = self._newest_row(day)
            manifest = self.stager.reusable_manifest(day, seen_publish(newest, erased.version))
            return UnpolledDay(newest) if manifest is None else StagedDay(manifest, newest, is_from_earlier_try=True)
        except Exception as error:  # noqa: BLE001  # it concerns this day alone
            return Failure.from_error(error)

    def _newest_row(self, day: Day) -> LedgerRow | None:
        """Return the ledger row that the day's publish must follow, or None."""
        ledger, kind = self.context.outlet.publisher.ledger, self.context.intake.source.kind
        if kind == "increment":
            return ledger.newest_increment(day.date, self.context.job.intent.run)
        return ledger.newest(day.date, kind)

    def _delete_leftovers(self, day: Day) -> None:
        """Delete staged files of drivers that published the day and died before their cleanup."""
        if not self.context.outlet.keeps_stage:
            for leftover in self.stager.earlier_attempts.manifests(day):
                delete_stage(self.context.outlet, leftover)
