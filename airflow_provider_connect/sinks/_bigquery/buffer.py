"""Rows that others have just streamed into the target: a transaction may not delete or merge them yet.

BigQuery refuses such a statement for 30 to 90 minutes and says of the table only that something is in its buffer, not
which rows. Inserts are not concerned, so a day that the table has no row of goes in at any time.

Vendor facts: https://cloud.google.com/bigquery/docs/write-api#use_data_manipulation_language_dml_with_recently_streamed_data
(2026-11).
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.errors import STREAMED_SECONDS
from airflow_provider_connect.clients.bigquery.sql import any_partition, literal
from airflow_provider_connect.errors import RetriableError

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sinks._bigquery.ledger import WriteMode
    from airflow_provider_connect.sinks._bigquery.table import Ready


def check_buffer(api: Api, target: Place, ready: Ready, days: Sequence[dt.date], write_mode: WriteMode) -> None:
    """Return if a publish of these days changes no row of a table with recently streamed rows, before the poll.

    :raises RetriableError: it would have to.
    """
    buffer = ready.table.streaming_buffer
    if buffer is None or write_mode == "append":
        return
    if write_mode == "replace" and not _has_rows(api, target, days, ready.filter_column):
        return
    since = f", the oldest from {buffer.oldest_entry_time:%Y-%m-%d %H:%M} UTC" if buffer.oldest_entry_time else ""
    raise RetriableError(
        f"table {target.id} has about {buffer.estimated_rows or 0:,} rows in BigQuery's streaming buffer{since}, and "
        "rows of the table are to be replaced: BigQuery does not change recently streamed rows in a transaction, for "
        "30 to 90 minutes. Nothing was polled; try again later, and let nobody stream into a table of this sink's",
        retry_after_seconds=STREAMED_SECONDS,
    )


def _has_rows(api: Api, target: Place, days: Sequence[dt.date], filter_column: str | None) -> bool:
    if not days:
        return False
    among = ", ".join(literal(day) for day in sorted(days))
    sql = f"SELECT 1 FROM {target.sql} WHERE `day` IN ({among}) AND {any_partition(filter_column)} LIMIT 1"
    found, _ = api.query(sql, doing=f"look for days to replace in {target.id}", labels={"connect": "preflight"})
    return bool(found)
