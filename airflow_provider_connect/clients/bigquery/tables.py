"""Reads, creates and drops tables through the REST API.

Vendor facts: https://cloud.google.com/bigquery/quotas#standard_tables, …/docs/managing-table-schemas (2026-11).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from airflow_provider_connect.clients.bigquery.api import SETTLE_SECONDS
from airflow_provider_connect.clients.bigquery.errors import ExistsError, MissingError, StaleError
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import FROM_HALF, Patience, doubling_pauses

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef

T = TypeVar("T")
CHANGE_TRIES = 12
CHANGE_PAUSE_SECONDS = 5.0


def find_table(api: BigQueryApi, table_ref: TableRef) -> Any:
    """Return a table's metadata, or None if the table or its dataset does not exist."""
    try:
        return api.call(f"read table {table_ref.id}", api.client.get_table, table_ref.id)
    except MissingError:
        return None


def fields_of(table: Any) -> list[dict[str, Any]]:
    """Return a table's fields in the form of the REST API."""
    return [field.to_api_repr() for field in table.schema]


def filter_column(table: Any) -> str | None:
    """Return the column that every query on the table must filter by, or None."""
    if not table.require_partition_filter:
        return None
    if table.range_partitioning is not None:
        return str(table.range_partitioning.field)
    return table.time_partitioning.field or "_PARTITIONTIME"


def create_table(
    api: BigQueryApi,
    table_ref: TableRef,
    fields: Sequence[dict[str, Any]],
    *,
    labels: Mapping[str, str] = MappingProxyType({}),
    description: str | None = None,
    cluster_by: Sequence[str] = (),
    partitioning: Any = None,
    expires_at: dt.datetime | None = None,
) -> Any:
    """Create a table. Returns its metadata, also if another client created it first.

    Without ``expires_at`` the table never expires.
    """
    from google.cloud import bigquery

    table = bigquery.Table(table_ref.id, schema=[bigquery.SchemaField.from_api_repr(field) for field in fields])
    table.labels = {**api.labels, **labels}
    table.description = description
    table.clustering_fields = list(cluster_by) or None
    table.time_partitioning = partitioning
    table.expires = expires_at
    if api.kms_key:
        table.encryption_configuration = bigquery.EncryptionConfiguration(kms_key_name=api.kms_key)
    try:
        created = api.call(
            f"create table {table_ref.id}", api.client.create_table, table, retry_missing_seconds=SETTLE_SECONDS
        )
    except ExistsError:
        return api.call(f"read table {table_ref.id}", api.client.get_table, table_ref.id)
    if expires_at is not None:
        return created
    return remove_expiration(
        api, table_ref, created, partitions="expire" if partitioning and partitioning.expiration_ms else "stay"
    )


def remove_expiration(
    api: BigQueryApi, table_ref: TableRef, table: Any, partitions: Literal["stay", "expire"] = "stay"
) -> Any:
    """Remove the expiration of a table or its partitions. Returns the metadata.

    A new table takes the dataset's default, and creation accepts no "never":
    https://cloud.google.com/bigquery/docs/updating-datasets#table-expiration (2026-11).

    :raises ConfigError: BigQuery keeps it, as in projects without billing.
    """

    def remove() -> Any:
        nonlocal table
        if not (fields := _clear_expirations(table, partitions)):
            return table
        try:
            updated = api.call(f"remove the expiration of {table_ref.id}", api.client.update_table, table, fields)
        except StaleError:
            table = api.call(f"read table {table_ref.id}", api.client.get_table, table_ref.id)
            raise
        except ConfigError as error:
            raise ConfigError(f"{error}. {_expires_text(table_ref)}") from None
        if _clear_expirations(updated, partitions):
            raise ConfigError(_expires_text(table_ref))
        return updated

    return retry_if_stale(remove, f"{table_ref.id}, so its expiration could not be removed")


def _clear_expirations(table: Any, partitions: Literal["stay", "expire"]) -> list[str]:
    fields = []
    if table.expires is not None:
        table.expires = None
        fields.append("expires")
    partitioning = table.time_partitioning
    if partitions == "stay" and partitioning is not None and partitioning.expiration_ms is not None:
        partitioning.expiration_ms = None
        table.time_partitioning = partitioning
        fields.append("time_partitioning")
    return fields


def _expires_text(table_ref: TableRef) -> str:
    return (
        f"table {table_ref.id} and its published days would expire. Enable billing in a sandbox project, or remove "
        "the default expiration of the dataset (bq update --default_table_expiration 0 "
        f"--default_partition_expiration 0 {table_ref.project}:{table_ref.dataset}) and of the table (bq update "
        "--expiration 0 …)"
    )


def retry_if_stale(change: Callable[[], T], failure: str) -> T:
    """Return the result of ``change``, repeated after pauses if another client changed the table first.

    :param change: must read and compare the table at each call.
    :param failure: the table, and the change that failed.
    :raises RetriableError: other clients were faster :data:`CHANGE_TRIES` times.
    """
    patience = Patience(pauses=doubling_pauses(0.2, CHANGE_PAUSE_SECONDS), jitter=FROM_HALF, tries=CHANGE_TRIES)
    while True:
        try:
            return change()
        except StaleError:
            if not patience.wait_and_retry():
                raise RetriableError(f"other clients keep changing {failure}") from None


def drop_table(api: BigQueryApi, table_ref: TableRef) -> None:
    """Drop a table. A missing table is no error."""
    api.call(f"drop table {table_ref.id}", api.client.delete_table, table_ref.id, not_found_ok=True)


def dry_run(api: BigQueryApi, sql: str, *, timeout: float, retry: None) -> None:
    """Let BigQuery validate a query and its rights, free of charge."""
    from google.cloud import bigquery

    config = bigquery.QueryJobConfig(dry_run=True, use_legacy_sql=False, labels=api.labels)
    api.client.query(sql, job_config=config, location=api.location, job_retry=None, timeout=timeout, retry=retry)
