"""Deletes what dead attempts left under a Delta table's root, and nothing a commit may have published.

A commit writes ``publishing.json`` into its attempt's folder, then looks for ``swept.json``; a sweep writes
``swept.json``, then looks for a young ``publishing.json``. So at least one of two that meet sees the other and leaves.
Whether an attempt was published is asked of the table's log, which recorded it in the commit itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from pydantic import ValidationError

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.sinks._delta_ledger import LedgerView
from airflow_provider_connect.stage import CONTROL, DATA_FILE, Manifest, attempt_folder
from airflow_provider_connect.storage import Entry, Folder

MANIFEST, PUBLISHING, SWEPT, SETTLED = "manifest.json", "publishing.json", "swept.json", "published.json"


def claim(folder: Folder, publish: Publish) -> dict[str, Entry]:
    """Keep sweeps away from an attempt, and return its data files, complete as the manifest has them.

    :raises RetriableError: a sweep was faster, or files are missing or changed: the day must be polled again.
    """
    control = attempt_folder(publish.manifest.attempt)
    folder.write(f"{control}/{PUBLISHING}", b"{}")
    expected = {file.path: file.size_bytes for file in publish.manifest.polled.files}
    found = folder.entries([*expected, f"{control}/{SWEPT}"])
    wrong = [path for path, size in expected.items() if path not in found or found[path].size_bytes != size]
    if wrong or f"{control}/{SWEPT}" in found:
        folder.delete(f"{control}/{MANIFEST}")
        what = f"{wrong[0]} is missing or has another size" if wrong else "a sweep deleted it"
        raise RetriableError(
            f"the stage of {publish.day} under {folder.url} is not whole any more ({what}): poll the day again"
        )
    return found


class Sweeper:
    """One sweep over the attempts of a table that have been silent since ``silent_since``."""

    def __init__(self, folder: Folder, view: LedgerView, silent_since: dt.datetime) -> None:
        self.folder = folder
        self.view = view
        self.silent_since = silent_since
        self.deleted = 0

    def run(self) -> int:
        """Sweep, and return how many files were deleted."""
        attempts = self._silent_attempts()
        data = self._data_files(attempts) if attempts else {}
        live = {path for _, path, _ in self.view.files} if attempts else set()
        for attempt in attempts:
            manifest = self._manifest(attempt)
            files = data.get(attempt, [])
            if self._published(attempt, manifest, files):
                self._settle(attempt, manifest, [path for path in files if path not in live])
            elif not live.intersection(files) and self._alone(attempt):
                self._bury(attempt, files)
        return self.deleted

    def _silent_attempts(self) -> list[str]:
        """Return attempts whose newest file is old, without those that an earlier sweep settled."""
        newest: dict[str, dt.datetime] = {}
        settled = set()
        for file in self.folder.files(f"{CONTROL}/attempts"):
            attempt, _, name = file.name.removeprefix(f"{CONTROL}/attempts/").partition("/")
            if name == SETTLED:
                settled.add(attempt)
            if name and name != SWEPT:
                newest[attempt] = max(newest.get(attempt, file.modified), file.modified)
            elif name:
                newest.setdefault(attempt, file.modified)
        return sorted(a for a, modified in newest.items() if a not in settled and modified < self.silent_since)

    def _data_files(self, attempts: list[str]) -> dict[str, list[str]]:
        """Return the data files of each attempt, by their names."""
        found: dict[str, list[str]] = {}
        for file in self.folder.files():
            match = DATA_FILE.fullmatch(file.name)
            if match and match["attempt"] in attempts:
                found.setdefault(match["attempt"], []).append(file.name)
        return found

    def _manifest(self, attempt: str) -> Manifest | None:
        """Return the attempt's manifest; None if it was never finished, or cannot be read."""
        try:
            return Manifest.model_validate_json(self.folder.read(f"{attempt_folder(attempt)}/{MANIFEST}"))
        except (FileNotFoundError, ValidationError):
            return None

    def _published(self, attempt: str, manifest: Manifest | None, files: list[str]) -> bool:
        """Ask the ledger whether a commit of this attempt ever landed."""
        days = {dt.date.fromisoformat(match["day"]) for path in files if (match := DATA_FILE.fullmatch(path))}
        days |= {manifest.day.date} if manifest else set()
        return any(self.view.transaction(day, f"/attempt/{attempt}") is not None for day in days)

    def _settle(self, attempt: str, manifest: Manifest | None, files: list[str]) -> None:
        """Keep what was published, its rejects and manifest; delete what failed tasks wrote beside it."""
        if manifest is not None:
            kept = {file.path for file in manifest.polled.files}
            self._delete(path for path in files if path not in kept)
        control = attempt_folder(attempt)
        marks = (f"{control}/progress-", f"{control}/{PUBLISHING}", f"{control}/{SWEPT}")
        self._delete(file.name for file in self.folder.files(control) if file.name.startswith(marks))
        self.folder.write(f"{control}/{SETTLED}", b"{}")

    def _alone(self, attempt: str) -> bool:
        """Announce the sweep of an attempt; withdraw when somebody is publishing it."""
        control = attempt_folder(attempt)
        self.folder.write(f"{control}/{SWEPT}", b"{}")
        mark = self.folder.entries([f"{control}/{PUBLISHING}"]).get(f"{control}/{PUBLISHING}")
        if mark is None or mark.modified < self.silent_since:
            return True
        self.folder.delete(f"{control}/{SWEPT}")
        return False

    def _bury(self, attempt: str, files: list[str]) -> None:
        """Delete all of an attempt; its manifest first, so that nobody publishes what is left of it."""
        control = attempt_folder(attempt)
        self._delete(self.folder.entries([f"{control}/{MANIFEST}"]))
        self._delete(files)
        self._delete(file.name for file in self.folder.files(control) if not file.name.endswith(f"/{SWEPT}"))
        self.folder.delete_folder(control)

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.folder.delete(name)
            self.deleted += 1
