"""The places beside a BigQuery table's rows that may still hold those of people who were erased."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.sinks._bigquery.rejects import rejects_in
from airflow_provider_connect.sinks._bigquery.staging import staging_tables

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.sinks._bigquery.tables import Tables


def copies_of(api: Api, tables: Tables) -> list[str]:
    """Name each place that holds something now, and what clears it; with what Google keeps of deleted rows.

    Time travel: https://cloud.google.com/bigquery/docs/time-travel (2026-11).
    """
    target, places = tables.target, []
    api.locate(target)
    if rows := rejects_in(api, tables.rejects):
        places.append(
            f"rejects ({rows:,} rows in {tables.rejects.id}): nobody can tell whose a record is that became no row. "
            "Delete by hand what is theirs"
        )
    if staging := sorted(place.id for place in staging_tables(api, tables.staging)):
        places.append(
            f"days that are staged and not published ({len(staging):,} tables: {', '.join(staging)}): no load "
            "publishes them. 'airflow connect sweep' drops them when nobody has changed them for a day"
        )
    name = f"{target.id} and the tables beside it" if tables.options.tables is not None else target.id
    places.append(
        f"what BigQuery keeps of {name}: its dataset's time travel, seven days by default, and Google's fail-safe, "
        "seven days more"
    )
    return places
