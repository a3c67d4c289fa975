"""Erases people's rows from all tables of a template: extends the head's erase list, then rewrites each day.

A rewritten day is published like any other (:mod:`.`). A publish that reserved a day under the older list cannot
complete it, but may still commit rows to its tables. So an erase searches the tables only when no such reservation is
open. If the older publish died, only a load repairs its day, and the erase ends with an error that names it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import FROM_NONE, Patience, doubling_pauses
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.sinks._delta.eraser import DeltaEraser, require_published_days
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import open_table
from airflow_provider_connect.sinks._delta.soft_deletes import columns_of_files
from airflow_provider_connect.sinks._delta.tables.commit import TablesCommit
from airflow_provider_connect.sinks._delta.tables.head import HeadView, open_head
from airflow_provider_connect.stage.storage import Folder

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.stage.erase_list import EraseList, Erasure, ShapingDigest
    from airflow_provider_connect.window import Day, SourceKind

_WAIT_SECONDS = 60.0
_PAUSES = doubling_pauses(0.1, 5.0)
_SHOWN = 5


@dataclass(frozen=True)
class TablesEraser(DeltaEraser):
    """Erases from a template's tables."""

    wait_seconds: float = _WAIT_SECONDS

    def erase(self, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest) -> Erasure:
        """Add ids to the head's list, and delete the rows of all people on the list.

        :raises RetriableError: a day is half published, so its tables may hold such rows. All other days are done.
        """
        done = super().erase(values, kind, shaping)
        if days := self._view().pending_days():
            more = f" and {len(days) - _SHOWN} more" if len(days) > _SHOWN else ""
            raise RetriableError(
                f"{done} But a publish of {', '.join(map(str, days[:_SHOWN]))}{more} began before the erase and was "
                "not completed, so its tables may hold such rows. Clear the tasks of these days, then erase again"
            )
        return done

    def _extend_erase_list(self, values: Sequence[str], shaping: ShapingDigest) -> EraseList:
        """Add ids to the list, then wait up to a minute for publishes that reserved their day before."""
        erased = super()._extend_erase_list(values, shaping)
        patience = Patience(self.wait_seconds, _PAUSES, jitter=FROM_NONE)
        while self._view().pending_days():
            if not patience.wait_and_poll():
                break  # erase() raises once the other days are done
        return erased

    def _rewrite_day(self, day: Day, erased: EraseList, kind: SourceKind) -> int:
        if day.date in self._view().pending_days():
            return 0  # its tables may hold rows of two answers, which must not count as one
        return super()._rewrite_day(day, erased, kind)

    def _view(self) -> HeadView:
        path = self.options.ledger_path
        table = open_head(self.options)
        if table is None:
            raise ConfigError(f"table {path} does not exist, so no row can be erased from the tables beside it")
        assert self.options.tables is not None
        self._require_own_table(table, path, self.options.tables.template)
        return HeadView(Folder(path), table, self.key)

    def _tables(self, view: LedgerView) -> Mapping[str, LedgerView]:
        """Return the view of every table that ever had rows, by path under the root.

        :raises ConfigError: a table is missing (a restored copy could have such rows), or belongs to another stream.
        """
        assert isinstance(view, HeadView)
        return {f"{name}/": self._table(view, name) for name in sorted(view.table_indexes)}

    def _table(self, head: HeadView, name: str) -> LedgerView:
        path = f"{self.options.root}/{name}"
        table = open_table(path)
        if table is None:
            raise ConfigError(f"table {path} is gone, but {head.folder.url} lists days of it. Restore it first")
        view = LedgerView(Folder(path), table, self.key)
        require_published_days(view, {*head.days(), *head.pending_days()})
        return view

    def _columns_of_day(self, view: LedgerView, day: dt.date) -> pa.Schema:
        import pyarrow as pa

        schemas = [
            columns_of_files(table, (path for date, path, _ in table.files if date == day))
            for table in self._tables(view).values()
        ]
        return pa.unify_schemas(schemas) if schemas else pa.schema([])

    def _commit(self, publish: Publish, view: LedgerView) -> None:
        TablesCommit(self.options, publish).run()
