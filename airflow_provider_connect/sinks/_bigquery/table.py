"""Tables: made, changed, checked and dropped through the REST API.

A day takes two of these calls (staging table made and dropped), a third where rejects are staged; one more to read the
target. A day with new columns takes one schema patch, which is one of the five metadata updates that BigQuery allows a
table in ten seconds, and one query that waits until the columns are there.

Vendor facts: https://cloud.google.com/bigquery/quotas#standard_tables, …/docs/managing-table-schemas (2026-11).
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.clients.bigquery.api import SETTLE_SECONDS
from airflow_provider_connect.clients.bigquery.errors import ExistsError, MissingError, StaleError
from airflow_provider_connect.clients.bigquery.sql import any_partition, names
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._bigquery.columns.schema import evolution, fits, new_fields
from airflow_provider_connect.sinks._bigquery.layout import Layout, new_partitioning
from airflow_provider_connect.sinks._bigquery.names import DAY

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sinks._bigquery.columns.types import Column, Field

STAGING_LIFE = dt.timedelta(days=1)
STAGING_LABEL = {"connect": "staging"}
COLUMN_WAIT_SECONDS = 60.0
CHANGE_TRIES = 12
CHANGE_PAUSE_SECONDS = 5.0
# What a query says of a column that it does not know yet.
_UNKNOWN_COLUMN = re.compile(r"Unrecognized name")


def find(api: Api, place: Place) -> Any:
    """Return a table's metadata; None if there is no such table or dataset."""
    try:
        return api.call(f"read table {place.id}", api.client.get_table, place.id)
    except MissingError:
        return None


def fields_of(table: Any) -> list[Field]:
    """Return a table's fields as the REST API has them."""
    return [one.to_api_repr() for one in table.schema]


def filter_column(table: Any) -> str | None:
    """Return the column that every query on the table must name; None if it need not name any."""
    if not table.require_partition_filter:
        return None
    if table.range_partitioning is not None:
        return str(table.range_partitioning.field)
    return table.time_partitioning.field or "_PARTITIONTIME"


def ensure_target(
    api: Api, target: Place, layout: Layout, columns_for: Callable[[Sequence[Field]], list[Column]]
) -> Ready:
    """Make the target, or bring it to hold the source's columns; return what to write, and how.

    :param columns_for: returns the source's columns, given the fields the target has.
    :raises ConfigError: it is missing and may not be made, or is no table.
    :raises DataError: naming every column that does not fit.
    """
    for _ in turns():
        table = find(api, target)
        if table is None:
            columns = columns_for(())
            table = _create_target(api, target, layout, columns)
        if problem := kind_problem(table, target):
            raise ConfigError(problem)
        existing = fields_of(table)
        plan = evolution(target.id, existing, columns_for(existing), layout.schema_contract)
        if plan.changed:
            try:
                table = _patch(api, table, target, plan.fields, plan.added)
            except StaleError:
                continue  # another publisher changed it meanwhile: compare again
        return Ready(plan.written, filter_column(table), plan.discarded, table)
    raise RetriableError(f"others keep changing the schema of {target.id}: its columns could not be brought in order")


@dataclass(frozen=True)
class Ready:
    """A target that holds the source's columns.

    :param columns: what to write.
    :param filter_column: the column every query must name, None if none.
    :param discarded: source names of columns that are left out.
    :param table: its metadata.
    """

    columns: list[Column]
    filter_column: str | None
    discarded: tuple[str, ...]
    table: Any


def _create_target(api: Api, target: Place, layout: Layout, columns: list[Column]) -> Any:
    if layout.create_disposition == "never":
        raise ConfigError(
            f"table {target.id} does not exist and create_disposition='never': make it, or use 'if_needed'"
        )
    return create(
        api,
        target,
        new_fields(columns),
        labels=layout.labels,
        kms_key=layout.kms_key,
        cluster_by=[layout.column(name, columns) for name in layout.cluster_by],
        partitioning=new_partitioning(target, layout, columns),
        needs_filter=layout.partition_filter == "required",
    )


