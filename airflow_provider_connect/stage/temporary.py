"""A stage that the sink does not keep: deleted once its day is published, swept if its attempt died."""

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
"""Where days lie as they were polled, under any stage's root, until their transform has made a result of them."""
DEAD_AFTER = ONE_DAY
"""An attempt silent for this long counts as dead; a live one keeps writing its progress."""


_PRIVATE, _WAYS_OUT = "that only this user can enter", "remove it, or set staging="


def stage_name(key: object, target: str) -> str:
    """Return what :func:`local_stage` calls the days of a stream on their way to a target.

    :param key: of the stream; its text counts.
    """
    return f"{key} {target}"


def local_stage(name: str) -> str:
    """Return a private folder under the system's temporary folder; every try gets the same one.

    :param name: what is staged there; any text.
    :raises ConfigError: others can enter the folder, or own it, or there is a file of its name.
    :raises RetriableError: the disk is full.
    """
    folder = local_stage_path(name)
    for path in (folder.parent, folder):
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            raise ConfigError(f"{path} must be a folder {_PRIVATE}, and is something else: {_WAYS_OUT}") from None
        except OSError as error:
            raise storage_error(str(path), error) from error
        status = path.lstat()
        if path.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise ConfigError(f"{path} must be a folder {_PRIVATE}: {_WAYS_OUT}")
    return str(folder)


def local_stage_path(name: str) -> Path:
    """Return what :func:`local_stage` makes, whether it is there or not."""
    parent = Path(tempfile.gettempdir()) / f"connect-stage-{os.getuid()}"
    return parent / hashlib.sha256(name.encode()).hexdigest()[:16]


def polled_root(root: Folder) -> Folder:
    """Return where days lie as they were polled, for a transform."""
    return Folder(f"{root.url}/{POLLED_PATH}")


def describe_polled_copies(root: Folder) -> list[str]:
    """Name the days that a transform was given and has not deleted, and what clears them; [] if there are none."""
    files = polled_root(root).files()
    if not files:
        return []
    return [
        f"days as they were polled, for a transform ({len(files):,} files under {root.url}/{POLLED_PATH}): the day's next "
        f"load deletes them, or 'airflow connect sweep' a day after their attempt's last sign of life"
    ]


def describe_staged_copies(root: Folder) -> list[str]:
    """Name the staged days of a stage that its sink does not keep, and what clears them; [] if there are none."""
    files = sum(_attempt_of(file.name) is not None for file in root.files())
    staged = [
        f"days that are staged and not published ({files:,} files under {root.url}): the day's next load deletes them, "
        f"or 'airflow connect sweep' a day after their attempt's last sign of life"
    ]
    return (staged if files else []) + describe_polled_copies(root)


def delete_staged_day(folder: Folder, manifest: Manifest) -> None:
    """Delete a published day; its manifest first, so that nobody publishes the rest."""
    control = attempt_folder(manifest.attempt)
    folder.delete(manifest_file(manifest.attempt))
    for file in manifest.polled.files:
        folder.delete(file.path)
    folder.delete_folder(control)


def sweep_stage(folder: Folder, silent_since: dt.datetime) -> int:
    """Delete the files of attempts that have been silent since then; return how many."""
    files = files_of_dead_attempts(folder, silent_since)
    for attempt, names in files.items():
        # The manifest first, for the same reason as above.
        for name in sorted(names, key=lambda name: not name.endswith(f"/{MANIFEST_NAME}")):
            folder.delete(name)
        folder.delete_folder(attempt_folder(attempt))
    return sum(map(len, files.values()))


def files_of_dead_attempts(folder: Folder, silent_since: dt.datetime) -> dict[str, list[str]]:
    """Return the files of each attempt that has been silent since then. Changes nothing."""
    newest: dict[str, dt.datetime] = {}
    files: dict[str, list[str]] = {}
    for file in folder.files():
        attempt = _attempt_of(file.name)
        if attempt is not None and not folder.is_linked_outside(file.name):
            newest[attempt] = max(newest.get(attempt, file.modified), file.modified)
            files.setdefault(attempt, []).append(file.name)
    return {attempt: names for attempt, names in files.items() if newest[attempt] < silent_since}


def _attempt_of(name: str) -> str | None:
    if match := DATA_FILE_PATTERN.fullmatch(name) or TABLE_FILE_PATTERN.fullmatch(name):
        return match["attempt"]
    prefix = f"{CONTROL_FOLDER}/attempts/"
    attempt = name.removeprefix(prefix).partition("/")[0]
    return attempt if name.startswith(prefix) and ATTEMPT_PATTERN.fullmatch(attempt) else None
