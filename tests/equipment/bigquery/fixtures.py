"""BigQuery as fixtures: one emulator for the session, a new dataset for each test; without it tests fail, not skip.

With ``GOOGLE_CLOUD_PROJECT_FOR_TESTS`` set (never in CI) the same fixtures lead to that real project with application
default credentials, and tests that need the emulator, or the fault proxy in front of it, are skipped.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.connection import Connection
from tests.standins.bigquery_emulator import BigQueryEmulator

if TYPE_CHECKING:
    from tests.equipment.bigquery.proxy import BigQueryProxy

REAL_PROJECT = os.environ.get("GOOGLE_CLOUD_PROJECT_FOR_TESTS")


def connection_to(emulator: Any, **extra: Any) -> Connection:
    """Return a connection to anything that has ``project``, ``rest_url`` and ``grpc_target``: emulator or proxy."""
    fields = {
        "project": emulator.project,
        "rest_endpoint": emulator.rest_url,
        "grpc_endpoint": f"http://{emulator.grpc_target}",
        "is_anonymous": True,
    }
    return Connection(conn_id="google_cloud_default", conn_type="google_cloud_platform", extra=fields | extra)


def options(**chosen: Any) -> Any:
    """Return a sink's options, for a table that does not matter."""
    from airflow_provider_connect.sinks.bigquery import BigQuerySink

    return BigQuerySink(table="d.events", **chosen)


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BigQueryEmulator]:
    """One running emulator for the whole session."""
    if REAL_PROJECT:
        pytest.skip("needs the emulator, and this run is against a real project")
    started = BigQueryEmulator(log=tmp_path_factory.mktemp("bigquery") / "emulator.log")
    started.start()
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def google_connection(request: pytest.FixtureRequest) -> Connection:
    """A connection straight to the emulator, or to the real project."""
    if REAL_PROJECT:
        extra = {"project": REAL_PROJECT}
        return Connection(conn_id="google_cloud_default", conn_type="google_cloud_platform", extra=extra)
    return connection_to(request.getfixturevalue("emulator"))


@contextmanager
def fresh_dataset(connection: Connection) -> Iterator[str]:
    """Make a dataset, and drop it with all its tables at the end."""
    name = f"connect_test_{uuid.uuid4().hex}"
    with BigQueryApi.open(connection) as api:
        api.client.create_dataset(name, timeout=30, retry=None)
        try:
            yield name
        finally:
            api.client.delete_dataset(name, delete_contents=True, timeout=30, retry=None)


@pytest.fixture
def dataset(google_connection: Connection) -> Iterator[str]:
    """The name of a dataset of this test's own."""
    with fresh_dataset(google_connection) as name:
        yield name


def fresh_table(api: BigQueryApi, dataset: str, fields: list[dict[str, Any]]) -> TableRef:
    """Make a table without rows.

    :param fields: as BigQuery's REST API writes them.
    """
    from google.cloud import bigquery

    table_ref = TableRef(api.project, dataset, "rows")
    columns = [bigquery.SchemaField.from_api_repr(field) for field in fields]
    api.call("making the table", api.client.create_table, bigquery.Table(table_ref.id, columns))
    return table_ref


@dataclass
class Target:
    """A sink whose table is this test's own, and a reader of it."""

    sink: Any
    connections: dict[str, Connection]

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run a query as a reader would; ``{table}`` in it stands for the table."""
        connection = self.connections[self.sink.conn_id]
        with BigQueryApi.open(connection) as api:
            table_ref = TableRef.parse(self.sink.table, api.project)
            return api.query(sql.format(table=table_ref.sql), action="reading", labels={"connect": "test"})[0]

    def rows(self) -> list[Any]:
        """Return day and event of every row."""
        return [(row["day"], row["event"]) for row in self.query("SELECT day, event FROM {table}")]

    def age(self) -> None:
        """Leave tables as young as they are: the emulator has no clock that can be set."""


@pytest.fixture
def bigquery_target(google_connection: Connection, dataset: str) -> Target:
    """A table of this test's own."""
    from airflow_provider_connect.sinks.bigquery import BigQuerySink

    return Target(BigQuerySink(table=f"{dataset}.events"), {"google_cloud_default": google_connection})


@pytest.fixture
def proxy(emulator: BigQueryEmulator) -> Iterator[BigQueryProxy]:
    """A fault proxy in front of the emulator; connect with ``connection_to(proxy)``."""
    from tests.equipment.bigquery.proxy import BigQueryProxy

    with BigQueryProxy(emulator) as started:
        yield started
