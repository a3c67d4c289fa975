"""Publishes days into several Delta tables, one for each value of a column."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.publisher import Erases, InspectsTarget, KeepsNotes, KeepsRejects, Sweeps
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher, StreamKey
from airflow_provider_connect.sinks._delta.copies import copies_of
from airflow_provider_connect.sinks._delta.create import create, probe, require_writable
from airflow_provider_connect.sinks._delta.definitions import write_note
from airflow_provider_connect.sinks._delta.log import LOG, secure
from airflow_provider_connect.sinks._delta.options import DeltaOptions
from airflow_provider_connect.sinks._delta.others import locking_problems
from airflow_provider_connect.sinks._delta.rejects import rejects_of
from airflow_provider_connect.sinks._delta.table import delta_columns, merged, ownership_problems
from airflow_provider_connect.sinks._delta.tables.commit import TablesCommit
from airflow_provider_connect.sinks._delta.tables.eraser import TablesEraser
from airflow_provider_connect.sinks._delta.tables.head import HeadView, TablesLedger, open_head
from airflow_provider_connect.sinks._delta.tables.sweep import TablesSweeper
from airflow_provider_connect.stage.erasing import Erasure, ShapingDigest, unshaped
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rejects import DayRejects
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import Tables
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 5
_LOG = logging.getLogger(__name__)


class TablesPublisher(Publisher, Erases, InspectsTarget, KeepsNotes, KeepsRejects, Sweeps):
    """Publishes one stream into the tables of one template."""

    def __init__(self, options: DeltaOptions, key: StreamKey) -> None:
        self._options = options
        self._key = key

    @property
    def ledger(self) -> TablesLedger:
        """The ledger that lives in the head's log."""
        return TablesLedger(self._options, self._key)

    @property
    def _tables(self) -> Tables:
        assert self._options.tables is not None
        return self._options.tables

    def note(self, note: LedgerNote) -> None:
        """Keep a note in a file beside the table."""
        write_note(Folder(self._options.ledger_path), note)

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return what would fail the publish; if nothing would, make the head if it is missing."""
        options, path = self._options, self._options.ledger_path
        try:
            if problems := self._problems(schema, kind):
                return problems
            columns = delta_columns(schema)
            table = open_head(options)
            if table is None:
                probe(options.root)
                table = create(path, self._key, schema, self._tables.template)
            if problems := ownership_problems(table, self._key, path, self._tables.template):
                return problems
            # The head has the columns of all tables.
            merged(table, columns, options.schema_contract, path)
            probe(options.root)
            folder = Folder(path)
            secure(folder, table)
            self._warn_of_halves(HeadView(folder, table, self._key))
        except (ConfigError, DataError) as error:
            return [str(error)]
        return []

    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return what would fail the publish; whether a store can be written, only the first job finds out."""
        options, path = self._options, self._options.ledger_path
        try:
            if problems := self._problems(schema, kind):
                return problems
            columns = delta_columns(schema)
            require_writable(options.root)
            if (table := open_head(options)) is None:
                return []
            if problems := ownership_problems(table, self._key, path, self._tables.template):
                return problems
            merged(table, columns, options.schema_contract, path)
        except (ConfigError, DataError) as error:
            return [str(error)]
        return []

    def _problems(self, schema: pa.Schema, kind: SourceKind) -> list[str]:
        options, column = self._options, self._tables.column
        problems = locking_problems(options.root)
        if column == "day" or column not in schema.names:
            problems.append(f"path: the source has no column {column!r}; it has {', '.join(schema.names)}")
        if options.replaces_whole(kind):
            problems.append(
                f"path={options.path!r}: tables of a template keep each day, and take no snapshot in the place of the "
                "whole: set snapshot='daily', or give a path without a column"
            )
        if Folder(options.root).exists(LOG):
            problems.append(
                f"path={options.path!r} lies in the Delta table {options.root}, whose vacuum would delete what lies "
                "under it: choose another path"
            )
        return problems

    def _warn_of_halves(self, view: HeadView) -> None:
        if days := view.half_published():
            more = f" and {len(days) - _SHOWN} more" if len(days) > _SHOWN else ""
            _LOG.warning(
                "tables %s: a reload of %s%s was never completed, so some tables may have newer rows than others: "
                "clear the tasks of these days",
                self._options.path,
                ", ".join(map(str, days[:_SHOWN])),
                more,
            )

    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        """Replace the day in every table by the staged files, under one row of the head's ledger."""
        return TablesCommit(self._options, publish).run()

    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the rows that :meth:`erase` would take out, by day; reads one column of every file of every table."""
        return self._eraser(column).found(values)

    def erase(self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = unshaped) -> Erasure:
        """Take rows out of all tables, under one list in the head: each day that has some is published anew."""
        return self._eraser(column).erase(values, kind, shaping)

    def copies(self) -> list[str]:
        """Name what lies beside the tables, and their older versions."""
        root = self._options.root
        return copies_of(Folder(root), f"{root}/*", self._sweeper())

    def _eraser(self, column: str) -> TablesEraser:
        return TablesEraser(self._options, self._key, column)

    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        """Yield what the source set aside of each published day, from the files beside the tables."""
        options = self._options
        view = HeadView(Folder(options.ledger_path), open_head(options), self._key)
        return rejects_of(view, Folder(options.root), first, last)

    def sweep(self) -> int:
        """Delete unpublished files of attempts that have been silent for ``sweep_after``, in every table."""
        return self._sweeper().run()

    def leftovers(self) -> list[str]:
        """Return the unpublished files that :meth:`sweep` would delete."""
        return self._sweeper().listed()

    def _sweeper(self) -> TablesSweeper:
        options = self._options
        return TablesSweeper(Folder(options.root), self._key, options.sweep_after, options=options)
