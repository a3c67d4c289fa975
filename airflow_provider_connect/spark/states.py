"""The states of a day between the first look into the ledger and its report. Each step makes one of another."""

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
    """Definitions that a commit compares, and the beginning of an increment.

    :param digest: digest of the attempt's definition; None if the ledger keeps no definitions.
    :param seen: digest of the definition in force when the attempt compared; None if there was none.
    :param restart: position where the stream goes on after an alarm; None without an alarm.
    """

    digest: str | None = None
    definition_in_force: str | None = None
    restart: Restart | None = None


NOT_COMPARED = Admission()
"""Admission for a ledger that keeps no notes."""


@dataclass(frozen=True)
class UnpolledDay:
    """A day that neither the ledger nor the stage has.

    :param newest: the ledger's newest row, which the publish must follow.
    """

    newest_row: LedgerRow | None


@dataclass(frozen=True)
class StagedDay:
    """A day in the stage.

    :param newest: the ledger's newest row before the publish.
    :param is_kept: whether an earlier try froze it.
    :param admission: the definition that it is published with.
    """

    manifest: Manifest
    newest_row: LedgerRow | None
    is_from_earlier_try: bool = False
    admission: Admission = NOT_COMPARED


DayState = DayReport | UnpolledDay | StagedDay | Failure
"""Of a day that is not published yet: unpolled, frozen, or failed; a report ends its life."""


@dataclass(frozen=True)
class DaysToPoll:
    """The days of one plan, with all that the ledger says of them.

    :param newest: by day, in ascending order, the publish that the next one must follow.
    :param attempt: the attempt's name, without the day.
    :param erased: erase list, whose rows are left out.
    :param restart: where an increment begins after an alarm.
    """

    newest_rows: Mapping[Day, LedgerRow | None]
    attempt: str
    erase_list: EraseList
    restart: Restart | None = None

    @property
    def days(self) -> tuple[Day, ...]:
        """The days, in ascending order."""
        return tuple(self.newest_rows)

    def single(self, day: Day) -> DaysToPoll:
        """Return one of the days alone."""
        return replace(self, newest_rows={day: self.newest_rows[day]})

    def attempt_of(self, day: Day) -> str:
        """Return the attempt's name for a day."""
        return f"{self.attempt}-{day.date:%Y%m%d}"

    def seen_publish(self, day: Day) -> SeenPublish:
        """Return what the commit compares."""
        return seen_publish(self.newest_rows[day], self.erase_list.version)

    def last_polled_at(self, day: Day) -> dt.datetime | None:
        """Return when the day itself was polled last."""
        newest = self.newest_rows[day]
        return newest.polled_at if newest is not None and newest.day == day.date else None


@dataclass(frozen=True)
class PlannedDays:
    """Days cut into partitions.

    :param taken: outcomes that an earlier try has left, by the partition's index.
    :param cost: how many requests were reserved for them.
    :param ends_late: whether a request that runs into its deadline ends the poll, as smaller ones can be planned.
    """

    days: DaysToPoll
    partitions: Sequence[InputPartition]
    reused_outcomes: Mapping[int, PollOutcome]
    reserved_requests: int
    ends_at_deadline: bool


@dataclass(frozen=True)
class PolledDays:
    """What the partitions of a plan brought.

    :param outcomes: in the order of the partitions; fewer if not all were begun.
    """

    planned: PlannedDays
    outcomes: Sequence[PollOutcome]

    def result_of(self, day: Day) -> PollResult | Failure:
        """Return what the partitions that name a day brought of it, or the worst of their failures."""
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
    """A frozen day that may be published.

    :param confirms: whether it is the published answer once more, which the sink only notes.
    :param warnings: what looks wrong with it.
    """

    staged: StagedDay
    publish: Publish
    is_confirmation: bool
    warnings: tuple[str, ...]


class DayStager(Protocol):
    """The steps from a day to poll to a frozen day, with or without a transform among them."""

    @property
    def earlier_attempts(self) -> EarlierAttempts:
        """Frozen days of earlier tries of the same intent."""

    def stage(self, days: DaysToPoll) -> dict[Day, Manifest | Failure]:
        """Poll the days of one plan, and write a manifest for each that could be frozen.

        :raises ConnectError: what is wrong with all of them.
        """

    def reusable_manifest(self, day: Day, seen: SeenPublish) -> Manifest | None:
        """Return the newest whole manifest of an earlier try of the same intent that has seen the same publish."""
