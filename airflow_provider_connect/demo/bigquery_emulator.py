"""A BigQuery on this machine: bqemulator from PyPI, which speaks the real REST and gRPC protocols.

It lives in an environment of its own, since it wants older versions of what Airflow uses; ``bqemulator.txt`` beside
this file pins all of it. It passes some things that BigQuery refuses, and the reverse: see ``docs/bigquery.md``.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import requests

from airflow_provider_connect.demo.local_airflow import free_port

PINS = Path(__file__).with_name("bqemulator.txt")
INSTALL_SECONDS = 600
START_SECONDS = 60
_SPATIAL = "import duckdb_extensions; duckdb_extensions.import_extension('spatial')"


def installed(folder: Path = Path(sys.prefix) / "bqemulator") -> Path:
    """Return the emulator's environment; fetch it from PyPI first if it is not there or of other versions.

    :raises RuntimeError: it cannot be fetched: no network, or no room.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pins, made = PINS.read_text(), folder / "installed.txt"
        if not made.exists() or made.read_text() != pins:
            print(f"fetching the BigQuery emulator from PyPI into {folder} (about a minute, once)", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(folder))
            _run(str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "-r", str(PINS))
            # DuckDB looks for its extensions under HOME.
            _run(str(folder / "bin/python"), "-c", _SPATIAL, env=os.environ | {"HOME": str(folder)})
            made.write_text(pins)
    return folder


def _run(*command: str, env: dict[str, str] | None = None) -> None:
    ended = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
    if ended.returncode:
        tail = "\n".join((ended.stdout + ended.stderr).splitlines()[-15:])
        raise RuntimeError(f"{' '.join(command[:3])} … ended with code {ended.returncode}:\n{tail}")


@dataclass
class BigQueryEmulator:
    """One emulator with an empty project, in memory.

    :param log: where it writes what it says.
    :param project: the only project it knows.
    :param env: more environment variables for its process.
    """

    log: Path
    project: str = "connect-test"
    env: dict[str, str] = field(default_factory=dict)
    rest_port: int = field(default_factory=free_port)
    grpc_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def rest_url(self) -> str:
        """Where REST is spoken."""
        return f"http://127.0.0.1:{self.rest_port}"

    @property
    def grpc_target(self) -> str:
        """Where gRPC is spoken, without TLS: ``host:port``."""
        return f"127.0.0.1:{self.grpc_port}"

    def start(self) -> None:
        """Start it; return when it answers.

        :raises RuntimeError: it ended or did not answer in time; the message holds the end of its log.
        """
        home = installed()
        command = [str(home / "bin/bqemulator"), "start", "--project", self.project, "--log-level", "warning"]
        command += ["--rest-port", str(self.rest_port), "--grpc-port", str(self.grpc_port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=os.environ | self.env | {"HOME": str(home)},
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
                raise RuntimeError(f"the BigQuery emulator did not start; the end of {self.log}:\n{tail}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.rest_url}/healthz", timeout=5).ok
        except requests.ConnectionError:
            return False

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
