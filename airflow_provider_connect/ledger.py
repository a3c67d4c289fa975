"""The contract of ledgers: a sink's record of the days that one stream has published into it.

A row describes one published day. Notes (:mod:`.stage.notes`) describe the stream.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from airflow_provider_connect.stage.definition import digest_of
from airflow_provider_connect.stage.erasing import EraseList
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.window import ONE_DAY, DaySet, SourceKind
from airflow_provider_connect.wire import Wire


class StreamKey(Wire):
    """Which stream a ledger row is about: the connector's name and the source's own name for the stream."""

    connector: str
    stream: str

    def __str__(self) -> str:
        """Return ``connector/stream``."""
        return f"{self.connector}/{self.stream}"


class Intent(Wire):
    """Who wants a day published: the same over retries and crashes, another after a clear or a new run.

    :param token: digest of (dag_id, run_id, task, map index, dag_run.start_date, dag_run.clear_number).
    :param run: the task's own run, and where to look in Airflow: ``dag_id/run_id/task_id``, with ``[map index]``
        behind it for a mapped task. Clears keep it, and so does a run that is deleted and made again.
    :param clear_number: how often the run was cleared; starts at 0 again when the run is made again.
    """

    token: str
    run: str
    clear_number: int = 0

    @property
    def task(self) -> str:
        """The task of the run, whatever the run: ``dag_id/task_id``, with ``[map index]`` behind it if it is mapped."""
        return task_of(self.run)

    @property
    def task_digest(self) -> str:
        """15 hex digits of the task, which fit into a signed 64-bit number."""
        return digest_of(self.task)


def task_of(run: str) -> str:
    """Return the task that an intent's ``run`` names. A run's id may hold slashes, those of DAG and task hold none."""
    return f"{run.partition('/')[0]}/{run.rpartition('/')[2]}"


class LedgerRow(Wire):
    """One published day, as the sink remembers it.

    :param generation: 1 for a day's first publish, one more for every reload.
    :param checks: how often this generation was confirmed: the source gave the same answer again.
    :param token: the intent it was published for, or confirmed for last; ``run`` and ``clear_number`` are that
        intent's. All that tells of the data stays as it was published.
    :param rows: rows visible in the sink, without those that are soft-deleted.
    :param counts: what the day's report counted, ``rows_read``, ``duplicates`` and ``rejected`` among it; the last
        includes what the sink itself set aside.
    :param answer: what was published and how: :class:`Publish` says more. None if it is not known.
    :param polled_at: when the source was asked, UTC, last of all if it was confirmed; for people, like
        ``published_at``: no clock decides anything.
    :param span: what an increment has read; None of other rows.
    :param definition: digest of the :class:`.StreamDefinition` that the day was loaded with. None if an earlier version
        of this package published the day. An erase does not change it.
    :param reference: what the sink calls the publish, for people: a job's or a transaction's id.
    :param link: where a person can look at it; an https URL.
    """

    day: dt.date
    generation: int
    checks: int = 0
    token: str
    rows: int
    run: str | None = None
    clear_number: int = 0
    digest: str | None = None
    answer: str | None = None
    attempt: str | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    polled_at: dt.datetime | None = None
    published_at: dt.datetime | None = None
    span: Span | None = None
    definition: str | None = None
    reference: str | None = None
    link: str | None = None


class DefinitionInForce(NamedTuple):
    """Digest of the definition that a stream's newest publish was loaded with, and who published it.

    :param digest: 15 hex digits, the id of the definition's note.
    :param task: 15 hex digits, the publishing intent's :attr:`.Intent.task_digest`.
    """

    digest: str
    task: str


class Ledger(ABC):
    """What one stream has published into one sink: the truth that offsets follow. Driver and Airflow task."""

    @abstractmethod
    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the newest published state of a day, None if it never was. Reads the sink anew."""

    @abstractmethod
    def days(self) -> DaySet:
        """Return every published day. Reads the sink anew."""

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return the newest published state of each published day from ``first`` to ``last``, oldest first.

        Reads the sink anew: day by day, where a sink cannot ask about several days at once. Of a row's details, only
        ``rows``, ``generation``, ``polled_at``, ``definition``, and the counts of late rows
        (:data:`.stage.counts.LATE_COUNTS`) and of rows left out (``shape_filtered``, ``erased``, ``rows_polled``) need
        to be there.
        """
        days = (first + ONE_DAY * i for i in range((last - first).days + 1))
        return [row for day in days if (row := self.row(day)) is not None]

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the publish that the next one of a day must follow; None where there is none. Reads the sink anew.

        That is the day's own newest. A sink in which a snapshot replaces the whole returns the stream's newest
        snapshot instead, of whatever day. What came since its ``polled_at`` is counted as late. Of increments it is the
        day's own; of a day that has none yet, the stream's newest, which is the one whose span has the highest number.
        """
        return self.row(day)

    def erased(self) -> EraseList:
        """Return the erase list of the target, for all streams. Reads the sink anew. By default an empty list."""
        return EraseList()

    def definition_in_force(self) -> DefinitionInForce | None:
        """Return the definition of the stream's newest publish, whatever its day. Reads the sink anew.

        Skips publishes without a definition: erases, and publishes of an earlier version of this package. Returns None
        if no publish has a definition.
        """
        return None

    def notes(self) -> Sequence[LedgerNote]:
        """Return all notes of the stream, in any order. Reads the sink anew. Empty if the sink keeps no notes."""
        return ()

    @abstractmethod
    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return what was published of a day for one intent; None if nothing was. Reads the sink anew.

        A later generation may have covered it: the sink remembers the tokens of earlier ones. So it does the tokens of
        those that confirmed a generation.

        :raises ConfigError: a sink that only adds refuses a day that another intent has published.
        """
