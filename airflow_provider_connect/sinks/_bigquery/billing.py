"""What a statement is billed for at least: a bound below that lets no publish pass, and is refused before the poll.

Queries by bytes are billed for 10 MiB at least of each table that they name, however small it is:
https://cloud.google.com/bigquery/pricing#on_demand_pricing (2026-11).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._bigquery.script import PublishPlan

LEAST_BYTES_OF_TABLE = 10 * 1024 * 1024
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'")


def most_tables(plan: PublishPlan, script: str) -> int:
    """Count the tables that the statement of a script names that names most."""
    places = {plan.target, plan.staging, plan.ledger}
    if plan.rejects:
        places |= {place for place in (plan.rejects.target, plan.rejects.staging) if place}
    if plan.merge and plan.merge.tombstones:
        places.add(plan.merge.tombstones)
    statements = _LITERAL.sub("''", script).split(";\n")
    return max(sum(place.sql in statement for place in places) for statement in statements)


def check_budget(plan: PublishPlan, script: str, maximum_bytes_billed: int | None) -> None:
    """Refuse a bound under which no publish can pass.

    :raises ConfigError: with the least that may do.
    """
    tables = most_tables(plan, script)
    least = tables * LEAST_BYTES_OF_TABLE
    if maximum_bytes_billed is not None and maximum_bytes_billed < least:
        raise ConfigError(
            f"maximum_bytes_billed={maximum_bytes_billed:,} lets no day into {plan.target.id}: a statement of the "
            f"publish names {tables} tables, and BigQuery bills 10 MiB of each: at least {least:,}, and more where the "
            "table is read"
        )
