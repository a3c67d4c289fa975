"""Deletes the files of dead attempts of several tables; as in :mod:`..sweep`, the logs decide and not a clock.

The head says first what became of an attempt: its reservation and its completion write the same transaction as the
sweep. Then each table's log that may still be given files of it is asked the same way. Committed files stay, also those
of an attempt that was never completed: only a publish of the day, and then a vacuum, removes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_connect.sinks._delta.ledger import SWEPT, LedgerView
from airflow_provider_connect.sinks._delta.log import open_table
from airflow_provider_connect.sinks._delta.options import DeltaOptions
from airflow_provider_connect.sinks._delta.sweep import Sweeper
from airflow_provider_connect.sinks._delta.tables.head import RESERVED, HeadView, open_head
from airflow_provider_connect.stage.manifest import TABLE_FILE, manifest_file
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import table_of


@dataclass(kw_only=True)
class _OfTable(Sweeper):
    """Marks attempts in the log of one table.

    :param is_known: whether the head has it in its list: then files without a log are a lost log.
    """

    is_known: bool

    def free(self, attempts: dict[str, list[str]], dead: set[str]) -> dict[str, list[str]]:
        """Return those of the attempts' files that this table does not name, and no commit may name any more.

        :param dead: attempts that were never completed. What they have committed here all the same is not free.
        """
        view = self._view()
        if not view.is_mine:  # nobody has come as far as a reservation with it
            return attempts
        view = self._mark_swept([*attempts], attempts)
        live = {path for _, path, _ in view.files}
        return {
            attempt: [path for path in files if path not in live]
            for attempt, files in attempts.items()
            if view.attempt(attempt) == SWEPT or (attempt not in dead and view.attempt(attempt) is not None)
        }

    def would_free(self, attempts: dict[str, list[str]], dead: set[str]) -> dict[str, list[str]]:
        """Return what :meth:`free` would, and change nothing."""
        view = self._view()
        if not view.is_mine:
            return attempts
        live = {path for _, path, _ in view.files}
        return {
            attempt: [path for path in files if path not in live]
            for attempt, files in attempts.items()
            if self._is_undecided(view, attempt, live, files)
            or view.attempt(attempt) == SWEPT
            or (attempt not in dead and view.attempt(attempt) is not None)
        }

    def _view(self) -> LedgerView:
        path = self.folder.url
        return LedgerView(self.folder, open_table(path, may_hold_staged=not self.is_known), self.key)


@dataclass(kw_only=True)
class TablesSweeper(Sweeper):
    """One sweep over the attempts of all tables of a template, whose control files lie under their common root."""

    options: DeltaOptions
    _free: dict[str, list[str]] = field(default_factory=dict)

    def run(self) -> int:
        """Sweep, and return how many files were deleted.

        :raises ConfigError: the log of the head, or of a table, was lost or set back.
        :raises RetriableError: other commits were always faster.
        """
        if not self._view().is_mine:
            return 0
        if not (attempts := self._silent_attempts()):
            return 0
        data = self._data_files(attempts)
        self._mark_swept(attempts, {})
        head = self._view()
        dead = {attempt for attempt in attempts if head.attempt(attempt) == SWEPT}
        # Before the first of its files, so that nobody begins to publish the rest.
        self._delete(self.folder.entries([manifest_file(attempt) for attempt in dead]))
        for name, of_table in _by_table(data).items():
            for attempt, files in self._sweeper(name, head).free(of_table, dead).items():
                self._free.setdefault(attempt, []).extend(f"{name}/{path}" for path in files)
        for attempt in attempts:
            files = self._free.get(attempt, [])
            if attempt in dead:
                self._bury(attempt, files)
            else:
                self._settle(head, attempt, files)
        return self.deleted

    def listed(self) -> list[str]:
        """Return the files that a sweep would delete now."""
        head = self._view()
        if not head.is_mine or not (attempts := self._silent_attempts()):
            return []
        dead = {attempt for attempt in attempts if head.attempt(attempt) in (None, RESERVED, SWEPT)}
        free: dict[str, list[str]] = {attempt: [] for attempt in attempts}
        for name, of_table in _by_table(self._data_files(attempts)).items():
            for attempt, files in self._sweeper(name, head).would_free(of_table, dead).items():
                free[attempt] += [f"{name}/{path}" for path in files]
        found = []
        for attempt, files in free.items():
            if attempt in dead:
                found += self._files_of_dead(attempt, files)
            else:
                found += self._files_to_settle(head, attempt, files)
        return found

    def _sweeper(self, name: str, head: HeadView) -> _OfTable:
        folder = Folder(f"{self.folder.url}/{name}")
        return _OfTable(folder, self.key, self.silent, is_known=name in head.places)

    def _view(self) -> HeadView:
        return HeadView(Folder(self.options.ledger_path), open_head(self.options), self.key)

    def _is_undecided(self, view: LedgerView, attempt: str, live: set[str], names: list[str]) -> bool:
        return view.attempt(attempt) in (None, RESERVED)

    def _data_files(self, attempts: list[str]) -> dict[str, list[str]]:
        """Return the names of each attempt's data files, in all tables."""
        wanted = set(attempts)
        found: dict[str, list[str]] = {}
        for file in self.folder.files():
            match = TABLE_FILE.fullmatch(file.name)
            if match and match["attempt"] in wanted:
                found.setdefault(match["attempt"], []).append(file.name)
        return found


def _by_table(data: dict[str, list[str]]) -> dict[str, dict[str, list[str]]]:
    """Return the attempts' files by table, relative to its root."""
    found: dict[str, dict[str, list[str]]] = {}
    for attempt, names in data.items():
        for name in names:
            table = table_of(name)
            found.setdefault(table, {}).setdefault(attempt, []).append(name.removeprefix(f"{table}/"))
    return found
