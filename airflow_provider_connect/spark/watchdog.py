"""Leaves when the task that started this job is gone.

Killing an Airflow task with SIGKILL leaves its spark-submit alive, writing beside the task's next try. The
operator therefore holds a lock on a file for as long as it lives; the system takes it away with the
process, however that ends, and whoever can take it then knows. The sink refuses a stale publish even
without this: it saves work and the source's quota, and is not the fence.
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
    """Watch ``lock`` and the JVM from a thread; nothing is watched where the lock's file is not (cluster mode)."""
    if lock.exists():
        _watched.append(lock)
        threading.Thread(target=_watch, args=(lock, os.getppid()), name="watchdog", daemon=True).start()


def sees_task() -> bool:
    """Tell whether the task that started this job is known to live; False where nothing is watched."""
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
                _leave("the JVM is gone", None)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                threading.Event().wait(INTERVAL_SECONDS)
            else:
                # Before the driver has read them, the connections still lie there, and nobody else would delete them.
                _leave("the Airflow task that started this job is gone", jvm, lock.with_name("connections.json"))


def _leave(reason: str, jvm: int | None, secrets: Path | None = None) -> None:
    # A pipe nobody reads any more must not keep us.
    try:
        print(f"connect: {reason}; leaving without publishing", file=sys.stderr, flush=True)  # noqa: T201
    finally:
        if secrets is not None:
            secrets.unlink(missing_ok=True)
        if jvm is not None:
            os.kill(jvm, signal.SIGKILL)
        os._exit(75)
