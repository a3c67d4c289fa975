"""Deletes the files of dead attempts of several tables; as in :mod:`..sweep`, the logs decide and not a clock.

The head says first what became of an attempt: its reservation and its completion write the same transaction as the
sweep. Then each table's log that may still be given files of it is asked the same way. Committed files stay, also those
of an attempt that was never completed: only a publish of the day, and then a vacuum, removes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import open_table
from airflow_provider_connect.sinks._delta.options import DeltaOptions
from airflow_provider_connect.sinks._delta.sweep import Sweeper
from airflow_provider_connect.sinks._delta.tables.head import RESERVED_GENERATION, HeadView, open_head
from airflow_provider_connect.stage.manifest import TABLE_FILE_PATTERN, manifest_file
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import table_folder


@dataclass(kw_only=True)
class _TableSweeper(Sweeper):
    """Marks attempts in the log of one table.

    :param is_known: whether the head has it in its list: then files without a log are a lost log.
    """

    is_listed: bool

    def unused_files(
        self, attempts: dict[str, list[str]], dead: set[str], *, records_swept: bool
    ) -> dict[str, list[str]]:
        """Return those of the attempts' files that this table does not name, and no commit may name any more.

        :param dead: attempts that were never completed. What they have committed here all the same is not free.
        :param marks: as for :meth:`.Sweeper.run`, which records the undecided as swept.
        """
        view = self._view()
        if not view.belongs_to_stream:  # nobody has come as far as a reservation with it
            return attempts
        if records_swept:
            view = self._mark_swept([*attempts], attempts)
        live = {path for _, path, _ in view.files}
        return {
            attempt: [path for path in files if path not in live]
            for attempt, files in attempts.items()
            if self._is_dead(view, attempt, live, files)
            or (attempt not in dead and view.attempt_generation(attempt) is not None)
        }

    def _view(self) -> LedgerView:
        path = self.folder.url
        return LedgerView(self.folder, open_table(path, may_hold_staged_files=not self.is_listed), self.key)


@dataclass(kw_only=True)
class TablesSweeper(Sweeper):
    """One sweep over the attempts of all tables of a template, whose control files lie under their common root."""

    options: DeltaOptions
    pattern: ClassVar[re.Pattern[str]] = TABLE_FILE_PATTERN

    def _candidates(self, *, marks: bool) -> tuple[HeadView, list[tuple[str, bool, list[str]]]]:
        """Return the silent attempts of all tables: the head says which are dead, each table which files are free."""
        head = self._view()
        if not head.belongs_to_stream or not (attempts := self._silent_attempts()):
            return head, []
        data = self._data_files(attempts)
        if marks:
            marked = self._mark_swept(attempts, {})
            assert isinstance(marked, HeadView)
            head = marked
        dead = {attempt for attempt in attempts if self._is_dead(head, attempt, set(), [])}
        if marks:
            # Before the first of its files, so that nobody begins to publish the rest.
            self._delete(self.folder.entries([manifest_file(attempt) for attempt in dead]))
        free: dict[str, list[str]] = {attempt: [] for attempt in attempts}
        for name, of_table in _by_table(data).items():
            folder = Folder(f"{self.folder.url}/{name}")
            table = _TableSweeper(folder, self.key, self.silent_for, is_listed=name in head.table_indexes)
            for attempt, files in table.unused_files(of_table, dead, records_swept=marks).items():
                free[attempt] += [f"{name}/{path}" for path in files]
        return head, [(attempt, attempt in dead, files) for attempt, files in free.items()]

    def _view(self) -> HeadView:
        return HeadView(Folder(self.options.ledger_path), open_head(self.options), self.key)

    def _is_undecided(self, view: LedgerView, attempt: str, live: set[str], names: list[str]) -> bool:
        return view.attempt_generation(attempt) in (None, RESERVED_GENERATION)


def _by_table(data: dict[str, list[str]]) -> dict[str, dict[str, list[str]]]:
    """Return the attempts' files by table, relative to its root."""
    found: dict[str, dict[str, list[str]]] = {}
    for attempt, names in data.items():
        for name in names:
            table = table_folder(name)
            found.setdefault(table, {}).setdefault(attempt, []).append(name.removeprefix(f"{table}/"))
    return found
