"""The ledger of several tables: that of their head, which also lists the tables of each publish."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from airflow_provider_connect.clients.bigquery.sql import literal
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger


@dataclass(frozen=True)
class TablesLedger(BigQueryLedger):
    """What one stream has published into the tables of a template."""

    def tables(self, day: dt.date | None = None, generation: int = 0) -> dict[str, bool]:
        """Return every table that ever had rows, and whether one generation of a day has put some there. One query."""
        there = "FALSE" if day is None else f"{LEDGER}.day = {literal(day)} AND {LEDGER}.generation = {generation}"
        select = f"SELECT name, LOGICAL_OR({there}) AS there"
        joined = f", UNNEST({LEDGER}.tables) AS name"
        rows = self._read(select, f"AND {LEDGER}.day IS NOT NULL GROUP BY name", joined=joined)
        return {row["name"]: bool(row["there"]) for row in rows}
