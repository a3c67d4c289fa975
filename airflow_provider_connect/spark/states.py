"""The states of a day from the first ledger lookup to its report. Each step turns one into the next."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from airflow_provider_connect.errors import ConnectError, Failure, worst_failure
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.spark.attempts import EarlierAttempts
from airflow_provider_connect.spark.poll import PollOutcome
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.manifest import Manifest, PollResult, SeenPublish
from airflow_provider_connect.stage.spans import Restart
from airflow_provider_connect.window import Day


class Admission(NamedTuple):
    """Result of comparing the stream's definition with the ledger before the poll.

    :param digest: of the attempt's definition, or None if the ledger keeps no definitions.
    :param definition_in_force: digest of the ledger's current definition.
    :param restart: position at which an increment continues after an alarm.
    :param is_first_load: the ledger has no published day.
    """

    digest: str | None = None
    definition_in_force: str | None = None
    restart: Restart | None = None
    is_first_load: bool = False


NOT_COMPARED = Admission()
"""Admission for a ledger that keeps no notes."""


@dataclass(frozen=True)
class UnpolledDay:
    """A day that is neither in the ledger nor in the stage.

    :param newest_row: the ledger's newest row, which the publish must follow.
    """

    newest_row: LedgerRow | None


@dataclass(frozen=True)
class StagedDay:
    """A day whose rows are in the stage."""

    manifest: Manifest
    newest_row: LedgerRow | None
    is_from_earlier_try: bool = False
    admission: Admission = NOT_COMPARED


DayState = DayReport | UnpolledDay | StagedDay | Failure
"""Reported, unpolled, staged, or failed. The report is the last state."""


@dataclass(frozen=True)
class DaysToPoll:
    """The days of one plan, each with the ledger row that its publish must follow.

    :param newest_rows: ledger rows by day, in ascending order.
    :param attempt: name of the attempt, without the day.
    """

    newest_rows: Mapping[Day, LedgerRow | None]
    attempt: str
    erase_list: EraseList
    restart: Restart | None = None
    is_first_load: bool = False

    @property
    def days(self) -> tuple[Day, ...]:
        """The days, in ascending order."""
        return tuple(self.newest_rows)

    def single(self, day: Day) -> DaysToPoll:
        """Return a plan of one of the days."""
        return replace(self, newest_rows={day: self.newest_rows[day]})

    def attempt_of(self, day: Day) -> str:
        """Return the attempt's name for a day."""
        return f"{self.attempt}-{day.date:%Y%m%d}"

    def seen_publish(self, day: Day) -> SeenPublish:
        """Return the ledger's state before the poll. The commit requires the same state."""
        return seen_publish(self.newest_rows[day], self.erase_list.version)

    def last_polled_at(self, day: Day) -> dt.datetime | None:
        """Return when this day was last polled, or None."""
        newest = self.newest_rows[day]
        return newest.polled_at if newest is not None and newest.day == day.date else None


@dataclass(frozen=True)
class PlannedDays:
    """Days split into partitions.

    :param ends_at_deadline: as :attr:`.PollTask.ends_late`.
    """

    days: DaysToPoll
    partitions: Sequence[InputPartition]
    reused_outcomes: Mapping[int, PollOutcome]
    reserved_requests: int
    ends_at_deadline: bool


@dataclass(frozen=True)
class PolledDays:
    """Outcomes of a plan's partitions.

    :param outcomes: in the order of the partitions, or fewer if some were not started.
    """

    planned: PlannedDays
    outcomes: Sequence[PollOutcome]

    def result_of(self, day: Day) -> PollResult | Failure:
        """Return the total of a day's partitions, or their worst failure."""
        planned = [part for part in self.planned.partitions if day in part.days]
        pairs = zip(self.planned.partitions, self.outcomes, strict=False)
        answers = [outcome for part, outcome in pairs if day in part.days]
        failure = worst_failure([answer.failure for answer in answers if answer.failure])
        if failure is not None:
            return failure
        polled = [answer.polled[day.date] for answer in answers if answer.polled is not None]
        if len(polled) != len(planned):
            text = f"day {day}: {len(planned)} partitions were planned, but {len(polled)} answered"
            return Failure.from_error(ConnectError(text))
        return PollResult.total(polled)


@dataclass(frozen=True)
class CheckedDay:
    """A staged day that may be published.

    :param is_confirmation: the answer equals the published one, so the sink only confirms it.
    """

    staged: StagedDay
    publish: Publish
    is_confirmation: bool
    warnings: tuple[str, ...]


class DayStager(Protocol):
    """Turns days to poll into staged days, with or without a transform."""

    @property
    def earlier_attempts(self) -> EarlierAttempts:
        """Staged days of earlier tries of the same intent."""

    def stage(self, days: DaysToPoll) -> dict[Day, Manifest | Failure]:
        """Poll the days of one plan, and write a manifest for each staged day.

        :raises ConnectError: an error that concerns all days.
        """

    def reusable_manifest(self, day: Day, seen_publish: SeenPublish) -> Manifest | None:
        """Return the newest complete manifest of an earlier try that follows ``seen_publish``, or None."""
