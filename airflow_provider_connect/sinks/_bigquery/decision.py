"""Scripts that decide in the ledger, in one transaction, about a publish or a confirmation."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_connect.clients.bigquery.sql import column_list, literal, timestamp
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.publishing import overtaken_error
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER, NEWEST_DAY, NEWEST_SPAN
from airflow_provider_connect.sinks._bigquery.ledger_rows import (
    LEDGER_COLUMNS,
    LEDGER_FIELDS,
    LEDGER_ROW,
    NEWEST_FIRST,
    ledger_row,
    stream_condition,
    target_condition,
)
from airflow_provider_connect.sinks._bigquery.plan import LedgerStep
from airflow_provider_connect.sinks._bigquery.snapshot import stream_changed_condition
from airflow_provider_connect.stage.manifest import SeenPublish

_READ_COLUMNS = (
    *("connector", "stream", "day", "token", "generation", "checks"),
    *("answer", "row_count", "erased", "definition", "run", "span_number"),
)
"""Ledger columns that the decision reads."""


def transaction_script(
    step: LedgerStep,
    outcome: str,
    *,
    outcome_cases: Sequence[tuple[str, str]],
    changes: Sequence[str],
    seen_columns: Mapping[str, tuple[str, str]],
    declarations: str = "",
    lookups: str = "",
    answer_columns: str = "outcome",
) -> str:
    """Return the script of a ledger step.

    Its last statement returns one row: ``answer_columns`` and this token's ledger row, else the newest row.

    :param outcome: result if no case applies. Only then the script runs ``changes``.
    :param outcome_cases: SQL conditions and outcomes that prevent a change, the first true one decides.
    :param seen_columns: type and SQL of additional columns of ``seen``, the ledger state that the script reads.
    :param lookups: statements before the read of the ledger.
    """
    stream, day = stream_condition(step.target, step.key), literal(step.publish.day.date)
    day_condition, token = f"{LEDGER}.day = {day}", f"{LEDGER}.token = {literal(step.publish.intent.token)}"
    days_condition = f"({day_condition} OR {LEDGER}.day = {NEWEST_DAY})" if step.follows_stream else day_condition
    followed_first = "" if step.span_number is None else f"IF({LEDGER}.span_number = {NEWEST_SPAN}, 1, 0) DESC, "
    is_newest = f"{followed_rows_condition(step)} AND {LEDGER}.generation = {LEDGER}.newest"
    seen = {
        "fences": ("INT64", f"COUNTIF({own_rows_condition(step)} AND {LEDGER}.day IS NULL)"),
        "published": (
            "INT64",
            f"MAX(IF({own_rows_condition(step)} AND {day_condition} AND {token}, {LEDGER}.generation, NULL))",
        ),
        "newest": ("INT64", f"MAX({LEDGER}.newest)"),
        "checks": ("INT64", f"MAX(IF({is_newest}, COALESCE({LEDGER}.checks, 0), NULL))"),
        "erased": ("INT64", f"MAX(IF({LEDGER}.day IS NULL, COALESCE({LEDGER}.erased, 0), NULL))"),
        **seen_columns,
    }
    types = ", ".join(f"{name} {kind}" for name, (kind, _) in seen.items())
    columns = ",\n    ".join(f"{sql} AS {name}" for name, (_, sql) in seen.items())
    all_cases = [("seen.fences = 0", "unfenced"), ("seen.published IS NOT NULL", "already"), *outcome_cases]
    whens = "\n".join(f"  WHEN {condition} THEN '{case}'" for condition, case in all_cases)
    return f"""DECLARE outcome STRING;
{declarations}DECLARE seen STRUCT<{types}>;
BEGIN TRANSACTION;
UPDATE {step.ledger.sql} AS {LEDGER} SET published_at = CURRENT_TIMESTAMP()
  WHERE {stream} AND {LEDGER}.day IS NULL;
{lookups}SET seen = (
  SELECT AS STRUCT
    {columns}
  FROM (
    SELECT {column_list(_READ_COLUMNS, LEDGER)},
      MAX(IF({followed_rows_condition(step)}, {LEDGER}.generation, NULL)) OVER () AS newest
    FROM {step.ledger.sql} AS {LEDGER} WHERE {target_condition(step.target)}
  ) AS {LEDGER}
);
SET outcome = CASE
{whens}
  ELSE '{outcome}' END;
