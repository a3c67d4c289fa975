"""Private folder for files that a task and its Spark driver exchange.

==================  ==========================================================================================
file                content
==================  ==========================================================================================
job.json            the job, without secrets
connections.json    the resolved connections with secrets. The driver reads and deletes it
alive.lock          locked by the task during its life. A process that can lock it knows that the task is dead
report.json         the driver's report
==================  ==========================================================================================

The kernel releases the lock however the task dies, SIGKILL included.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider_connect.patience import Patience

_PREFIX = "airflow-connect-"
_REMOVE_SECONDS = 5.0
_log = logging.getLogger(__name__)
_LOCK = "alive.lock"
_UNLOCKED_SECONDS = 3600.0  # a folder without a lock file after this time belongs to a task that died at its start


@contextlib.contextmanager
def run_folder(parent: Path | None = None) -> Iterator[Path]:
    """Create a locked folder that only this user can read, and remove it at the end. Also removes dead tasks' folders.

    :param parent: None means the system's temporary folder.
    """
    parent = parent or Path(tempfile.gettempdir())
    sweep_dead_folders(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        with (folder / f"{_LOCK}.new").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Renamed after it was locked, so a lock file that can be locked always means a dead task.
            (folder / f"{_LOCK}.new").rename(folder / _LOCK)
            yield folder
    finally:
        remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Delete a run's folder, which may be missing. A dying JVM may still write into it.

    After five seconds it is left to a later task, with a warning.
    """
    patience = Patience(_REMOVE_SECONDS, (0.05,))
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            if not patience.wait_and_poll():
                _log.warning("Removing %s failed (%s). A later task tries again", folder, error.strerror)
                return


def sweep_dead_folders(parent: Path) -> int:
    """Remove the folders of this user's dead tasks, with their secrets. Returns the number of folders."""
    dead = [folder for folder in parent.glob(f"{_PREFIX}*") if _is_own_folder(folder) and _is_dead(folder)]
    for folder in dead:
        remove_folder(folder)
    return len(dead)


def _is_own_folder(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        status = folder.lstat()
        return status.st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
    return False


def _is_dead(folder: Path) -> bool:
    try:
        with (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            return time.time() - folder.stat().st_mtime > _UNLOCKED_SECONDS
        return False
    return True


def close_pipe(hook: Any) -> None:
    """Close spark-submit's output pipe, which Airflow's Spark hook leaves open until the process ends.

    :param hook: None if spark-submit was not started.
    """
    process = getattr(hook, "_submit_sp", None)
    if process is not None and process.stdout is not None:
        process.stdout.close()
