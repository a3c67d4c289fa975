"""A temporary stage, whose files are deleted once published, or by a sweep."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import tempfile
from pathlib import Path

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.manifest import (
    ATTEMPT_PATTERN,
    CONTROL_FOLDER,
    DATA_FILE_PATTERN,
    MANIFEST_NAME,
    TABLE_FILE_PATTERN,
    Manifest,
    attempt_folder,
    manifest_file,
)
from airflow_provider_connect.stage.storage import Folder, storage_error
from airflow_provider_connect.window import ONE_DAY

POLLED_PATH = f"{CONTROL_FOLDER}/polled"
"""Folder under a stage's root for polled days that wait for their transform."""
DEAD_AFTER = ONE_DAY
"""An attempt without a write for this long is dead."""


_PRIVATE_FOLDER, _REMEDY = "that only this user can enter", "remove it, or set staging="


def stage_name(key: object, target: str) -> str:
    """Return the name of a stream and target for :func:`local_stage`."""
    return f"{key} {target}"


def stream_staging(staging: str | None, stream_key: str) -> str | None:
    """Return the stage of one of many streams: a folder under the task's ``staging=``. None without one."""
    return staging and f"{staging.rstrip('/')}/{stream_key}"


def local_stage(name: str) -> str:
    """Create a private folder under the system's temporary folder, the same for the same name.

    :raises ConfigError: a file, or other users' folder.
    :raises RetriableError: the disk is full.
    """
    folder = local_stage_path(name)
    for path in (folder.parent, folder):
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            raise ConfigError(f"{path} must be a folder {_PRIVATE_FOLDER}, but is no folder: {_REMEDY}") from None
        except OSError as error:
            raise storage_error(str(path), error) from error
        status = path.lstat()
        if path.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise ConfigError(f"{path} must be a folder {_PRIVATE_FOLDER}: {_REMEDY}")
    return str(folder)


def local_stage_path(name: str) -> Path:
    """Return the path that :func:`local_stage` creates."""
    parent = Path(tempfile.gettempdir()) / f"connect-stage-{os.getuid()}"
    return parent / hashlib.sha256(name.encode()).hexdigest()[:16]


def polled_root(root: Folder) -> Folder:
    """Return the folder :data:`POLLED_PATH` of a stage."""
    return Folder(f"{root.url}/{POLLED_PATH}")


def describe_polled_copies(root: Folder) -> list[str]:
    """Describe the polled days that a transform left behind, and how to clear them."""
    files = polled_root(root).files()
    if not files:
        return []
    return [
        f"days polled for a transform ({len(files):,} files under {root.url}/{POLLED_PATH}). The day's next "
        f"load deletes them, or 'airflow connect sweep' a day after their attempt's last write"
    ]


def describe_staged_copies(root: Folder) -> list[str]:
    """Describe the unpublished days of a temporary stage, and how to clear them."""
    files = sum(_attempt_of_file(file.name) is not None for file in root.files())
    staged_copies = [
        f"unpublished staged days ({files:,} files under {root.url}). The day's next load deletes them, "
        f"or 'airflow connect sweep' a day after their attempt's last write"
    ]
    return (staged_copies if files else []) + describe_polled_copies(root)


def delete_staged_day(folder: Folder, manifest: Manifest) -> None:
    """Delete a published day's staged files, the manifest first."""
    control = attempt_folder(manifest.attempt)
    folder.delete(manifest_file(manifest.attempt))
    for file in manifest.polled.files:
        folder.delete(file.path)
    folder.delete_folder(control)


def sweep_stage(folder: Folder, silent_since: dt.datetime) -> int:
    """Delete the files of attempts without a write since ``silent_since``. Returns their number."""
    files = files_of_dead_attempts(folder, silent_since)
    for attempt, names in files.items():
        # The manifest first, so that no retry publishes a part.
        for name in sorted(names, key=lambda name: not name.endswith(f"/{MANIFEST_NAME}")):
            folder.delete(name)
        folder.delete_folder(attempt_folder(attempt))
    return sum(map(len, files.values()))


def files_of_dead_attempts(folder: Folder, silent_since: dt.datetime) -> dict[str, list[str]]:
    """Return the files of each attempt without a write since ``silent_since``."""
    newest: dict[str, dt.datetime] = {}
    files: dict[str, list[str]] = {}
    for file in folder.files():
        attempt = _attempt_of_file(file.name)
        if attempt is not None and not folder.is_linked_outside(file.name):
            newest[attempt] = max(newest.get(attempt, file.modified), file.modified)
            files.setdefault(attempt, []).append(file.name)
    return {attempt: names for attempt, names in files.items() if newest[attempt] < silent_since}


def _attempt_of_file(name: str) -> str | None:
    if match := DATA_FILE_PATTERN.fullmatch(name) or TABLE_FILE_PATTERN.fullmatch(name):
        return match["attempt"]
    prefix = f"{CONTROL_FOLDER}/attempts/"
    attempt = name.removeprefix(prefix).partition("/")[0]
    return attempt if name.startswith(prefix) and ATTEMPT_PATTERN.fullmatch(attempt) else None