def create(
    api: Api,
    place: Place,
    fields: Sequence[Field],
    *,
    labels: dict[str, str],
    kms_key: str | None = None,
    description: str | None = None,
    cluster_by: Sequence[str] = (),
    partitioning: Any = None,
    needs_filter: bool = False,
    expires: dt.datetime | None = None,
) -> Any:
    """Make a table; return its metadata, also when another made it first.

    Where it is not to expire, and neither are its partitions, it does not, whatever the dataset's defaults are.

    :raises ConfigError: the dataset is missing, or rights are; or BigQuery does not let the table stay.
    """
    from google.cloud import bigquery

    table = bigquery.Table(place.id, schema=[bigquery.SchemaField.from_api_repr(one) for one in fields])
    table.labels = labels
    table.description = description
    table.clustering_fields = list(cluster_by) or None
    table.time_partitioning = partitioning
    table.require_partition_filter = needs_filter or None
    table.expires = expires
    if kms_key:
        table.encryption_configuration = bigquery.EncryptionConfiguration(kms_key_name=kms_key)
    try:
        made = api.call(f"make table {place.id}", api.client.create_table, table, missing_seconds=SETTLE_SECONDS)
    except ExistsError:
        return api.call(f"read table {place.id}", api.client.get_table, place.id)
    if expires is not None:
        return made
    return lasting(api, place, made, partitions="expire" if partitioning and partitioning.expiration_ms else "stay")


def lasting(api: Api, place: Place, table: Any, partitions: Literal["stay", "expire"] = "stay") -> Any:
    """Take away the end that a dataset's default gave a table, or its partitions; return its metadata.

    https://cloud.google.com/bigquery/docs/updating-datasets#table-expiration (2026-11): a new table takes the default
    unless it has an end of its own, and none is not one.

    :raises ConfigError: BigQuery keeps the end, as it does in projects without billing.
    """
    for _ in turns():
        if not (ends := _take_ends(table, partitions)):
            return table
        try:
            table = api.call(f"take the expiration off {place.id}", api.client.update_table, table, ends)
        except StaleError:
            table = api.call(f"read table {place.id}", api.client.get_table, place.id)
            continue
        except ConfigError as error:
            raise ConfigError(f"{error}. {_expires(place)}") from None
        if _take_ends(table, partitions):
            raise ConfigError(_expires(place))
        return table
    raise RetriableError(f"others keep changing {place.id}: its expiration could not be taken away")


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


def _expires(place: Place) -> str:
    return (
        f"table {place.id} would expire, and what was published with it: enable billing in a sandbox project, or take "
        "the default expiration off the dataset (bq update --default_table_expiration 0 --default_partition_expiration "
        f"0 {place.project}:{place.dataset}) and off the table (bq update --expiration 0 …)"
    )


def turns() -> Iterator[int]:
    """Count the tries of a change that others may overtake, with a growing pause before each but the first."""
    for turn in range(CHANGE_TRIES):
        if turn:
            time.sleep(random.uniform(0.5, 1.0) * min(0.1 * 2**turn, CHANGE_PAUSE_SECONDS))  # noqa: S311 - jitter
        yield turn


def ensure_table(
    api: Api,
    place: Place,
    fields: Sequence[Field],
    *,
    labels: dict[str, str],
    kms_key: str | None,
    description: str,
    cluster_by: Sequence[str] = (),
    partition_by: str | None = None,
) -> None:
    """Make a table of ours beside the target if it is missing: ledger, rejects, tombstones. It never expires.

    :param partition_by: a DATE column.
    :raises ConfigError: it is there, and lacks columns; or it is bound to expire.
    """
    from google.cloud import bigquery

    table = find(api, place) or create(
        api,
        place,
        fields,
        labels=labels,
        kms_key=kms_key,
        description=description,
        cluster_by=cluster_by,
        partitioning=bigquery.TimePartitioning(field=partition_by) if partition_by else None,
    )
    lacking = {one["name"].lower() for one in fields} - {one["name"].lower() for one in fields_of(table)}
    if lacking:
        raise ConfigError(
            f"table {place.id} is in the way: it is none of this sink's, it lacks the columns "
            f"{', '.join(sorted(lacking))}. Rename it, drop it, or choose another name in the options"
        )
    lasting(api, place, table)


