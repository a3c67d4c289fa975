"""Publishes days into several Delta tables, one for each value of a column."""

from __future__ import annotations

import datetime as dt
import logging
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._delta.foreign_writers import locking_problems
from airflow_provider_connect.sinks._delta.log import LOG_FOLDER
from airflow_provider_connect.sinks._delta.publisher import LakePublisher
from airflow_provider_connect.sinks._delta.tables.commit import TablesCommit
from airflow_provider_connect.sinks._delta.tables.eraser import TablesEraser
from airflow_provider_connect.sinks._delta.tables.head import HeadView, TablesLedger
from airflow_provider_connect.sinks._delta.tables.sweep import TablesSweeper
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_SHOWN = 5
_LOG = logging.getLogger(__name__)


class TablesPublisher(LakePublisher):
    """Publishes one stream into the tables of one template."""

    @property
    def ledger(self) -> TablesLedger:
        """The ledger, in the log of the head: the template's table without rows."""
        return TablesLedger(self._options, self._key)

    def _problems(self, schema: pa.Schema, kind: SourceKind) -> list[str]:
        options = self._options
        assert options.tables is not None
        column = options.tables.column
        problems = locking_problems(options.root)
        if column == "day" or column not in schema.names:
            problems.append(f"path: the source has no column {column!r}; it has {', '.join(schema.names)}")
        if options.replaces_whole(kind):
            problems.append(
                f"path={options.path!r}: the tables of a template keep each day, so a snapshot cannot replace "
                "them. Set snapshot='daily', or give a path without a column"
            )
        if Folder(options.root).exists(LOG_FOLDER):
            problems.append(
                f"path={options.path!r} lies in the Delta table {options.root}, whose vacuum would delete the tables "
                "under it. Choose another path"
            )
        return problems

    def _check_published_rows(self, table: DeltaTable, kind: SourceKind, *, warns: bool) -> None:
        view = HeadView(Folder(self._options.ledger_path), table, self._key)
        if warns and (days := view.half_published_days()):
            more = f" and {len(days) - _SHOWN} more" if len(days) > _SHOWN else ""
            _LOG.warning(
                "tables %s: a reload of %s%s was never completed, so some tables may have newer rows than others. "
                "Clear the tasks of these days",
                self._options.path,
                ", ".join(map(str, days[:_SHOWN])),
                more,
            )

    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        """Replace the day in every table, under one row of the head's ledger."""
        return TablesCommit(self._options, publish).run()

    def _eraser(self, column: str) -> TablesEraser:
        return TablesEraser(self._options, self._key, column)

    def _sweeper(self, silent: dt.timedelta) -> TablesSweeper:
        return TablesSweeper(Folder(self._options.root), self._key, silent, options=self._options)
