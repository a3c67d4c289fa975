"""A BigQuery on this machine: bqemulator from PyPI, which speaks the real REST and gRPC protocols.

It has an environment of its own, because it needs older versions of packages that Airflow uses; ``bqemulator.txt``
beside this file pins them all. ``bigquery_mended.py`` corrects its behaviour where our sink would notice.

Version 1.4.0 (2026-11) still differs from BigQuery: it keeps the changes of a failed transaction, ignores etags,
accepts NULL in REQUIRED columns and some invalid SQL, has no BIGNUMERIC columns and no ``RAISE``, matches Parquet
columns by position, and loses fields of RECORD columns in the Storage Write API.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.standins import server

if TYPE_CHECKING:
    from google.cloud.bigquery import Client

PINS = Path(__file__).with_name("bqemulator.txt")
MENDED = Path(__file__).with_name("bigquery_mended.py")
START_SECONDS = 60
STOP_SECONDS = 10
QUERY_SECONDS = 60
_SPATIAL = "import duckdb_extensions; duckdb_extensions.import_extension('spatial')"


def installed(folder: Path = Path(sys.prefix) / "bqemulator") -> Path:
    """Return the emulator's environment; fetch it from PyPI first if it is missing or has other versions.

    :raises RuntimeError: it cannot be fetched: no network, or no room.
    """
    saying = "the BigQuery emulator from PyPI (about a minute, once)"
    return server.fetched_once(folder, PINS.read_text(), _fetch, saying)


def _fetch(folder: Path) -> None:
    doing = "fetching the BigQuery emulator"
    server.environment(folder, PINS, doing)
    # DuckDB looks for its extensions under HOME.
    server.run([str(folder / "bin/python"), "-c", _SPATIAL], doing, env=os.environ | {"HOME": str(folder)})


def _once() -> Any:
    """Return the client's setting for no retry: its default waits ten minutes for an answer."""
    from google.api_core.retry import Retry

    return Retry(predicate=lambda _: False)


@dataclass
class BigQueryEmulator:
    """One emulator with an empty project, in memory.

    :param log: the file for its output.
    :param project: its only project.
    :param env: more environment variables for its process.
    """

    log: Path
    project: str = "connect-test"
    env: dict[str, str] = field(default_factory=dict)
    rest_port: int = field(default_factory=server.free_port)
    grpc_port: int = field(default_factory=server.free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def rest_url(self) -> str:
        """URL of its REST API."""
        return f"http://127.0.0.1:{self.rest_port}"

    @property
    def connection_extra(self) -> dict[str, str]:
        """The extra of an Airflow connection to it."""
        return {
            "project": self.project,
            "rest_endpoint": self.rest_url,
            "grpc_endpoint": f"http://{self.grpc_target}",
            "is_anonymous": "true",
        }

    @property
    def grpc_target(self) -> str:
        """Address of its gRPC API, without TLS: ``host:port``."""
        return f"127.0.0.1:{self.grpc_port}"

    def start(self) -> None:
        """Start it; return when it answers.

        :raises RuntimeError: it ended or did not answer in time; the message holds the end of its log.
        """
        home = installed()
        command = [str(home / "bin/python"), str(MENDED), "start", "--project", self.project, "--log-level", "warning"]
        command += ["--rest-port", str(self.rest_port), "--grpc-port", str(self.grpc_port)]
        self.process = server.start(
            command,
            lambda: server.gives_ok(f"{self.rest_url}/healthz"),
            name="the BigQuery emulator",
            log=self.log,
            cwd=home,
            seconds=START_SECONDS,
            env=self.env | {"HOME": str(home)},
        )

    def client(self) -> Client:
        """Return one of Google's clients, connected to it; close it after use."""
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.bigquery import Client

        return Client(
            project=self.project,
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": self.rest_url},
        )

    def create_dataset(self, name: str) -> None:
        """Make an empty dataset, unless it exists."""
        with contextlib.closing(self.client()) as client:
            client.create_dataset(name, exists_ok=True, timeout=QUERY_SECONDS, retry=_once())

    def tables(self, dataset: str) -> list[str]:
        """Return the names of all tables of a dataset."""
        with contextlib.closing(self.client()) as client:
            names = client.list_tables(dataset, timeout=QUERY_SECONDS, retry=_once())
            return sorted(table.table_id for table in names)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        :raises google.api_core.exceptions.NotFound: one of its tables does not exist.
        """
        with contextlib.closing(self.client()) as client:
            job = client.query(sql, timeout=QUERY_SECONDS, retry=_once(), job_retry=None)
            return [tuple(row) for row in job.result(timeout=QUERY_SECONDS, retry=_once(), job_retry=None)]

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process is not None:
            server.stop(self.process, STOP_SECONDS)
