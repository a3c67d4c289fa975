"""Deletes the files of dead attempts under a Delta table's root, except files that a commit names or may still name.

**The log decides whether an attempt is dead.** A publish commits the transaction ``…/attempt/<attempt>`` with its
generation, a sweep the same id with 0, "swept". Delta refuses a commit if another one has written the id since its
version, so exactly one succeeds. A sweep deletes only files of swept attempts:

* *The sweep commits first.* Delta refuses the publisher's commit, however late. The publisher reads the log again,
  finds 0, and ends retriable.
* *The publisher commits first.* The refused sweep reads again, finds a generation, and keeps the files.
* *A sweep dies* after its commit: the next one finds 0 and deletes the remaining files.
* *Two sweeps* of an attempt: the refused one finds 0. Then both delete.
* *An executor still writes* in a swept attempt: no commit names its files, and a later sweep deletes them.

Files that the newest version names stay, whatever the ledger has of their attempt: another writer may have added or
restored them. A table whose log is lost or set back is not swept (:mod:`.log`).

**Clocks only choose candidates.** An attempt is silent if its newest file is older than ``sweep_after``, by the
storage's clock. If that clock jumps, a live attempt may be swept, and its day is polled again.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ValidationError

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.patience import FROM_NONE, Patience
from airflow_provider_connect.sink import Publish, StreamKey
from airflow_provider_connect.sinks._delta.app_transactions import SWEPT, attempt_id
from airflow_provider_connect.sinks._delta.attempt_files import merged_file_id, merged_file_number
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import commit, delta_errors, make_durable, open_table
from airflow_provider_connect.stage.manifest import (
    CONTROL_FOLDER,
    DATA_FILE_PATTERN,
    MANIFEST_NAME,
    Manifest,
    attempt_folder,
    manifest_file,
)
from airflow_provider_connect.stage.poll_plans import plan_file_prefixes
from airflow_provider_connect.stage.soft_deletes import deleted_file_number
from airflow_provider_connect.stage.storage import Folder, StoredFile, storage_error

PUBLISHING_NAME, SETTLED_NAME = "publishing.json", "published.json"
_COMMIT_TRIES = 20


def claim_files(folder: Folder, view: LedgerView, publish: Publish) -> dict[str, StoredFile]:
    """Mark an attempt as alive before its commit. Returns its data files.

    :param view: the version that the commit builds on.
    :raises RetriableError: the attempt was swept, or files are missing or changed. Poll the day again.
    """
    attempt = publish.manifest.attempt
    control = attempt_folder(attempt)
    expected_sizes = {file.path: file.size_bytes for file in publish.manifest.polled.files}
    problem = "a sweep found it dead" if view.attempt_generation(attempt) == SWEPT else None
    if problem is None:
        folder.write(f"{control}/{PUBLISHING_NAME}", b"{}")
    stored_files = folder.entries([*expected_sizes])
    bad_paths = [
        path
        for path, size in expected_sizes.items()
        if path not in stored_files or stored_files[path].size_bytes != size
    ]
    if problem is None and bad_paths:
        problem = f"{bad_paths[0]} is missing or has another size"
    if problem is not None:
        folder.delete(f"{control}/{MANIFEST_NAME}")
        raise RetriableError(
            f"the stage of {publish.day} under {folder.url} is no longer complete ({problem}). Poll the day again"
        )
    return stored_files


def delete_confirmed_attempt(folder: Folder, publish: Publish) -> None:
    """Delete the staged files of a confirming attempt, which the log has as swept."""
    sweeper = Sweeper(folder, publish.key, dt.timedelta(0))
    sweeper._delete_dead_attempt(publish.manifest.attempt, [file.path for file in publish.manifest.polled.files])


@dataclass
class Sweeper:
    """One sweep over the attempts that have been silent for ``silent_for``."""

    folder: Folder
    key: StreamKey
    silent_for: dt.timedelta
    deleted_files: int = 0
    pattern: ClassVar[re.Pattern[str]] = DATA_FILE_PATTERN
    """Paths of data files."""

    def run(self) -> int:
        """Sweep. Returns the number of deleted files.

        :raises ConfigError: the log was lost or restored to an older state.
        :raises RetriableError: other commits always came first.
        """
        view, attempts = self._candidates(records_swept=True)
        for attempt, is_dead, files in attempts:
            if is_dead:
                self._delete_dead_attempt(attempt, files)
            else:
                self._settle_published(view, attempt, files)
        return self.deleted_files

    def list_files(self) -> list[str]:
        """Return the files that a sweep would delete now."""
        view, attempts = self._candidates(records_swept=False)
        return [
            name
            for attempt, is_dead, files in attempts
            for name in (
                self._files_of_dead_attempt(attempt, files) if is_dead else self._files_to_settle(view, attempt, files)
            )
        ]

    def _candidates(self, *, records_swept: bool) -> tuple[LedgerView, list[tuple[str, bool, list[str]]]]:
        """Return the silent attempts, each with whether it is dead (else published) and its files that no commit names.

        :param records_swept: first record attempts that are neither published nor swept as swept. If False, they are
            returned as dead.
        """
        view = self._view()
        if not view.belongs_to_stream or not (attempts := self._silent_attempts()):
            return view, []
        data = self._data_files(attempts)
        if records_swept:
            view = self._mark_swept(attempts, data)
        live = {path for _, path, _ in view.files}
        unnamed = {attempt: [path for path in data[attempt] if path not in live] for attempt in attempts}
        dead = {attempt for attempt in attempts if self._is_dead(view, attempt, live, data[attempt])}
        decided = [attempt for attempt in attempts if attempt in dead or view.attempt_generation(attempt) is not None]
        return view, [(attempt, attempt in dead, unnamed[attempt]) for attempt in decided]

    def _is_dead(self, view: LedgerView, attempt: str, live: set[str], names: list[str]) -> bool:
        return view.attempt_generation(attempt) == SWEPT or self._is_undecided(view, attempt, live, names)

    def _view(self) -> LedgerView:
        return LedgerView(self.folder, open_table(self.folder.url), self.key)

    def _silent_attempts(self) -> list[str]:
        newest: dict[str, dt.datetime] = {}
        settled = set()
        for file in self.folder.files(f"{CONTROL_FOLDER}/attempts"):
            attempt, _, name = file.name.removeprefix(f"{CONTROL_FOLDER}/attempts/").partition("/")
            if name == SETTLED_NAME:
                settled.add(attempt)
            newest[attempt] = max(newest.get(attempt, file.modified), file.modified)
        if not newest.keys() - settled:
            return []
        silent_since = self.folder.storage_time() - self.silent_for
        return sorted(a for a, modified in newest.items() if a not in settled and modified < silent_since)

    def _data_files(self, attempts: list[str]) -> dict[str, list[str]]:
        data_files: dict[str, list[str]] = {attempt: [] for attempt in attempts}
        for file in self.folder.files():
            match = self.pattern.fullmatch(file.name)
            if match and match["attempt"] in data_files:
                data_files[match["attempt"]].append(file.name)
        return data_files

    def _mark_swept(self, attempts: list[str], data: dict[str, list[str]]) -> LedgerView:
        """Record unpublished attempts as swept. Returns the ledger afterwards.

        Flushes the record before files are deleted: a power cut must not undo only the record.
        """
        patience = Patience(pauses=(0.2,), jitter=FROM_NONE, tries=_COMMIT_TRIES)
        while True:
            view = self._view()
            live = {path for _, path, _ in view.files}
            undecided = [a for a in attempts if self._is_undecided(view, a, live, data.get(a, []))]
            if not undecided:
                assert view.table is not None
                make_durable(view.folder, view.table)
                return view
            try:
                self._record(view, undecided)
            except delta_errors() as error:
                if not patience.wait_and_retry():
                    raise storage_error(self.folder.url, error) from error

    def _is_undecided(self, view: LedgerView, attempt: str, live: set[str], names: list[str]) -> bool:
        return view.attempt_generation(attempt) is None and not live.intersection(names)

    def _record(self, view: LedgerView, attempts: list[str]) -> None:
        assert view.table is not None
        swept = {attempt_id(self.key, attempt): SWEPT for attempt in attempts}
        commit(view.table, swept, {"connect.swept": str(len(attempts))})

    def _settle_published(self, view: LedgerView, attempt: str, files: list[str]) -> None:
        self._delete(self._files_to_settle(view, attempt, files))
        self.folder.write(f"{attempt_folder(attempt)}/{SETTLED_NAME}", b"{}")

    def _files_to_settle(self, view: LedgerView, attempt: str, files: list[str]) -> list[str]:
        needed = self._needed_files(view, attempt, files)
        control = attempt_folder(attempt)
        prefixes = (f"{control}/progress-", f"{control}/{PUBLISHING_NAME}", *plan_file_prefixes(attempt))
        control_files = [file.name for file in self.folder.files(control) if file.name.startswith(prefixes)]
        return [*(path for path in files if path not in needed), *control_files]

    def _needed_files(self, view: LedgerView, attempt: str, files: list[str]) -> set[str]:
        """Return the files of a published attempt that older versions may show.

        The manifest names its rows, the log its file of deleted rows or its merged files.
        """
        try:
            manifest = Manifest.model_validate_json(self.folder.read(manifest_file(attempt)))
        except (FileNotFoundError, ValidationError):  # missing or unreadable: keep all files
            return {*files}
        merged_number = view.app_transactions.get(merged_file_id(view.key, attempt))
        if merged_number is not None:
            return {path for path in files if merged_file_number(path) == merged_number}
        attempt_number = view.deleted_file_number(attempt)
        numbers = {path: deleted_file_number(path) for path in files}
        deleted = {path for path, number in numbers.items() if number is not None and attempt_number in (None, number)}
        return {file.path for file in manifest.polled.files} | deleted

    def _delete_dead_attempt(self, attempt: str, files: list[str]) -> None:
        self._delete(self._files_of_dead_attempt(attempt, files))
        self.folder.delete_folder(attempt_folder(attempt))

    def _files_of_dead_attempt(self, attempt: str, files: list[str]) -> list[str]:
        """Return a dead attempt's files. The manifest is first, so that no retry publishes a part."""
        control = [file.name for file in self.folder.files(attempt_folder(attempt))]
        manifest = [name for name in control if name == manifest_file(attempt)]
        return [*manifest, *files, *(name for name in control if name not in manifest)]

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.folder.delete(name)
            self.deleted_files += 1
