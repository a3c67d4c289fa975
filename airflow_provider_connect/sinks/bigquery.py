"""BigQuery table: a day appears whole, once, typed, and can be loaded again.

A frozen day goes into a staging table of this attempt's own, and **one** script puts it in place: a multi-statement
transaction that deletes the day, inserts it from the staging table and writes the ledger row. Readers see the old day
or the new one, never a part. The staging table is dropped at the end, and expires by itself after a day.

**Connection.** Airflow's ``google_cloud_platform`` type, with the Google provider installed or without it: ``project``,
``keyfile_dict``, ``key_path``, ``credential_config_file``, ``scope``, ``impersonation_chain``; with none of these,
Application Default Credentials, which the Airflow task, the driver and the executors all need. Rights: BigQuery Data
Editor on the dataset (tables, also to be made, and their data) and BigQuery Job User on the project. ``rest_endpoint``
(``https://host``) and ``grpc_endpoint`` (``host:443``) name private endpoints, ``universe_domain`` another universe.

**Delivery.** ``write_mode="replace"`` (default): each day once; a reload replaces it, deletions included.
``"merge"``: each key once; the newest source position wins and the reload of an older day leaves newer rows alone.
``"append"``: a day that the ledger has is refused, unless ``on_published_day="append"``. Two publishers of one stream
cannot commit at once: BigQuery aborts one of them, which then decides anew.

**Snapshots.** A source's snapshot of all rows takes the place of the whole table in that transaction; ``"merge"``
deletes and counts the rows whose key vanished. One of an earlier day than the table shows is superseded.
``deletes="soft"`` marks them instead, with ``__deleted`` and ``__deleted_at``.
``snapshot="daily"`` treats each day's as a day's rows. Rows that no snapshot brought are refused, not deleted.

**A table for each event.** ``table="analytics.{event}"`` makes a table of each value of a column, up to ``max_tables``.
A day switches in all of them at once: one transaction changes every table and writes the ledger row. The ledger is that
of an empty table beside them, ``_connect_head_…``. Only with ``write_mode="replace"``.

**Ways in.** ``load_method="storage_write"``: executors append Arrow to pending streams of the Storage Write API, the
driver compares the row counts and commits all streams at once. ``"load_job"``: one job for all Parquet files, from
``gs://`` by their URI, else as one upload through the driver; free of charge, slower. ``"auto"`` takes load jobs for a
stage on ``gs://``.

**Ledger.** Table ``<table>__ledger`` in the same dataset, one row for each publish: stream, day, generation, intent,
run, attempt, rows, digest, counts, definition, job and streams. It is written by the same transaction as the data. A
day that somebody else has published since the attempt began to poll is refused inside it, before the first change to
the data. ``<table>__notes`` keeps facts of a stream that belong to no day: what a definition's digest stands for.

**Schema.** Types and names as in ``docs/bigquery.md``. Every table has a column ``day`` (DATE), by which it is
partitioned unless ``partition_by`` says otherwise. ``schema_contract="evolve"`` adds columns and relaxes REQUIRED to
NULLABLE, ``"freeze"`` fails the day, ``"discard_columns"`` leaves new columns out. A changed type fails the day.

**Limits.** Rows of up to 8 MB. A publish costs a small constant of calls whatever its size: one table made and one
dropped, one script, one question to the ledger, and a stream for each staged file. Keys that
``delete_where`` deleted are remembered in ``<table>__tombstones``: the reload of an older day does not bring them back.

**Errors.** Rate limits, 5xx, a cut or dead connection and lost races are retriable; an exhausted quota is retriable in
an hour. Missing datasets and rights, wrong locations and partitions are for a person to mend, and found before the poll
begins. With ``errors_tolerance="all"`` rows that BigQuery cannot hold go to ``<table>__rejects`` in the same
transaction; else the first one fails the day.

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
        """Say what is wrong with the options and the connection; no network."""
        from airflow_provider_connect.clients.bigquery.credentials import check_connection  # noqa: PLC0415

        return check_connection(connections[self.conn_id])

    def dataset(self, connections: Connections) -> Dataset:
        """Return ``project.dataset.table``; the connection's name stands for a project that it does not name."""
        from airflow_provider_connect.clients.bigquery.credentials import project_of_connection  # noqa: PLC0415
        from airflow_provider_connect.clients.bigquery.sql import project_in_name  # noqa: PLC0415

        connection = connections[self.conn_id]
        project = None if project_in_name(self.head) else project_of_connection(connection) or connection.conn_id
        return Dataset("bigquery", ".".join(filter(None, [project, self.table])))

    def open(self, key: StreamKey, connections: Connections) -> BigQueryPublisher:
        """Return what publishes one stream's days into the table, or tables; it signs in when it is first used."""
        from airflow_provider_connect.sinks._bigquery.publisher import BigQueryPublisher, TablePublisher  # noqa: PLC0415

        publisher = TablePublisher if self.tables is None else BigQueryPublisher
        return publisher(self, key, connections[self.conn_id])
