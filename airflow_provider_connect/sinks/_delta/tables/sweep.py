"""Deletes the files of dead attempts from a template's tables. As in :mod:`..sweep`, the logs decide.

The head decides first: reservation and completion write the same transaction as the sweep. Then each table that may
still get files of the attempt decides alike. Committed files stay, even if their attempt was never completed, until a
later publish of the day and a vacuum.
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
    """Marks attempts as swept in one table's log.

    :param is_listed: the head lists the table, so files without a log mean a lost log.
    """

    is_listed: bool

    def unused_files(
        self, attempts: dict[str, list[str]], dead: set[str], *, records_swept: bool
    ) -> dict[str, list[str]]:
        """Return by attempt the files that no commit to this table names or may name any more.

        :param dead: attempts that were never completed. Their committed files are in use.
        :param records_swept: first record undecided attempts as swept.
        """
        view = self._view()
        if not view.belongs_to_stream:  # no publish of it was ever reserved
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
    """One sweep over the attempts of a template's tables. Their control files lie under the common root."""

    options: DeltaOptions
    pattern: ClassVar[re.Pattern[str]] = TABLE_FILE_PATTERN

    def _candidates(self, *, records_swept: bool) -> tuple[HeadView, list[tuple[str, bool, list[str]]]]:
        head = self._view()
        if not head.belongs_to_stream or not (attempts := self._silent_attempts()):
            return head, []
        data = self._data_files(attempts)
        if records_swept:
            marked_head = self._mark_swept(attempts, {})
            assert isinstance(marked_head, HeadView)
            head = marked_head
        dead = {attempt for attempt in attempts if self._is_dead(head, attempt, set(), [])}
        if records_swept:
            # The manifests first, so that no publish begins with the remaining files.
            self._delete(self.folder.entries([manifest_file(attempt) for attempt in dead]))
        unused: dict[str, list[str]] = {attempt: [] for attempt in attempts}
        for name, table_attempts in _by_table(data).items():
            folder = Folder(f"{self.folder.url}/{name}")
            table = _TableSweeper(folder, self.key, self.silent_for, is_listed=name in head.table_indexes)
            for attempt, files in table.unused_files(table_attempts, dead, records_swept=records_swept).items():
                unused[attempt] += [f"{name}/{path}" for path in files]
        return head, [(attempt, attempt in dead, files) for attempt, files in unused.items()]

    def _view(self) -> HeadView:
        return HeadView(Folder(self.options.ledger_path), open_head(self.options), self.key)

    def _is_undecided(self, view: LedgerView, attempt: str, live: set[str], names: list[str]) -> bool:
        return view.attempt_generation(attempt) in (None, RESERVED_GENERATION)


def _by_table(data: dict[str, list[str]]) -> dict[str, dict[str, list[str]]]:
    files_by_table: dict[str, dict[str, list[str]]] = {}
    for attempt, names in data.items():
        for name in names:
            table = table_folder(name)
            files_by_table.setdefault(table, {}).setdefault(attempt, []).append(name.removeprefix(f"{table}/"))
    return files_by_table
