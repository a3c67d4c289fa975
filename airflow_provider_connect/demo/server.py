"""A server of one's own on this machine: its files fetched once, its port, its process from start to end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import requests

PORTS = range(15_000, 30_000)
FETCH_SECONDS = 600


def free_port() -> int:
    """Return a free port that the system gives to no outgoing connection.

    Among those that it does give, a client that knocks again and again while its server is down ends up connected to
    itself, and the server cannot come back.
    """
    for port in random.sample(PORTS, 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no free port between {PORTS.start} and {PORTS.stop}")


def fetched_once(folder: Path, version: str, fetch: Callable[[Path], None], saying: str) -> Path:
    """Return a folder that holds a version of something; make it anew if it does not, one process at a time.

    :param version: whatever text tells one version from another.
    :param fetch: fills the empty folder.
    :param saying: printed before.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / "installed.txt"
        if not made.exists() or made.read_text() != version:
            print(f"fetching {saying} into {folder}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fetch(folder)
            made.write_text(version)
    return folder


def run(
    command: Sequence[str], doing: str, seconds: float = FETCH_SECONDS, env: Mapping[str, str] | None = None
) -> str:
    """Return what a command says.

    :raises RuntimeError: it failed, with the end of what it said, or did not end in time.
    """
    try:
        return subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=True,
        ).stdout
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{doing} did not end within {seconds} s") from None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{doing} failed with code {error.returncode}:\n{tail(error.stdout)}") from None


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
    """Start a server in a session of its own; return when it answers.

    :param answers: asked until it is true.
    :param log: what it says is appended here.
    :raises RuntimeError: it ended or did not answer in time, and is ended; the message holds the end of its log.
    """
    with log.open("ab") as said:
        process = subprocess.Popen(
            command,
            env=os.environ | (env or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=said,
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
    """End a server, by force if it needs longer; one that has ended, or holds still, is fine."""
    process.terminate()
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def gives_ok(url: str, seconds: float = 5) -> bool:
    """Tell whether a GET of this machine's own gives success, without any proxy."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            return session.get(url, timeout=seconds).ok
        except (requests.ConnectionError, requests.Timeout):
            return False


def tail(text: str) -> str:
    """Return the last lines of a log, where the reason stands."""
    return "\n".join(text.splitlines()[-15:])
