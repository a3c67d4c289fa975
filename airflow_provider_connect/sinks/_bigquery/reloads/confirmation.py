"""The script of an answer that changed nothing: one more row in the ledger, and no other table.

The row repeats that of the day's newest generation, with one check more, and says who asked the source and when
(:func:`.publishing.confirmed`). So both intents find themselves in the ledger, and an older answer that is still on its
way is refused by the number of checks. The fence and the order of decisions are those of a publish (:mod:`..decision`).
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

from typing import Any

from airflow_provider_connect.clients.bigquery.sql import literal, names, timestamp
from airflow_provider_connect.publishing import overtaken
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER
from airflow_provider_connect.sinks._bigquery.decision import (
    before,
    decided,
    moved_on,
    newest_of,
    unfenced,
)
from airflow_provider_connect.sinks._bigquery.ledger import ledger_row, of_stream
from airflow_provider_connect.sinks._bigquery.ledger_columns import LEDGER_FIELDS
from airflow_provider_connect.sinks._bigquery.plan import LedgerStep


def confirm_script(step: LedgerStep) -> str:
    """Return the script; its last statement answers with one row for :func:`settle_confirmation`."""
    newest = f"{before(step)} AND {LEDGER}.generation = {LEDGER}.newest"
    # An answer of an earlier version is not known: NULL, like that of a day that is gone.
    is_other = f"COALESCE(seen.answer != {literal(step.publish.answer)}, TRUE)"
    return decided(
        step,
        "confirmed",
        cases=[*moved_on(step), (is_other, "overtaken")],
        changes=[_repeated_row(step)],
        read={"answer": ("STRING", f"MAX(IF({newest}, {LEDGER}.answer, NULL))")},
    )


def _repeated_row(step: LedgerStep) -> str:
    intent, polled_at = step.publish.intent, step.publish.manifest.polled_at
    own = {
        "token": literal(intent.token),
        "run": literal(intent.run),
        "clear_number": literal(intent.clear_number),
        "polled_at": timestamp(polled_at),
        "checks": "seen.checks + 1",
    }
    columns = [field["name"] for field in LEDGER_FIELDS]
    return (
        f"INSERT INTO {step.ledger.sql} ({names(columns)})\n"
        f"  SELECT {', '.join(own.get(name, names([name], LEDGER)) for name in columns)}\n"
        f"  FROM {step.ledger.sql} AS {LEDGER}\n"
        f"  WHERE {of_stream(step.target, step.key)} AND {LEDGER}.day = {literal(step.publish.day.date)}\n"
        f"    AND {LEDGER}.generation = seen.newest AND COALESCE({LEDGER}.checks, 0) = seen.checks LIMIT 1"
    )


def settle_confirmation(step: LedgerStep, answer: dict[str, Any]) -> LedgerRow:
    """Return the ledger row of a script that confirmed, or found the token in the ledger already.

    :raises OvertakenError: somebody else has published or confirmed this day since it was looked at, before the poll.
    :raises RetriableError: the ledger lost its fence row.
    """
    outcome = answer["outcome"]
    if outcome in ("confirmed", "already"):
        return ledger_row(answer)
    raise (
        unfenced(step)
        if outcome == "unfenced"
        else overtaken(step.publish, newest_of(answer), int(answer["erased"] or 0))
    )
