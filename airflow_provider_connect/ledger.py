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
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.window import ONE_DAY, DaySet, SourceKind
from airflow_provider_connect.wire import Wire


class StreamKey(Wire):
    """Key of a stream in a ledger: the connector's name, and the source's name for the stream."""

    connector: str
    stream: str

    def __str__(self) -> str:
        return f"{self.connector}/{self.stream}"


class Intent(Wire):
    """The task run for which a day is published. Retries and crashes keep it. A clear or a new run has another.

    :param token: digest of (dag_id, run_id, task, map index, dag_run.start_date, dag_run.clear_number).
    :param run: ``dag_id/run_id/task_id``, and ``[map index]`` for a mapped task. The same after a clear, and for a run
        that is deleted and created again.
    :param clear_number: number of clears of the run. A run created again starts at 0.
    """

    token: str
    run: str
    clear_number: int = 0

    @property
    def task(self) -> str:
        """The task without its run: ``dag_id/task_id``, and ``[map index]`` if mapped."""
        return task_of(self.run)

    @property
    def task_digest(self) -> str:
        """Digest of the task: 15 hex digits, which fit into a signed 64-bit number."""
        return digest_of(self.task)


def task_of(run: str) -> str:
    """Return the task in an intent's ``run``. Run ids may contain slashes, ids of DAGs and tasks do not."""
    return f"{run.partition('/')[0]}/{run.rpartition('/')[2]}"


class LedgerRow(Wire):
    """One published day, as the sink records it.

    :param generation: 1 for a day's first publish, one more for every reload.
    :param checks: confirmations of this generation: the source returned the same answer again.
    :param token: the intent that published the day or confirmed it last, like ``run`` and ``clear_number``. Fields that
        describe the data stay as published.
    :param rows: visible rows in the sink, without soft-deleted ones.
    :param counts: counts of the day's report, with ``rows_read``, ``duplicates`` and ``rejected`` (by source and sink).
    :param answer: see :class:`.Publish`.
    :param polled_at: time of the last poll whose answer was published or confirmed, UTC. Only for people, like
        ``published_at``.
    :param span: the range that an increment has read.
    :param definition: digest of the :class:`.StreamDefinition` with which the day was loaded. None if an earlier
        version of this package published the day. An erase keeps it.
    :param reference: id of the publish in the sink, for people: a job or a transaction.
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
    """The definition with which a stream's newest publish was loaded, and the task that published it.

    :param digest: 15 hex digits, the id of the definition's note.
    :param task: the publishing intent's :attr:`.Intent.task_digest`.
    """

    digest: str
    task: str


class Ledger(ABC):
    """The published days of one stream in one sink, for driver and Airflow task.

    Every method reads the sink again.
    """

    @abstractmethod
    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the day's newest published state, or None if it was never published."""

    @abstractmethod
    def days(self) -> DaySet:
        """Return all published days."""

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return the newest state of each published day from ``first`` to ``last``, oldest first.

        Required fields: ``rows``, ``generation``, ``polled_at``, ``definition``, and the counts of late rows
        (:data:`.stage.counts.LATE_COUNTS`) and of removed rows (``shape_filtered``, ``erased``, ``rows_polled``).
        """
        days = (first + ONE_DAY * i for i in range((last - first).days + 1))
        return [row for day in days if (row := self.row(day)) is not None]

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the publish that the next publish of a day must follow, if any.

        * For days, the day's newest publish.
        * For snapshots that replace everything, the stream's newest, of any day. Rows after its ``polled_at`` are late.
        * For increments, the day's newest publish, else the stream's publish with the highest span number.
        """
        return self.row(day)

    def erased(self) -> EraseList:
        """Return the target's erase list, which all streams share. Empty by default."""
        return EraseList()

    def definition_in_force(self) -> DefinitionInForce | None:
        """Return the definition of the stream's newest publish that has one, of any day.

        Erases, and publishes of an earlier version of this package, have none.
        """
        return None

    def notes(self) -> Sequence[LedgerNote]:
        """Return all notes of the stream, unordered. Empty if the sink keeps none."""
        return ()

    @abstractmethod
    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the row that an intent published or confirmed for a day, even if a later generation followed.

        :raises ConfigError: the sink only appends, and another intent has published the day.
        """
