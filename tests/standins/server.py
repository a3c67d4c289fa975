"""Runs a private server on this machine: downloads its files once, finds a port, starts and stops its process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import requests

PORTS = range(15_000, 30_000)
FETCH_SECONDS = 600


def free_port() -> int:
    """Return a free port outside the system's range for outgoing connections.

    Inside that range, a client that keeps trying while its server is down may connect to itself, and then the server
    cannot get its port back.
    """
    for port in random.sample(PORTS, 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no free port between {PORTS.start} and {PORTS.stop}")


def fetched_once(folder: Path, version: str, fetch: Callable[[Path], None], description: str) -> Path:
    """Return a folder with a version of something; if it has another, make it again, one process at a time.

    :param version: any text that identifies the version.
    :param fetch: fills the empty folder.
    :param saying: printed before the fetch.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        marker = folder / "installed.txt"
        if not marker.exists() or marker.read_text() != version:
            print(f"fetching {description} into {folder}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fetch(folder)
            marker.write_text(version)
    return folder


def environment(folder: Path, pins: Path, activity: str) -> None:
    """Make an environment with the packages of a file that names all it needs, and nothing else: not even pip.

    :raises RuntimeError: it could not be made.
    """
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], activity)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet"]
    # What is imported is compiled then: all of it takes a minute of a core.
    run([*pip, "--disable-pip-version-check", "--no-deps", "--no-compile", "-r", str(pins)], activity)


def run(
    command: Sequence[str],
    activity: str,
    seconds: float = FETCH_SECONDS,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Return a command's output.

    :raises RuntimeError: it failed (with the end of its output), or did not end in time.
    """
    try:
        return subprocess.run(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=True,
        ).stdout
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{activity} did not end within {seconds} s") from None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{activity} failed with code {error.returncode}:\n{tail(error.stdout)}") from None


def start(
    command: Sequence[str],
    answers: Callable[[], bool],
    *,
    name: str,
    log: Path,
    cwd: Path,
    seconds: float,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a server in its own session; return when it answers.

    :param answers: called until it returns True.
    :param log: its output is appended here.
    :raises RuntimeError: it ended, or did not answer in time and was stopped; the message has the end of its log.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            env=os.environ | (env or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + seconds
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start; the end of {log}:\n{tail(log.read_text(errors='replace'))}")
            time.sleep(0.1)
    except BaseException:
        stop(process, seconds=0)
        raise
    return process


def stop(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End a server, by force if it takes too long; it may have ended or be suspended."""
    process.terminate()
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def gives_ok(url: str, seconds: float = 5) -> bool:
    """Tell whether a GET to this machine succeeds, without any proxy."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            return session.get(url, timeout=seconds).ok
        except (requests.ConnectionError, requests.Timeout):
            return False


def tail(text: str) -> str:
    """Return the last lines of a log, which usually name the reason."""
    return "\n".join(text.splitlines()[-15:])
