"""Ends the job when the task that started it is gone, to save work and the source's quota.

If an Airflow task is killed with SIGKILL, its spark-submit keeps running beside the task's next try. The operator locks
a file as long as it lives. If this job can take the lock, the task is gone.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from pathlib import Path

INTERVAL_SECONDS = 0.5

_watched: list[Path] = []


def start(lock: Path) -> None:
    """Watch the lock file and the JVM from a thread. Does nothing in cluster mode, where the file does not exist."""
    if lock.exists():
        _watched.append(lock)
        threading.Thread(target=_watch, args=(lock, os.getppid()), name="watchdog", daemon=True).start()


def is_task_alive() -> bool:
    """Return True if the task that started this job is known to be alive. False if no lock file is watched."""
    return bool(_watched) and all(_is_held(lock) for lock in _watched)


def _is_held(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _watch(lock: Path, jvm: int) -> None:
    with lock.open("rb") as file:
        while True:
            if os.getppid() != jvm:
                _end_process("the JVM is gone", None)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                threading.Event().wait(INTERVAL_SECONDS)
            else:
                # If the driver has not read the connections yet, only this deletes them.
                _end_process("the Airflow task that started this job is gone", jvm, lock.with_name("connections.json"))


def _end_process(reason: str, jvm: int | None, secrets: Path | None = None) -> None:
    # The pipe may have no reader any more, and the print may fail.
    try:
        print(f"connect: {reason}; ending without publishing", file=sys.stderr, flush=True)  # noqa: T201
    finally:
        if secrets is not None:
            secrets.unlink(missing_ok=True)
        if jvm is not None:
            os.kill(jvm, signal.SIGKILL)
        os._exit(75)
