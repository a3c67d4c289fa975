"""The driver's watchdog, in processes of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest

from airflow_provider_connect.spark import watchdog

SECONDS = 10

# The driver's parent is the JVM; here a shell-like process that starts the driver and waits for it.
DRIVER = """
import sys, time
from pathlib import Path
from airflow_provider_connect.spark import watchdog
watchdog.start(Path(sys.argv[1]))
print("watching", flush=True)
time.sleep(60)
"""
JVM = """
import os, subprocess, sys
driver = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]])
print(driver.pid, flush=True)
sys.exit(driver.wait())
"""


class Job:
    """A JVM and the driver below it, and the lock of the task above them."""

    def __init__(self, lock: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", JVM, textwrap.dedent(DRIVER), str(lock)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        lines = sorted(self.out.readline() for _ in range(2))
        self.driver = psutil.Process(int(lines[0]))
        assert lines[1] == "watching\n"

    @property
    def out(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def end(self) -> str:
        """Kill both; return what they had to say."""
        for kill in (self.process.kill, self.driver.kill):
            with contextlib.suppress(psutil.NoSuchProcess):
                kill()
        return self.process.communicate(timeout=SECONDS)[1]

    def is_gone(self) -> bool:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            # Whoever adopted it may not have asked for its exit code yet.
            if not self.driver.is_running() or self.driver.status() == psutil.STATUS_ZOMBIE:
                return True
            time.sleep(0.02)
        return False


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[IO[bytes]]:
    with (tmp_path / "alive.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


@pytest.fixture
def job(lock: IO[bytes]) -> Iterator[Job]:
    made = Job(Path(str(lock.name)))
    yield made
    made.end()


def test_the_job_ends_with_the_jvm_when_the_task_releases_its_lock(job: Job, lock: IO[bytes]) -> None:
    started = time.monotonic()
    lock.close()
    _, said = job.process.communicate(timeout=SECONDS)
    assert time.monotonic() - started < 3
    assert job.process.returncode == -signal.SIGKILL, "the JVM goes too"
    assert job.is_gone()
    assert "the Airflow task that started this job is gone; ending without publishing" in said


def test_the_job_ends_when_the_jvm_is_gone(job: Job) -> None:
    os.kill(job.process.pid, signal.SIGKILL)
    assert job.is_gone()
    assert "the JVM is gone" in job.process.communicate(timeout=SECONDS)[1]


def test_the_watchdog_ends_the_job_with_the_retriable_exit_code(lock: IO[bytes]) -> None:
    """The driver's own code, seen by a parent that cannot be killed in its place."""
    code = (
        "import os; from airflow_provider_connect.spark import watchdog; watchdog._end_process('the JVM is gone', None)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 75
    assert "ending without publishing" in ended.stderr


def test_the_job_runs_while_the_task_lives_and_nothing_is_watched_without_a_lock(job: Job, tmp_path: Path) -> None:
    """In cluster mode the driver runs elsewhere, and the cluster takes care of it."""
    elsewhere = Job(tmp_path / "missing.lock")
    try:
        elsewhere.process.kill()
        time.sleep(2 * watchdog.INTERVAL_SECONDS)
        assert job.process.poll() is None
        for driver in (job.driver, elsewhere.driver):
            assert driver.is_running()
            assert driver.status() != psutil.STATUS_ZOMBIE
    finally:
        said = elsewhere.end()
    assert said == ""
