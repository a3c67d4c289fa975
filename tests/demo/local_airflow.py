"""A private Airflow on this machine: home folder, free ports, three processes, and none left behind.

``airflow standalone`` leaves its children alive when it ends, so the API server, the scheduler and the DAG processor
are started here one by one. All their processes inherit a mark in the environment. By this mark
:meth:`LocalAirflow.stop` finds those that survive their killed parents.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil
import requests

from tests.standins.server import free_port

MARK = "CONNECT_LOCAL_AIRFLOW"
START_SECONDS = 120
STOP_SECONDS = 10
LOCK_SECONDS = 3
TRIES = 5
ROLES = ("api-server", "scheduler", "dag-processor")
ALL_ROLES = (*ROLES, "triggerer")


@dataclass
class LocalAirflow:
    """One Airflow with the LocalExecutor.

    :param home: its folder; everything it writes goes there.
    :param dags: folder of the DAG files.
    :param parallelism: most tasks at the same time.
    :param settings: more environment variables for its processes.
    :param roles: the processes to start; tasks that defer need the ``triggerer``.
    :param database: address of its database; by default a file of SQLite's in its home.
    :param log_port: where the scheduler serves task logs to the API server.
    :param trigger_log_port: where the triggerer does.
    """

    home: Path
    dags: Path
    parallelism: int = 4
    settings: dict[str, str] = field(default_factory=dict)
    roles: Sequence[str] = ROLES
    database: str = ""
    port: int = field(default_factory=free_port)
    log_port: int = field(default_factory=free_port)
    trigger_log_port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _logs: list[IO[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._mark = str(self.home.resolve())
        self._secret = secrets.token_urlsafe(32)
        self._session = requests.Session()
        self._session.trust_env = False

    @property
    def url(self) -> str:
        """Where the UI and the REST API are."""
        return f"http://localhost:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return the environment of every process of this Airflow, and for its CLI."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "SPARK_", "PYSPARK_"))}
        core = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            # Several processes write: on a busy machine one waits longer for another than SQLite's five seconds.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database or self._file(timeout_seconds=60),
            "AIRFLOW__CORE__PARALLELISM": str(self.parallelism),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__FERNET_KEY": "",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(self.log_port),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(self.trigger_log_port),
            "AIRFLOW__API_AUTH__JWT_SECRET": self._secret,
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
            # No library may check for new versions, and localhost needs no proxy.
            "NO_PROXY": "localhost,127.0.0.1",
            # Without this, setproctitle overwrites the environment that holds the mark.
            "SPT_NOENV": "1",
            MARK: self._mark,
        }
        if self.database:  # its driver serves both, and Airflow would look for another one
            core["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"] = self.database
        return inherited | core | self.settings

    def start(self) -> None:
        """Make the database and start the three processes; return when the API answers.

        :raises RuntimeError: if one of them ends, or does not answer in time; the message names its log.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        self._run_to_end("db", "migrate")
        for role in self.roles:
            self._start(role)
        deadline = time.monotonic() + START_SECONDS
        while True:
            self.check_alive()
            with contextlib.suppress(requests.ConnectionError):
                if self._session.get(f"{self.url}/api/v2/monitor/health", timeout=5).ok:
                    break
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"Airflow's API did not answer within {START_SECONDS} s; see {self._log('api-server')}"
                )
            time.sleep(0.3)
        self._session.headers["Authorization"] = f"Bearer {self.token()}"

    def token(self) -> str:
        """Return a token for the API: everybody is an admin."""
        return str(self._session.get(f"{self.url}/auth/token", timeout=30).json()["access_token"])

    def check_alive(self) -> None:
        """Raise if one of the processes has ended.

        :raises RuntimeError: naming the process and the end of its log.
        """
        for role, process in self.processes.items():
            if process.poll() is not None:
                tail = "\n".join(self._log(role).read_text(errors="replace").splitlines()[-15:])
                raise RuntimeError(f"airflow {role} ended with code {process.returncode}; the end of its log:\n{tail}")

    def api(self, method: str, path: str, **options: Any) -> Any:
        """Call the REST API under ``/api/v2``; return the decoded answer.

        :raises RuntimeError: if there is no answer, or it is an error.
        """
        for _ in range(TRIES):
            try:
                answer = self._session.request(method, f"{self.url}/api/v2/{path}", timeout=120, **options)
            except (requests.ConnectionError, requests.Timeout) as error:
                self.check_alive()
                raise RuntimeError(f"{method} {path}: Airflow does not answer ({type(error).__name__})") from None
            if answer.status_code != 500 or "Database error" not in answer.text:
                break
            time.sleep(1)  # it could not have the lock, and has changed nothing
        if not answer.ok:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.content else None

    def wait_for_dag(self, dag_id: str, seconds: float = START_SECONDS) -> None:
        """Wait until the DAG processor has read a DAG.

        :raises RuntimeError: if it cannot be read, or not in time.
        """
        deadline = time.monotonic() + seconds
        while not any(dag["dag_id"] == dag_id for dag in self.api("GET", "dags?limit=500")["dags"]):
            errors = self.api("GET", "importErrors")["import_errors"]
            if errors:
                raise RuntimeError(f"{errors[0]['filename']}:\n{errors[0]['stack_trace']}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"DAG {dag_id!r} did not appear within {seconds:.0f} s")
            self.check_alive()
            time.sleep(0.5)

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return all runs of a DAG, oldest first."""
        return list(self.api("GET", f"dags/{dag_id}/dagRuns?limit=500&order_by=run_after")["dag_runs"])

    def waiting_for_retry(self, dag_id: str) -> int:
        """Return how many tasks of a DAG wait for a retry."""
        return int(self.api("GET", f"dags/{dag_id}/dagRuns/~/taskInstances?state=up_for_retry")["total_entries"])

    def stop(self) -> None:
        """End every process of this Airflow, with all their children."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        stop_marked(self._mark)
        for process in self.processes.values():
            process.wait(timeout=STOP_SECONDS)
        for log in self._logs:
            log.close()
        self._session.close()

    def _start(self, role: str) -> None:
        log = self._log(role).open("ab")
        self._logs.append(log)
        self.processes[role] = subprocess.Popen(
            [sys.executable, "-m", "airflow", role],
            env=self.environment() | self._own(role),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _own(self, role: str) -> dict[str, str]:
        """Return what one process alone has.

        The API server writes its log of actions in its event loop, which stands still while that waits for SQLite's
        lock; and a request that holds the lock needs the event loop to end. So whoever waits there gives up early.
        """
        if role != "api-server" or self.database:
            return {}
        return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self._file(timeout_seconds=LOCK_SECONDS)}

    def _file(self, timeout_seconds: int) -> str:
        return f"sqlite:///{self.home}/airflow.db?timeout={timeout_seconds}"

    def _run_to_end(self, *command: str) -> None:
        log = self._log(command[0])
        with log.open("ab") as out:
            ended = subprocess.run(
                [sys.executable, "-m", "airflow", *command],
                env=self.environment(),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=300,
                check=False,
            )
        if ended.returncode:
            raise RuntimeError(f"airflow {' '.join(command)} ended with code {ended.returncode}; see {log}")

    def _log(self, role: str) -> Path:
        return self.home / f"{role}.log"


def marked(mark: str) -> Iterator[psutil.Process]:
    """Yield every process of this user that carries the mark of one Airflow."""
    for pid in psutil.pids():  # process_iter() keeps a cache of its own, which threads disturb
        try:
            process = psutil.Process(pid)
            if pid != os.getpid() and process.environ().get(MARK) == mark:
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue


def stop_marked(mark: str) -> int:
    """End all marked processes: terminate them, then kill those that remain. Return how many there were."""
    deadline = time.monotonic() + STOP_SECONDS
    alive = list(marked(mark))
    number = len(alive)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    while alive:
        with contextlib.suppress(FileNotFoundError):  # psutil 7 on a process that ends while it opens its descriptor
            psutil.wait_procs(alive, timeout=1)
        if time.monotonic() > deadline - STOP_SECONDS / 2:
            for process in marked(mark):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        alive = list(marked(mark))
    return number
