"""Publishes days into a Delta table. Staged files become the table's files, so there is no ``put``."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.publisher import (
    Confirms,
    Erases,
    InspectsTarget,
    KeepsNotes,
    KeepsRejects,
    Sweeps,
    TellsDifferences,
)
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher, StreamKey
from airflow_provider_connect.sinks._delta.commit import Commit
from airflow_provider_connect.sinks._delta.confirm import Confirmation
from airflow_provider_connect.sinks._delta.copies import copies_of
from airflow_provider_connect.sinks._delta.create import create, probe, require_writable
from airflow_provider_connect.sinks._delta.definitions import write_note
from airflow_provider_connect.sinks._delta.differences import from_published
from airflow_provider_connect.sinks._delta.eraser import TableEraser
from airflow_provider_connect.sinks._delta.ledger import DeltaLedger, LedgerView
from airflow_provider_connect.sinks._delta.log import open_table, secure
from airflow_provider_connect.sinks._delta.options import DeltaOptions
from airflow_provider_connect.sinks._delta.others import foreign_changes, locking_problems, require_only_newest
from airflow_provider_connect.sinks._delta.rejects import rejects_of
from airflow_provider_connect.sinks._delta.soft import require_published_keys, require_soft_deletes
from airflow_provider_connect.sinks._delta.sweep import Sweeper
from airflow_provider_connect.sinks._delta.table import delta_columns, merged, ownership_problems, soft_columns
from airflow_provider_connect.stage.deleted import with_marks
from airflow_provider_connect.stage.differences import Differences
from airflow_provider_connect.stage.erasing import Erasure, ShapingDigest, unshaped
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rejects import DayRejects
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)


class DeltaPublisher(Publisher, Confirms, Erases, InspectsTarget, KeepsNotes, KeepsRejects, Sweeps, TellsDifferences):
    """Publishes one stream into one table."""

    def __init__(self, options: DeltaOptions, key: StreamKey) -> None:
        self._options = options
        self._path = options.path
        self._key = key

    @property
    def ledger(self) -> DeltaLedger:
        """The ledger that lives in the table's log."""
        return DeltaLedger(self._options, self._key)

    def note(self, note: LedgerNote) -> None:
        """Keep a note in a file beside the table."""
        write_note(Folder(self._options.ledger_path), note)

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return what would fail the publish; if nothing would, make the table if it is missing."""
        try:
            if problems := locking_problems(self._path):
                return problems
            columns, softly = delta_columns(schema), self._options.deletes == "soft"
            if softly:
                require_soft_deletes(schema, kind)
            table = open_table(self._path)
            if table is None:
                probe(self._path)
                table = create(self._path, self._key, with_marks(schema) if softly else schema)
            if problems := ownership_problems(table, self._key, self._path):
                return problems
            own = soft_columns() if softly else {}
            merged(table, columns, self._options.schema_contract, self._path, own)
            probe(self._path)
            folder = Folder(self._path)
            secure(folder, table)
            view = LedgerView(folder, table, self._key)
            if self._options.replaces_whole(kind):
                require_only_newest(view)
            if softly:
                require_published_keys(view)
            if changes := foreign_changes(view):
                _LOG.warning("table %s: %s", self._path, changes)
        except (ConfigError, DataError) as error:
            return [str(error)]
        return []

    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return what would fail the publish; whether a store can be written, only the first job finds out."""
        try:
            if problems := locking_problems(self._path):
                return problems
            columns, softly = delta_columns(schema), self._options.deletes == "soft"
            if softly:
                require_soft_deletes(schema, kind)
            require_writable(self._path)
            if (table := open_table(self._path)) is None:
                return []
            if problems := ownership_problems(table, self._key, self._path):
                return problems
            own = soft_columns() if softly else {}
            merged(table, columns, self._options.schema_contract, self._path, own)
            view = LedgerView(Folder(self._path), table, self._key)
            if self._options.replaces_whole(kind):
                require_only_newest(view)
            if softly:
                require_published_keys(view)
        except (ConfigError, DataError) as error:
            return [str(error)]
        return []

    def differences(self, publish: Publish) -> Differences | None:
        """Compare the staged files with the table's files of the day; both are read once, whole."""
        view = LedgerView(Folder(self._path), open_table(self._path), self._key)
        return from_published(view, publish, softly=self._options.deletes_softly(publish.kind))

    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        """Replace the day, or the whole, by the staged files and write its ledger row, in one commit to the log."""
        return Commit(self._options, publish).run()

    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the rows that :meth:`erase` would take out, by day; reads one column of every file."""
        return self._eraser(column).found(values)

    def erase(self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = unshaped) -> Erasure:
        """Take rows out: of each day that has some, every file is written anew.

        Older versions of the table hold the rows until they are vacuumed, and a day's rejects may hold them as well.
        """
        return self._eraser(column).erase(values, kind, shaping)

    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        """Yield what the source set aside of each published day, from the files beside the table."""
        folder = Folder(self._path)
        return rejects_of(LedgerView(folder, open_table(self._path), self._key), folder, first, last)

    def copies(self) -> list[str]:
        """Name what lies beside the table, and its older versions."""
        return copies_of(Folder(self._path), self._path, self._sweeper())

    def _eraser(self, column: str) -> TableEraser:
        return TableEraser(self._options, self._key, column)

    def confirm(self, publish: Publish) -> LedgerRow:
        """Write the day's ledger row again with one more check, in a commit to the log without a file."""
        return Confirmation(self._options, publish).run()

    def sweep(self) -> int:
        """Delete unpublished files of attempts that have been silent for ``sweep_after``."""
        return self._sweeper().run()

    def leftovers(self) -> list[str]:
        """Return the unpublished files that :meth:`sweep` would delete."""
        return self._sweeper().listed()

    def _sweeper(self) -> Sweeper:
        return Sweeper(Folder(self._path), self._key, self._options.sweep_after)
