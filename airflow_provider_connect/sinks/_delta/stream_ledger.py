"""The ledger of one stream, which reads its table's log again if there is a new commit."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_connect.ledger import day_row, second_span_error, several_spans_error
from airflow_provider_connect.sink import DefinitionInForce, Ledger, LedgerRow, StreamKey
from airflow_provider_connect.sinks._delta import definitions
from airflow_provider_connect.sinks._delta.app_transactions import app_prefix, late_counts
from airflow_provider_connect.sinks._delta.erase_list import read_erase_list
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import commit_file_of, is_newest, make_durable, open_table
from airflow_provider_connect.sinks._delta.slots import Slot
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.storage import Folder, StoredFile
from airflow_provider_connect.window import ONE_DAY, DaySet, SourceKind

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._delta.options import DeltaOptions


def _row_with_late_counts(view: LedgerView, slot: Slot) -> LedgerRow:
    row = view.newest_of(slot)
    assert row is not None
    counts = row.counts | late_counts(view.finder(slot), slot.day)
    return row.model_copy(update={"polled_at": view.polled_at(slot), "counts": counts})


class NewestView:
    """The last view of a ledger, until the table has a newer version. Thread-safe."""

    def __init__(self) -> None:
        self._kept: tuple[LedgerView, StoredFile] | None = None

    def read(self, path: str, key: StreamKey) -> LedgerView:
        """Return the ledger in the newest version of its table. Opening a table of many days takes long."""
        if (kept := self._kept) is not None and is_newest(kept[0].folder, kept[0].table, kept[1]):
            return kept[0]
        view = LedgerView(Folder(path), open_table(path), key)
        commit_file = None if view.table is None else commit_file_of(view.folder, view.table)
        self._kept = None if commit_file is None else (view, commit_file)
        return view


@dataclass(frozen=True)
class DeltaLedger(Ledger):
    """One stream's ledger. Each call sees the newest commit."""

    options: DeltaOptions
    key: StreamKey
    newest_view: NewestView = field(default_factory=NewestView, compare=False, repr=False)

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the ledger row of a day's newest publish. Lacks token and digest if the log has lost the commit."""
        return self.view().row(day)

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return the newest ledger row of each day, all from one version of the table."""
        view = self.view()
        days = (first + ONE_DAY * i for i in range((last - first).days + 1))
        rows = (day_row([_row_with_late_counts(view, slot) for slot in view.slots_of(day)]) for day in days)
        return [row for row in rows if row is not None]

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the publish that the next publish of a day must follow, without details from the log's history."""
        if kind == "increment":
            return self.newest_increment(day, "")
        view = self.view()
        newest_day = view.predecessor(day, replaces_whole=self.options.replaces_whole(kind)).day
        row = view.newest(newest_day)
        return row and row.model_copy(update={"polled_at": view.polled_at(view.slots_of(newest_day)[-1])})

    def newest_increment(self, day: dt.date, run: str) -> LedgerRow | None:
        """Return the publish that a run's increment must follow, without details from the log's history."""
        view = self.view()
        slot = view.increment_to_follow(day, run)
        if run and self.options.write_mode == "merge":
            self._require_one_span(view, day, slot, run)
        row = view.newest_of(slot)
        return row and row.model_copy(update={"polled_at": view.polled_at(slot)})

    def _require_one_span(self, view: LedgerView, day: dt.date, slot: Slot, run: str) -> None:
        """Check that a merge repeats a day's only increment, or that the day has none.

        Tombstones and rows of a merge know their day alone, so the clear of an earlier run could bring rows back.
        """
        slots = view.slots_of(day)
        if len(slots) > 1:
            raise several_spans_error(day, len(slots))
        is_own = slot.day == day and slot.span is not None and slot.span.run == run
        if slots and not is_own:
            row = view.row_of(slots[-1])
            raise second_span_error(day, None if row is None else row.run or None)

    def definition_in_force(self) -> DefinitionInForce | None:
        """Return the definition of the stream's newest publish."""
        return definitions.definition_in_force(self.view().app_transactions, app_prefix(self.key))

    def notes(self) -> list[LedgerNote]:
        """Return the notes beside the table, if the table belongs to this stream."""
        view = self.view()
        return definitions.read_notes(view.folder) if view.belongs_to_stream else []

    def position_note(self, note_id: str) -> LedgerNote | None:
        """Return the note with a long position, which has a file of its own."""
        view = self.view()
        return definitions.read_position(view.folder, note_id) if view.belongs_to_stream else None

    def erased(self) -> EraseList:
        """Return the erase list of the table."""
        view = self.view()
        return read_erase_list(view.folder, view.table)

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the ledger row that an intent published, even if a newer publish followed.

        Flushes the log: the publisher may have been killed before its flush.
        """
        view = self.view()
        row = view.published(day, token)
        if row is not None and view.table is not None:
            make_durable(view.folder, view.table)
        return row

    def days(self) -> DaySet:
        """Return all published days."""
        return self.view().days()

    def view(self) -> LedgerView:
        """Return the ledger in the newest version of its table."""
        return self.newest_view.read(self.options.ledger_path, self.key)