def staging(
    api: Api, place: Place, fields: Sequence[Field], labels: dict[str, str], kms_key: str | None = None
) -> None:
    """Make a staging table, which BigQuery drops by itself after :data:`STAGING_LIFE`."""
    expires = dt.datetime.now(dt.UTC) + STAGING_LIFE
    create(api, place, fields, labels={**labels, **STAGING_LABEL}, kms_key=kms_key, expires=expires)


def drop(api: Api, place: Place) -> None:
    """Drop a table; one that is gone already is no error."""
    api.call(f"drop table {place.id}", api.client.delete_table, place.id, not_found_ok=True)


def kind_problem(table: Any, target: Place) -> str | None:
    """Return what is wrong with writing to a thing of this kind."""
    if table.table_type != "TABLE":
        return f"{target.id} is a {table.table_type}, which cannot be written: choose another name for the table"
    return None


def _patch(api: Api, table: Any, target: Place, fields: Sequence[Field], added: Sequence[str]) -> Any:
    """Give the table its fields, on top of exactly the version that was compared; wait until queries know them.

    :raises StaleError: another changed the table since.
    """
    from google.cloud import bigquery

    table.schema = [bigquery.SchemaField.from_api_repr(one) for one in fields]
    table = api.call(f"change the schema of {target.id}", api.client.update_table, table, ["schema"])
    if added:
        _await_columns(api, target, [one for one in fields if one["name"] in added], filter_column(table))
    return table


def _await_columns(api: Api, target: Place, added: Sequence[Field], filter_by: str | None) -> None:
    """Return when queries know the new columns.

    :param filter_by: the column that every query must name, None if none.
    """
    listed = names(one["name"] for one in added)
    condition = f"{DAY} = DATE '0001-01-01' AND {any_partition(filter_by)}"
    look = f"SELECT {listed} FROM {target.sql} WHERE {condition} LIMIT 0"
    deadline = time.monotonic() + COLUMN_WAIT_SECONDS
    pause_seconds = 0.5
    while not _knows_columns(api, target, look):
        if time.monotonic() > deadline:
            raise RetriableError(
                f"{target.id}: {listed} were added, and queries do not know them after {COLUMN_WAIT_SECONDS:.0f} s"
            )
        time.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 2, 5.0)


def _knows_columns(api: Api, target: Place, look: str) -> bool:
    from google.api_core.exceptions import BadRequest

    def ask(*, timeout: float, retry: None) -> bool:
        try:
            dry_run(api, look, timeout=timeout, retry=retry)
        except BadRequest as error:
            if _UNKNOWN_COLUMN.search(str(error)):
                return False
            raise
        return True

    return bool(api.call(f"look for the new columns of {target.id}", ask))


def dry_run(api: Api, sql: str, *, timeout: float, retry: None) -> None:
    """Let BigQuery check a query, rights included, without running it; free of charge. To be passed to ``api.call``."""
    from google.cloud import bigquery

    config = bigquery.QueryJobConfig(dry_run=True, use_legacy_sql=False, labels=api.labels)
    api.client.query(sql, job_config=config, location=api.location, job_retry=None, timeout=timeout, retry=retry)


def schema_moved(api: Api, target: Place, columns: Sequence[Column]) -> bool:
    """Tell whether the target is no longer as it was when ``columns`` were made for it: begin again then.

    A field that another publisher adds inside a struct makes an INSERT fail that did not know it.
    """
    table = find(api, target)
    return table is None or not fits(fields_of(table), columns)
