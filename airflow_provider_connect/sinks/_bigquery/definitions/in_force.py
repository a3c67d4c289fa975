"""The definition in force: it stands in the stream's fence row, with the task that published under it.

Every publish begins with a change of that row (:mod:`..decision`), so commits of a stream take turns, and the row names
the definition of the last one. No clock decides that.
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
"""What is read of a stream's fence rows: if there are two, publishes have changed both alike."""


def in_force_of(found: Mapping[str, Any]) -> DefinitionInForce | None:
    """Return what :data:`FENCE_COLUMNS` say."""
    if found["definition"] is None:
        return None
    return DefinitionInForce(found["definition"], digest_of(task_of(found["task"] or "")))


def last_published(ledger: Place, stream: str) -> str:
    """Return a query for ``definition`` and ``run`` of a stream's newest publish that has one, beside a column ``one``.

    For a fence row that was lost: only there the time of a publish tells which was the last. A confirmation is no
    publish, and an erase has asked no source.

    :param stream: the condition for the stream's rows.
    """
    erases = erase_run(0).removesuffix("0")
    return (
        f"SELECT 1 AS one, {LEDGER}.definition, {LEDGER}.run FROM {ledger.sql} AS {LEDGER}\n"
        f"  WHERE {stream} AND {LEDGER}.day IS NOT NULL AND {LEDGER}.definition IS NOT NULL\n"
        f"    AND COALESCE({LEDGER}.checks, 0) = 0 AND NOT STARTS_WITH(COALESCE({LEDGER}.run, ''), {literal(erases)})\n"
        f"  ORDER BY {LEDGER}.published_at DESC LIMIT 1"
    )
