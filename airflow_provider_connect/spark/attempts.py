"""Finds staged files of an intent's earlier attempts, and keeps attempts alive that wait for their publish."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.stage.manifest import (
    CONTROL_FOLDER,
    DEADLINE_NAME,
    MANIFEST_NAME,
    Manifest,
    SeenPublish,
    attempt_folder,
    manifest_file,
)
from airflow_provider_connect.stage.poll_plans import PLAN_NAME
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class EarlierAttempts:
    """Reads the files that earlier tries of the same intent left in the stage."""

    root: Folder
    own_attempt: str
    make_fingerprint: Callable[[], str]

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all options that decide a day's staged files. Other fingerprints' files are not reused."""
        return self.make_fingerprint()

    def attempts_with(self, file_name: str) -> list[str]:
        """Return the attempts that left a file of this name, newest first."""
        return [attempt for attempt, file in self._files if file == file_name]

    def manifests(self, day: Day) -> Iterator[Manifest]:
        """Yield the day's manifests with this job's fingerprint, newest first."""
        for attempt in self.attempts_with(MANIFEST_NAME):
            if attempt.endswith(f"-{day.date:%Y%m%d}"):
                manifest = self._read_manifest(day, attempt)
                if manifest is not None and manifest.fingerprint == self.fingerprint:
                    yield manifest

    def reusable_manifest(self, day: Day, seen_publish: SeenPublish) -> Manifest | None:
        """Return the day's newest manifest that follows ``seen_publish`` and has all its files, or None."""
        manifests = self.manifests(day)
        return next(
            (manifest for manifest in manifests if manifest.seen == seen_publish and self._has_all_files(manifest)),
            None,
        )

    @cached_property
    def _files(self) -> list[tuple[str, str]]:
        """Pairs of attempt and file name, newest first. Listed once a job, since dead tries write no more files."""
        intent = self.own_attempt.split("-")[0]
        files = [
            (entry.modified, folder.rpartition("/")[2], name)
            for entry in self.root.files(f"{CONTROL_FOLDER}/attempts")
            for folder, _, name in [entry.name.rpartition("/")]
            if name in (MANIFEST_NAME, DEADLINE_NAME, PLAN_NAME)
        ]
        return [(attempt, name) for _, attempt, name in sorted(files, reverse=True) if attempt.startswith(f"{intent}-")]

    def _read_manifest(self, day: Day, attempt: str) -> Manifest | None:
        name = manifest_file(attempt)
        try:
            return Manifest.read(self.root.read(name), day, attempt)
        except FileNotFoundError:
            return None
        except ValueError:
            log_line(
                f"{self.root.url}/{name} is ignored: another version of this package wrote it, or somebody changed it"
            )
            return None

    def _has_all_files(self, manifest: Manifest) -> bool:
        files = (*manifest.polled.files, *manifest.polled.rejects)
        entries = self.root.entries([file.path for file in files])
        return all(file.path in entries and entries[file.path].size_bytes == file.size_bytes for file in files)


SIGN_INTERVAL_SECONDS = 60.0
"""Seconds between two signs of life. After ten minutes without one, a sweep treats an attempt as dead."""


class KeepAlive:
    """Writes signs of life for attempts that wait for their publish, while its block runs."""

    def __init__(self, root: Folder) -> None:
        self._root = root
        self._attempts: set[str] = set()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waiting", daemon=True)

    def __enter__(self) -> KeepAlive:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def add(self, attempts: Iterable[str]) -> None:
        """Add attempts."""
        with self._lock:
            self._attempts.update(attempts)

    def add_with_sign(self, attempt: str) -> None:
        """Add an attempt, and write its first sign of life before returning."""
        self.add([attempt])
        self._write_sign(attempt)

    def remove(self, attempt: str) -> None:
        """Remove an attempt. Its folder can then be deleted, since no sign of life is written any more."""
        with self._lock:
            self._attempts.discard(attempt)

    def _run(self) -> None:
        while not self._done.wait(SIGN_INTERVAL_SECONDS):
            with self._lock:
                attempts = sorted(self._attempts)
            for attempt in attempts:
                self._write_sign(attempt)

    def _write_sign(self, attempt: str) -> None:
        with self._lock:
            if attempt not in self._attempts:
                return
            try:
                self._root.write(f"{attempt_folder(attempt)}/waiting.json", b"{}")
            except (OSError, ConnectError):
                # What is wrong with the stage fails the publish, with a message; the sign of life is not the place.
                return
