"""The contract of ledgers: a sink's record of the published days of one stream."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.definition import digest_of
from airflow_provider_connect.stage.erase_list import EraseList, is_erase_run
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.window import ONE_DAY, DaySet, SourceKind
from airflow_provider_connect.wire import Wire


class StreamKey(Wire):
    """Key of a stream in a ledger."""

    connector: str
    stream: str

    def __str__(self) -> str:
        return f"{self.connector}/{self.stream}"


class Intent(Wire):
    """The task run for which a day is published. Retries and crashes keep it. A clear or a new run has another.

    :param token: digest of (dag_id, run_id, task, map index, dag_run.start_date, dag_run.clear_number).
    :param run: ``dag_id/run_id/task_id``, and ``[map index]`` for a mapped task. The same after a clear.
    :param clear_number: number of clears of the run, from 0.
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
    """Return the task in an intent's ``run``."""
    return f"{run.partition('/')[0]}/{run.rpartition('/')[2]}"


class LedgerRow(Wire):
    """One published day, or span of increments, as the sink records it.

    :param generation: 1 for the first publish, one more for every reload.
    :param checks: number of confirmations of this generation.
    :param token: the intent that published or last confirmed the day. ``run`` and ``clear_number`` belong to it.
    :param rows: visible rows in the sink, without soft-deleted ones.
    :param counts: counts of the day's report.
    :param answer: see :class:`.Publish`.
    :param polled_at: time of the last poll whose answer was published or confirmed, UTC. Only for people.
    :param span: the range that an increment has read.
    :param definition: digest of the :class:`.StreamDefinition` with which the day was loaded. None if an earlier
        version published the day.
    :param reference: id of the publish in the sink, for people.
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

    @property
    def span_number(self) -> int | None:
        """Number of the span that an increment has read, or None for other kinds."""
        return None if self.span is None else self.span.number


def day_row(rows: Sequence[LedgerRow]) -> LedgerRow | None:
    """Return one row for a day of increments, or None: the sums of its spans' rows and counts.

    Generation: the highest. Other fields: the newest span's.
    """
    if len(rows) < 2:
        return rows[0] if rows else None
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row.counts)
    newest = max(rows, key=lambda row: row.span_number or 0)
    return newest.model_copy(
        update={
            "generation": max(row.generation for row in rows),
            "rows": sum(row.rows for row in rows),
            "counts": dict(counts),
        }
    )


class DefinitionInForce(NamedTuple):
    """The definition with which a stream's newest publish was loaded, and the task that published it.

    :param digest: 15 hex digits, the id of the definition's note.
    :param task: the publishing intent's :attr:`.Intent.task_digest`.
    """

    digest: str
    task: str


class Ledger(ABC):
    """The published days of one stream in one sink.

    Every method reads the sink again.
    """

    @abstractmethod
    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the day's newest published state, or None if it was never published.

        For increments, all spans of the day together (:func:`day_row`).
        """

    @abstractmethod
    def days(self) -> DaySet:
        """Return all published days."""

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return the newest state of each published day from ``first`` to ``last``, oldest first.

        Required fields: ``rows``, ``generation``, ``polled_at``, ``definition``, late counts
        (:data:`.stage.counts.LATE_COUNTS`), ``shape_filtered``, ``erased``, ``rows_polled``.
        """
        days = (first + ONE_DAY * i for i in range((last - first).days + 1))
        return [row for day in days if (row := self.row(day)) is not None]

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the publish that the next publish of a day must follow, if any.

        For days, the day's newest publish. For replacing snapshots, the stream's newest. For increments, see
        :meth:`newest_increment`.
        """
        return self.row(day)

    def newest_increment(self, day: dt.date, run: str) -> LedgerRow | None:
        """Return the publish that a run's increment must follow, or None.

        First of: a publish of the day without a span, the day's span of the run, the stream's newest span.

        :param run: the intent's :attr:`Intent.run`.
        :raises ConfigError: the ledger keeps one span a day, and the day's belongs to another run.
        """
        row = self.newest(day, "increment")
        if row is None or row.span is None or row.day != day:
            return row
        owner = row.span.run or (None if is_erase_run(row.run) else row.run)
        if owner != run:
            raise second_span_error(day, owner)
        return row.model_copy(update={"span": row.span.model_copy(update={"run": run})})

    def erased(self) -> EraseList:
        """Return the target's erase list, which all streams share. Empty by default."""
        return EraseList()

    def definition_in_force(self) -> DefinitionInForce | None:
        """Return the definition of the stream's newest publish that has one, of any day.

        Erases have none.
        """
        return None

    def notes(self) -> Sequence[LedgerNote]:
        """Return the notes of the stream, unordered, perhaps without those of kind ``position``."""
        return ()

    def position_note(self, note_id: str) -> LedgerNote | None:
        """Return the note with a long position, or None."""
        return next((note for note in self.notes() if (note.kind, note.id) == ("position", note_id)), None)

    @abstractmethod
    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the row that an intent published or confirmed, even before a later generation.

        :raises ConfigError: another intent's day in a sink that only appends.
        """


def second_span_error(day: dt.date, owner: str | None) -> ConfigError:
    """Return the error for a second increment of a day in a sink that keeps one a day.

    :param owner: run of the first, if known.
    """
    return ConfigError(
        f"day {day} has an increment of {'an unknown run' if owner is None else f'run {owner}'} already, and "
        "this sink keeps one increment a day. Clear that run to read its rows again, or let the next "
        "day's run read the later rows"
    )


def several_spans_error(day: dt.date, spans: int) -> ConfigError:
    """Return the error for a repeated increment of a day that has several, in a sink that keeps one a day."""
    return ConfigError(
        f"day {day} has {spans} increments from before the target was merged by key. A merge cannot load one of them "
        "again. Leave the day: later runs update its rows"
    )
