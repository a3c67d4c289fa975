"""BigQuery table: each day appears whole and once, with typed columns, and can be loaded again.

**One** transaction deletes the day, inserts it from a staging table and writes the ledger row. Guide:
``docs/bigquery.md``.

**Connection.** Airflow's ``google_cloud_platform`` type. Without credentials, Application Default Credentials, which
the Airflow task, the driver and the executors need.

**Delivery.** ``write_mode="replace"`` (default): each day once. A reload replaces the day, deletions included.
``"merge"``: each key once, the newest source position wins. ``"append"`` refuses a day that the ledger has, unless
``on_published_day="append"``. A snapshot of all rows replaces the whole table, or with ``snapshot="daily"`` its day.

**Load methods.** ``load_method="storage_write"``: executors append Arrow to pending streams of the Storage Write API,
and the driver commits them together. ``"load_job"``: one free but slower job for all Parquet files. ``"auto"`` uses
load jobs for a stage on ``gs://``.

**Ledger.** Table ``<table>__ledger`` in the same dataset has one row for each publish. If another publisher has
published the day since the poll, the transaction changes nothing. ``<table>__notes`` keeps facts of a stream that
belong to no day.

**Schema.** Every table has a column ``day`` (DATE), by which it is partitioned unless ``partition_by`` names another
column. ``schema_contract="evolve"`` adds columns and relaxes REQUIRED to NULLABLE, ``"freeze"`` fails the day,
``"discard_columns"`` leaves new columns out. A number that grows and a type that loses its limits are widened in the
table. Any other changed type fails the day.

**Limits.** Rows of up to 8 MB. Each publish creates and drops one table, and runs one script and one ledger query. Each
staged file takes a write stream. ``table="analytics.{event}"`` creates up to ``max_tables`` tables, only with
``write_mode="replace"``.

**Errors.** Rate limits, 5xx, broken connections and lost races are retriable, an exhausted quota in an hour. Missing
datasets and rights, wrong locations and partitions are found before the poll. A row that BigQuery cannot hold fails the
day, or goes to ``<table>__rejects`` with ``errors_tolerance="all"``.

Vendor facts: https://cloud.google.com/bigquery/docs/write-api, …/transactions, …/loading-data-cloud-storage-parquet,
https://cloud.google.com/bigquery/quotas (2026-11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.connection import Dataset
from airflow_provider_connect.sink import Connections, Sink, StreamKey
from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._bigquery.publisher import BigQueryPublisher


class BigQuerySink(BigQueryOptions, Sink):
    """Options of a BigQuery table as a sink."""

    def check(self, connections: Connections) -> list[str]:
        """Validate the connection without network access. Returns the problems found."""
        from airflow_provider_connect.clients.bigquery.credentials import check_connection  # noqa: PLC0415

        return check_connection(connections[self.conn_id])

    def dataset(self, connections: Connections) -> Dataset:
        """Return ``project.dataset.table``. The connection's id replaces an unknown project."""
        from airflow_provider_connect.clients.bigquery.credentials import project_of_connection  # noqa: PLC0415
        from airflow_provider_connect.clients.bigquery.sql import project_in_name  # noqa: PLC0415

        connection = connections[self.conn_id]
        project = None if project_in_name(self.head) else project_of_connection(connection) or connection.conn_id
        return Dataset("bigquery", ".".join(filter(None, [project, self.table])))

    def open(self, key: StreamKey, connections: Connections) -> BigQueryPublisher:
        """Return a publisher for one stream. It signs in on first use."""
        from airflow_provider_connect.sinks._bigquery.publisher import BigQueryPublisher, TablePublisher  # noqa: PLC0415

        publisher = TablePublisher if self.tables is None else BigQueryPublisher
        return publisher(self, key, connections[self.conn_id])
