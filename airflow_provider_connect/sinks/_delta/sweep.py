"""Deletes the files of dead attempts under a Delta table's root, but none that a commit names or may still name.

**The log decides, not a clock.** A publish commits the application transaction ``…/attempt/<attempt>`` with its
generation. A sweep commits the same one with 0, "swept", and deletes only what the log shows as swept. Delta refuses a
commit if another has written the same application transaction since its snapshot, so exactly one of the two lands:

* *The sweep's lands first.* The publisher may stall between claim and commit for any time: Delta refuses its commit,
  it reads the log again, finds 0, and ends retriable, and the day is polled again. If it wakes after the log's clean-up
  has removed what Delta compares with, Delta refuses the commit too.
* *The publisher's lands first.* The sweep is refused, reads again, finds a generation, and keeps the files.
* *A sweep dies* after its commit: the next one finds 0 and deletes the rest. Until then nobody can publish these files.
* *Two sweeps* want the same attempt: one is refused, reads again and finds 0; then both delete.
* *A zombie's executor* goes on writing in a swept attempt: no commit names its files, and a later sweep deletes them.

So a sweep reads the table three times: before it decides, in its commit, and after it. Files that the newest version
names stay, whatever the ledger says of their attempt (somebody may have added or restored them). A table whose log is
lost or set back is refused (:mod:`.log`) and not swept.

**Clocks only choose candidates.** An attempt is silent if its newest file is older than ``sweep_after`` by the clock of
the storage, which dated that file, not by this machine's clock. If the storage's clock jumps, a live attempt may be
swept. Then its day is polled again; it is never published in part, and nothing published is lost.
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
    """Mark an attempt as alive, and return its data files, checked against the manifest.

    :param view: the version of the table that the commit will build on.
    :raises RetriableError: the attempt was swept, or files are missing or changed: the day must be polled again.
    """
    attempt = publish.manifest.attempt
    control = attempt_folder(attempt)
    expected = {file.path: file.size_bytes for file in publish.manifest.polled.files}
    what = "a sweep found it dead" if view.attempt_generation(attempt) == SWEPT else None
    if what is None:
        folder.write(f"{control}/{PUBLISHING_NAME}", b"{}")
    found = folder.entries([*expected])
    wrong = [path for path, size in expected.items() if path not in found or found[path].size_bytes != size]
    if what is None and wrong:
        what = f"{wrong[0]} is missing or has another size"
    if what is not None:
        folder.delete(f"{control}/{MANIFEST_NAME}")
        raise RetriableError(
            f"the stage of {publish.day} under {folder.url} is no longer complete ({what}): poll the day again"
        )
    return found


def delete_confirmed_attempt(folder: Folder, publish: Publish) -> None:
    """Delete what an attempt staged whose answer confirmed a day: the log has it as swept."""
    sweeper = Sweeper(folder, publish.key, dt.timedelta(0))
    sweeper._bury(publish.manifest.attempt, [file.path for file in publish.manifest.polled.files])


@dataclass
class Sweeper:
    """One sweep over the attempts of a stream's table that have written nothing for ``silent``."""

    folder: Folder
    key: StreamKey
    silent_for: dt.timedelta
    deleted_files: int = 0
    pattern: ClassVar[re.Pattern[str]] = DATA_FILE_PATTERN
    """The names of data files under the folder."""

    def run(self) -> int:
        """Sweep, and return how many files were deleted.

        :raises ConfigError: the table's log was lost or set back.
        :raises RetriableError: other commits were always faster.
        """
        view, attempts = self._candidates(marks=True)
        for attempt, is_dead, files in attempts:
            if is_dead:
                self._bury(attempt, files)
            else:
                self._settle(view, attempt, files)
        return self.deleted_files

    def list_files(self) -> list[str]:
        """Return the files that a sweep would delete now."""
        view, attempts = self._candidates(marks=False)
        return [
            name
            for attempt, is_dead, files in attempts
            for name in (
                self._files_of_dead(attempt, files) if is_dead else self._files_to_settle(view, attempt, files)
            )
        ]

    def _candidates(self, *, marks: bool) -> tuple[LedgerView, list[tuple[str, bool, list[str]]]]:
        """Return the silent attempts: whether each is dead or published, and its files that no commit names.

        :param marks: whether undecided ones are recorded as swept first. If not, they only count as dead.
        """
        view = self._view()
        if not view.belongs_to_stream or not (attempts := self._silent_attempts()):
            return view, []
        data = self._data_files(attempts)
        if marks:
            view = self._mark_swept(attempts, data)
        live = {path for _, path, _ in view.files}
        free = {attempt: [path for path in data[attempt] if path not in live] for attempt in attempts}
        dead = {attempt for attempt in attempts if self._is_dead(view, attempt, live, data[attempt])}
        known = [attempt for attempt in attempts if attempt in dead or view.attempt_generation(attempt) is not None]
        return view, [(attempt, attempt in dead, free[attempt]) for attempt in known]

    def _is_dead(self, view: LedgerView, attempt: str, live: set[str], names: list[str]) -> bool:
        return view.attempt_generation(attempt) == SWEPT or self._is_undecided(view, attempt, live, names)

    def _view(self) -> LedgerView:
        return LedgerView(self.folder, open_table(self.folder.url), self.key)

    def _silent_attempts(self) -> list[str]:
        """Return attempts whose newest file is old, unless an earlier sweep settled them."""
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
        """Return the names of each attempt's data files."""
        found: dict[str, list[str]] = {attempt: [] for attempt in attempts}
        for file in self.folder.files():
            match = self.pattern.fullmatch(file.name)
            if match and match["attempt"] in found:
                found[match["attempt"]].append(file.name)
        return found

    def _mark_swept(self, attempts: list[str], data: dict[str, list[str]]) -> LedgerView:
        """Record unpublished attempts as swept; return the table's version after that.

        That version is flushed to the disk before anything is deleted: a power cut must not undo the record alone.
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
        """Whether the log neither says what became of an attempt nor names a file of it."""
        return view.attempt_generation(attempt) is None and not live.intersection(names)

    def _record(self, view: LedgerView, attempts: list[str]) -> None:
        assert view.table is not None
        swept = {attempt_id(self.key, attempt): SWEPT for attempt in attempts}
        commit(view.table, swept, {"connect.swept": str(len(attempts))})

    def _settle(self, view: LedgerView, attempt: str, files: list[str]) -> None:
        """Keep the published files, the rejects and the manifest; delete what failed tasks wrote."""
        self._delete(self._files_to_settle(view, attempt, files))
        self.folder.write(f"{attempt_folder(attempt)}/{SETTLED_NAME}", b"{}")

    def _files_to_settle(self, view: LedgerView, attempt: str, files: list[str]) -> list[str]:
        """Return which files of a published attempt nobody needs any more."""
        kept = self._kept(view, attempt, files)
        control = attempt_folder(attempt)
        marks = (f"{control}/progress-", f"{control}/{PUBLISHING_NAME}", *plan_file_prefixes(attempt))
        marked = [file.name for file in self.folder.files(control) if file.name.startswith(marks)]
        return [*(path for path in files if path not in kept), *marked]

    def _kept(self, view: LedgerView, attempt: str, files: list[str]) -> set[str]:
        """Return which of a published attempt's files stay.

        The manifest names its rows, and the log the file of deleted rows, which older versions of the table may show.
        """
        try:
            manifest = Manifest.model_validate_json(self.folder.read(manifest_file(attempt)))
        except (FileNotFoundError, ValidationError):  # never finished, or cannot be read: it does not say what may go
            return {*files}
        copy = view.deleted_file_number(attempt)
        numbers = {path: deleted_file_number(path) for path in files}
        deleted = {path for path, number in numbers.items() if number is not None and copy in (None, number)}
        return {file.path for file in manifest.polled.files} | deleted

    def _bury(self, attempt: str, files: list[str]) -> None:
        """Delete all of an attempt that the log has as swept."""
        self._delete(self._files_of_dead(attempt, files))
        self.folder.delete_folder(attempt_folder(attempt))

    def _files_of_dead(self, attempt: str, files: list[str]) -> list[str]:
        """Return all files of a dead attempt; its manifest first, as nobody can publish the rest without it."""
        control = [file.name for file in self.folder.files(attempt_folder(attempt))]
        manifest = [name for name in control if name == manifest_file(attempt)]
        return [*manifest, *files, *(name for name in control if name not in manifest)]

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.folder.delete(name)
            self.deleted_files += 1
