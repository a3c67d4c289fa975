from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_provider_connect.operators.run_folder import run_folder, sweep_dead_folders

LIVE = """
import sys, time, pathlib
from airflow_provider_connect.operators.run_folder import run_folder
with run_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "connections.json").write_text("secret")
    print(folder, flush=True)
    time.sleep(60)
"""


def is_locked(folder: Path) -> bool:
    with (folder / "alive.lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_folder_is_private_locked_and_gone_afterwards(tmp_path: Path) -> None:
    with run_folder(tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert is_locked(folder)
        (folder / "job.json").touch()
    assert list(tmp_path.iterdir()) == []


def test_folder_is_gone_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="x"), run_folder(tmp_path):
        raise ValueError("x")
    assert list(tmp_path.iterdir()) == []


def test_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    with run_folder(tmp_path) as folder:
        lock = folder / "alive.lock"
        child = subprocess.Popen(["sleep", "30"])
        held = lock.open("rb")
    try:
        with held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        child.kill()
        child.wait()


def test_sigkill_frees_the_lock_and_the_next_task_sweeps(tmp_path: Path) -> None:
    task = subprocess.Popen([sys.executable, "-c", LIVE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert task.stdout is not None
    with task.stdout:
        folder = Path(task.stdout.readline().strip())
    try:
        assert sweep_dead_folders(tmp_path) == 0
        assert is_locked(folder)
        task.send_signal(signal.SIGKILL)
    finally:
        task.kill()
        task.wait()
    assert sweep_dead_folders(tmp_path) == 1
    assert not folder.exists()


def test_folder_without_a_lock_is_swept_only_when_old(tmp_path: Path) -> None:
    folder = tmp_path / "airflow-connect-x"
    folder.mkdir()
    assert sweep_dead_folders(tmp_path) == 0
    os.utime(folder, (time.time() - 7200,) * 2)
    assert sweep_dead_folders(tmp_path) == 1


def test_foreign_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "alive.lock").touch()
    (tmp_path / "airflow-connect-link").symlink_to(tmp_path / "elsewhere")
    assert sweep_dead_folders(tmp_path) == 0
    assert (tmp_path / "elsewhere").exists()
