"""The definition in force in the publish script: compared where the generation is, and changed by what goes through.

The fence row is changed a second time only where definition or task are others than before: BigQuery takes 25 changes
in ten seconds on one table, and a day like the one before it makes two.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.clients.bigquery.sql import literal
from airflow_provider_connect.publishing import require_definition
from airflow_provider_connect.sink import DefinitionInForce, Publish
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER
from airflow_provider_connect.sinks._bigquery.decision import mine
from airflow_provider_connect.sinks._bigquery.ledger import of_stream
from airflow_provider_connect.sinks._bigquery.plan import LedgerStep

FENCE_TYPES = "definition STRING, task STRING"
"""The types of :func:`fence_columns`."""


def fence_columns(step: LedgerStep) -> str:
    """Return the definition in force and its task, as columns that are counted over :func:`~..decision.ledger_rows`."""
    fence = f"{mine(step)} AND {LEDGER}.day IS NULL"
    return f"MAX(IF({fence}, {LEDGER}.definition, NULL)) AS definition, MAX(IF({fence}, {LEDGER}.run, NULL)) AS task"


def redefined(publish: Publish) -> list[tuple[str, str]]:
    """Return the condition under which :func:`.publishing.require_definition` refuses, with its outcome."""
    if publish.definition is None:
        return []
    known = dict.fromkeys(digest for digest in (publish.definition, publish.definition_seen) if digest is not None)
    return [(f"seen.definition NOT IN ({', '.join(map(literal, known))})", "redefined")]


def require_same(publish: Publish, answer: Mapping[str, Any]) -> None:
    """Raise the error of that outcome.

    :param answer: the script's, with the definition in force as ``in_force``.
    :raises OvertakenError: the definition in force is not one that the publish may follow.
    """
    require_definition(publish, DefinitionInForce(answer["in_force"], task=""))


def put_in_force(step: LedgerStep) -> list[str]:
    """Return the statement that puts a publish's definition into the fence row; none if it has no definition."""
    if step.publish.definition is None:
        return []
    definition, task = literal(step.publish.definition), literal(step.publish.intent.task)
    return [
        f"IF COALESCE(seen.definition, '') != {definition} OR COALESCE(seen.task, '') != {task} THEN\n"
        f"    UPDATE {step.ledger.sql} AS {LEDGER} SET definition = {definition}, run = {task}\n"
        f"      WHERE {of_stream(step.target, step.key)} AND {LEDGER}.day IS NULL;\n"
        "  END IF"
    ]
