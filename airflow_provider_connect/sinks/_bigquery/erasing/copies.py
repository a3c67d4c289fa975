"""Describes copies of erased rows outside the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.sinks._bigquery.rejects import count_rejects
from airflow_provider_connect.sinks._bigquery.staging import staging_tables

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.sinks._bigquery.tables import TargetTables


def remaining_copies(api: BigQueryApi, tables: TargetTables) -> list[str]:
    """Describe where erased rows may remain, with ways to delete them.

    Time travel: https://cloud.google.com/bigquery/docs/time-travel (2026-11).
    """
    target, warnings = tables.target, []
    api.locate(target)
    if rows := count_rejects(api, tables.rejects):
        warnings.append(
            f"rejects ({rows:,} rows in {tables.rejects.id}): no column identifies the person of a rejected "
            "record. Delete the records of erased people by hand"
        )
    if staging := sorted(table_ref.id for table_ref in staging_tables(api, tables.staging)):
        warnings.append(
            f"days that are staged and not published ({len(staging):,} tables: {', '.join(staging)}): no load "
            "publishes them. 'airflow connect sweep' drops them a day after their last change"
        )
    name = f"{target.id} and the tables beside it" if tables.options.tables is not None else target.id
    warnings.append(
        f"deleted rows of {name}: BigQuery keeps them for the dataset's time travel, seven days by default, and for "
        "Google's fail-safe, seven days more"
    )
    return warnings
