"""The BigQuery emulator as fixtures: one a session, a fresh dataset a test. If it is missing, tests fail, not skip."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import requests

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.demo.bigquery_emulator import BigQueryEmulator

if TYPE_CHECKING:
    from .integration.bigquery_proxy import BigQueryProxy

DATASETS = itertools.count(1)


def connection_to(emulator: Any, **extra: Any) -> Connection:
    """Return a connection to anything that has ``project``, ``rest_url`` and ``grpc_target``: emulator or proxy."""
    fields = {"project": emulator.project, "emulator_rest": emulator.rest_url, "emulator_grpc": emulator.grpc_target}
    return Connection(conn_id="google_cloud_default", conn_type="google_cloud_platform", extra=fields | extra)


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BigQueryEmulator]:
    """One running emulator for the whole session."""
    started = BigQueryEmulator(log=tmp_path_factory.mktemp("bigquery") / "emulator.log")
    started.start()
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture
def dataset(emulator: BigQueryEmulator) -> Iterator[str]:
    """The name of a dataset of this test's own, dropped with all its tables afterwards."""
    name = f"test_{next(DATASETS)}"
    datasets = f"{emulator.rest_url}/bigquery/v2/projects/{emulator.project}/datasets"
    body = {"datasetReference": {"projectId": emulator.project, "datasetId": name}}
    requests.post(datasets, json=body, timeout=30).raise_for_status()
    yield name
    requests.delete(f"{datasets}/{name}", params={"deleteContents": "true"}, timeout=30).raise_for_status()


@pytest.fixture
def google_connection(emulator: BigQueryEmulator) -> Connection:
    """A connection straight to the emulator."""
    return connection_to(emulator)


@dataclass
class Target:
    """A sink whose table is this test's own, and a reader of it."""

    sink: Any
    connections: dict[str, Connection]

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run a query as a reader would; ``{table}`` in it stands for the table."""
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import bigquery

        extra = self.connections[self.sink.conn_id].extra
        options = {"api_endpoint": extra["emulator_rest"]}
        client = bigquery.Client(extra["project"], credentials=AnonymousCredentials(), client_options=options)
        sql = sql.format(table=f"`{extra['project']}.{self.sink.table}`")
        return [dict(row) for row in client.query(sql, retry=None, job_retry=None, timeout=60).result(timeout=60)]

    def rows(self) -> list[Any]:
        """Return day and event of every row."""
        return [(row["day"], row["event"]) for row in self.query("SELECT day, event FROM {table}")]


@pytest.fixture
def bigquery_target(emulator: BigQueryEmulator, dataset: str) -> Target:
    """A table of this test's own in the emulator."""
    from airflow_provider_connect.sinks.bigquery import BigQuerySink

    return Target(BigQuerySink(table=f"{dataset}.events"), {"google_cloud_default": connection_to(emulator)})


@pytest.fixture
def proxy(emulator: BigQueryEmulator) -> Iterator[BigQueryProxy]:
    """A fault proxy in front of the emulator; connect with ``connection_to(proxy)``."""
    from .integration.bigquery_proxy import BigQueryProxy

    with BigQueryProxy(emulator) as started:
        yield started
