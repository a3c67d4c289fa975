"""The definition in force, kept in the stream's fence row with the task that published under it.

Every publish begins with a change of that row (:mod:`..decision`). So the commits of a stream take turns, and the row
has the definition of the last one. No clock is involved.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.sql import literal
from airflow_provider_connect.ledger import DefinitionInForce, task_of
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER
from airflow_provider_connect.stage.definition import digest_of
from airflow_provider_connect.stage.erasing import erase_run

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.place import Place

FENCE_COLUMNS = f"MAX({LEDGER}.definition) AS definition, MAX({LEDGER}.run) AS task"
"""Columns of a stream's fence rows. If there are two rows, every publish has changed both."""


def in_force_of(found: Mapping[str, Any]) -> DefinitionInForce | None:
    """Return the definition in force from a row of :data:`FENCE_COLUMNS`."""
    if found["definition"] is None:
        return None
    return DefinitionInForce(found["definition"], digest_of(task_of(found["task"] or "")))


def last_published(ledger: Place, stream: str) -> str:
    """Return a query for ``definition`` and ``run`` of a stream's newest publish that has one, beside a column ``one``.

    Used for a fence row that was lost. Only here the time of a publish decides which one is the newest. Confirmations
    and erases do not count.

    :param stream: the condition for the stream's rows.
    """
    erases = erase_run(0).removesuffix("0")
    return (
        f"SELECT 1 AS one, {LEDGER}.definition, {LEDGER}.run FROM {ledger.sql} AS {LEDGER}\n"
        f"  WHERE {stream} AND {LEDGER}.day IS NOT NULL AND {LEDGER}.definition IS NOT NULL\n"
        f"    AND COALESCE({LEDGER}.checks, 0) = 0 AND NOT STARTS_WITH(COALESCE({LEDGER}.run, ''), {literal(erases)})\n"
        f"  ORDER BY {LEDGER}.published_at DESC LIMIT 1"
    )