IF outcome = '{outcome}' THEN
{"".join(f"  {statement};{chr(10)}" for statement in changes)}END IF;
COMMIT TRANSACTION;
SELECT {answer_columns}, seen.newest AS newest, seen.erased AS erased, {column_list(LEDGER_ROW, LEDGER)}
FROM (SELECT 1 AS one) AS connect_one LEFT JOIN (
  SELECT 1 AS one, {LEDGER_COLUMNS} FROM {step.ledger.sql} AS {LEDGER}
  WHERE {stream} AND {days_condition}
  ORDER BY IF({day_condition} AND {token}, 1, 0) DESC, {followed_first}{LEDGER}.day DESC, {NEWEST_FIRST} LIMIT 1
) AS {LEDGER} ON connect_one.one = {LEDGER}.one;
"""


def own_rows_condition(step: LedgerStep) -> str:
    connector, stream = literal(step.key.connector), literal(step.key.stream)
    return f"{LEDGER}.connector = {connector} AND {LEDGER}.stream = {stream}"


def followed_rows_condition(step: LedgerStep) -> str:
    """Return the SQL condition for ledger rows of the day that the step follows."""
    day = NEWEST_DAY if step.follows_stream else literal(step.publish.day.date)
    span = "" if step.span_number is None else f" AND {LEDGER}.span_number = {NEWEST_SPAN}"
    return f"{own_rows_condition(step)} AND {LEDGER}.day = {day}{span}"


def overtaken_cases(step: LedgerStep) -> list[tuple[str, str]]:
    """Return the cases in which another writer has changed the ledger since the poll."""
    seen = step.publish.manifest.seen
    if step.follows_stream:
        later = [(f"{NEWEST_DAY} > {literal(step.publish.day.date)}", "superseded")] if step.replaces_whole else []
        return [*later, (list_changed_condition(seen), "overtaken"), (stream_changed_condition(seen), "overtaken")]
    moved = f"COALESCE(seen.newest, 0) != {seen.generation} OR COALESCE(seen.checks, 0) != {seen.checks}"
    return [(list_changed_condition(seen), "overtaken"), (moved, "overtaken")]


def list_changed_condition(seen: SeenPublish) -> str:
    """Return the SQL condition that the erase list has changed since the poll."""
    return f"COALESCE(seen.erased, 0) != {seen.erased}"


def missing_fence_error(step: LedgerStep) -> RetriableError:
    return RetriableError(
        f"{step.action}: ledger {step.ledger.id} has lost the fence row of this stream. Nothing was changed. The "
        "next try restores it if the ledger's other rows exist. Find out who deletes from the ledger"
    )


def newest_row_of(answer: dict[str, Any]) -> LedgerRow | None:
    return None if answer["newest"] is None or answer["day"] is None else ledger_row(answer)


def redefined_cases(publish: Publish) -> list[tuple[str, str]]:
    """Return the case in which :func:`.publishing.require_definition` refuses, if any."""
    if publish.definition is None:
        return []
    digests = dict.fromkeys(digest for digest in (publish.definition, publish.definition_seen) if digest is not None)
    return [(f"seen.definition NOT IN ({', '.join(map(literal, digests))})", "redefined")]


def definition_statements(step: LedgerStep) -> list[str]:
    if step.publish.definition is None:
        return []
    definition, task = literal(step.publish.definition), literal(step.publish.intent.task)
    return [
        f"IF COALESCE(seen.definition, '') != {definition} OR COALESCE(seen.task, '') != {task} THEN\n"
        f"    UPDATE {step.ledger.sql} AS {LEDGER} SET definition = {definition}, run = {task}\n"
        f"      WHERE {stream_condition(step.target, step.key)} AND {LEDGER}.day IS NULL;\n"
        "  END IF"
    ]


def confirm_script(step: LedgerStep) -> str:
    newest = f"{followed_rows_condition(step)} AND {LEDGER}.generation = {LEDGER}.newest"
    # The answer of an earlier version is unknown: NULL, as for a missing day.
    is_other = f"COALESCE(seen.answer != {literal(step.publish.answer)}, TRUE)"
    return transaction_script(
        step,
        "confirmed",
        outcome_cases=[*overtaken_cases(step), (is_other, "overtaken")],
        changes=[_copy_row_statement(step)],
        seen_columns={"answer": ("STRING", f"MAX(IF({newest}, {LEDGER}.answer, NULL))")},
    )


def _copy_row_statement(step: LedgerStep) -> str:
    intent, polled_at = step.publish.intent, step.publish.manifest.polled_at
    replaced_values = {
        "token": literal(intent.token),
        "run": literal(intent.run),
        "clear_number": literal(intent.clear_number),
        "polled_at": timestamp(polled_at),
        "checks": "seen.checks + 1",
    }
    columns = [field["name"] for field in LEDGER_FIELDS]
    return (
        f"INSERT INTO {step.ledger.sql} ({column_list(columns)})\n"
        f"  SELECT {', '.join(replaced_values.get(name, column_list([name], LEDGER)) for name in columns)}\n"
        f"  FROM {step.ledger.sql} AS {LEDGER}\n"
        f"  WHERE {stream_condition(step.target, step.key)} AND {LEDGER}.day = {literal(step.publish.day.date)}\n"
        f"    AND {LEDGER}.generation = seen.newest AND COALESCE({LEDGER}.checks, 0) = seen.checks LIMIT 1"
    )


def confirmed_row(step: LedgerStep, answer: dict[str, Any]) -> LedgerRow:
    """Return the ledger row from the result of :func:`confirm_script`.

    :raises OvertakenError: the ledger changed since the poll.
    :raises RetriableError: the stream's fence row is lost.
    """
    outcome = answer["outcome"]
    if outcome in ("confirmed", "already"):
        return ledger_row(answer)
    raise (
        missing_fence_error(step)
        if outcome == "unfenced"
        else overtaken_error(step.publish, newest_row_of(answer), int(answer["erased"] or 0))
    )
