"""Tables: read, made, kept from expiring and dropped through the REST API.

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
    """Return a table's metadata; None if there is no such table or dataset."""
    try:
        return api.call(f"read table {table_ref.id}", api.client.get_table, table_ref.id)
    except MissingError:
        return None


def fields_of(table: Any) -> list[dict[str, Any]]:
    """Return a table's fields as in the REST API."""
    return [one.to_api_repr() for one in table.schema]


def filter_column(table: Any) -> str | None:
    """Return the column that every query on the table must name; None if it need not name any."""
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
    """Make a table; return its metadata, also when another made it first.

    Without ``expires`` it stays, and so do its partitions unless ``partitioning`` says otherwise: the dataset's
    defaults do not count.

    :param fields: as in the REST API.
    :param labels: beside those that all of the client's tables and jobs have.
    :raises ConfigError: the dataset is missing, or rights are; or BigQuery does not let the table stay.
    """
    from google.cloud import bigquery

    table = bigquery.Table(table_ref.id, schema=[bigquery.SchemaField.from_api_repr(one) for one in fields])
    table.labels = {**api.labels, **labels}
    table.description = description
    table.clustering_fields = list(cluster_by) or None
    table.time_partitioning = partitioning
    table.expires = expires_at
    if api.kms_key:
        table.encryption_configuration = bigquery.EncryptionConfiguration(kms_key_name=api.kms_key)
    try:
        made = api.call(
            f"make table {table_ref.id}", api.client.create_table, table, retry_missing_seconds=SETTLE_SECONDS
        )
    except ExistsError:
        return api.call(f"read table {table_ref.id}", api.client.get_table, table_ref.id)
    if expires_at is not None:
        return made
    return remove_expiration(
        api, table_ref, made, partitions="expire" if partitioning and partitioning.expiration_ms else "stay"
    )


def remove_expiration(
    api: BigQueryApi, table_ref: TableRef, table: Any, partitions: Literal["stay", "expire"] = "stay"
) -> Any:
    """Take away the end that a dataset's default gave a table, or its partitions; return its metadata.

    https://cloud.google.com/bigquery/docs/updating-datasets#table-expiration (2026-11): a new table takes the default
    unless it has an end of its own, and none is not one.

    :raises ConfigError: BigQuery keeps the end, as it does in projects without billing.
    """

    def take() -> Any:
        nonlocal table
        if not (ends := _take_ends(table, partitions)):
            return table
        try:
            lasts = api.call(f"take the expiration off {table_ref.id}", api.client.update_table, table, ends)
        except StaleError:
            table = api.call(f"read table {table_ref.id}", api.client.get_table, table_ref.id)
            raise
        except ConfigError as error:
            raise ConfigError(f"{error}. {_expires(table_ref)}") from None
        if _take_ends(lasts, partitions):
            raise ConfigError(_expires(table_ref))
        return lasts

    return retry_if_stale(take, f"{table_ref.id}: its expiration could not be taken away")


def _take_ends(table: Any, partitions: Literal["stay", "expire"]) -> list[str]:
    """Set a table's expirations to none, here only; return the properties that were changed by it."""
    ends = []
    if table.expires is not None:
        table.expires = None
        ends.append("expires")
    partitioning = table.time_partitioning
    if partitions == "stay" and partitioning is not None and partitioning.expiration_ms is not None:
        partitioning.expiration_ms = None
        table.time_partitioning = partitioning
        ends.append("time_partitioning")
    return ends


def _expires(place: TableRef) -> str:
    return (
        f"table {place.id} would expire, and what was published with it: enable billing in a sandbox project, or take "
        "the default expiration off the dataset (bq update --default_table_expiration 0 --default_partition_expiration "
        f"0 {place.project}:{place.dataset}) and off the table (bq update --expiration 0 …)"
    )


def retry_if_stale(change: Callable[[], T], failure: str) -> T:
    """Return what a change of a table returns, which is made again, after a growing pause, if others were faster.

    :param change: compares the table anew each time.
    :param undone: the table, and what was not done to it, for the error.
    :raises RetriableError: others were faster :data:`CHANGE_TRIES` times.
    """
    patience = Patience(pauses=doubling_pauses(0.2, CHANGE_PAUSE_SECONDS), jitter=FROM_HALF, tries=CHANGE_TRIES)
    while True:
        try:
            return change()
        except StaleError:
            if not patience.wait_and_retry():
                raise RetriableError(f"others keep changing {failure}") from None


def drop_table(api: BigQueryApi, table_ref: TableRef) -> None:
    """Drop a table; one that is gone already is no error."""
    api.call(f"drop table {table_ref.id}", api.client.delete_table, table_ref.id, not_found_ok=True)


def dry_run(api: BigQueryApi, sql: str, *, timeout: float, retry: None) -> None:
    """Let BigQuery check a query, rights included, without running it; free of charge. To be passed to ``api.call``."""
    from google.cloud import bigquery

    config = bigquery.QueryJobConfig(dry_run=True, use_legacy_sql=False, labels=api.labels)
    api.client.query(sql, job_config=config, location=api.location, job_retry=None, timeout=timeout, retry=retry)
