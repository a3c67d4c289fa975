"""Columns of a ledger, and the SQL that reads and writes its rows."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_connect.clients.bigquery.sql import TableRef, column_list, literal, quoted, timestamp
from airflow_provider_connect.ledger import DefinitionInForce, day_row, task_of
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER, SPAN
from airflow_provider_connect.sinks._bigquery.columns.schema import sink_fields
from airflow_provider_connect.stage.definition import digest_of
from airflow_provider_connect.stage.erase_list import erase_run
from airflow_provider_connect.stage.spans import Span

(SPAN_FIELD,) = sink_fields((SPAN, "INTEGER", "Which of the stream's increments the row came with."))

ADDED_FIELDS: list[dict[str, Any]] = [
    *sink_fields(
        ("checks", "INTEGER", "How often this generation was confirmed: the source gave the same answer again."),
        ("answer", "STRING", "Digest of what was published, and how."),
        (
            "erased",
            "INTEGER",
            "In the stream's fence row, the version of the target's erase list; NULL as long as nobody is erased.",
        ),
    ),
    {"name": "tables", "type": "STRING", "mode": "REPEATED", "description": "The tables of a template with its rows."},
    *sink_fields(
        ("span_number", "INTEGER", "Of an increment, which of the stream's it is."),
        ("span", "STRING", "What it has read, as JSON: after one position of the source, up to another."),
        ("definition", "STRING", "Digest of what decided the day's rows; in the fence row, the one in force."),
    ),
]
"""Columns that ledgers of earlier versions lack until the next preflight."""
LEDGER_FIELDS: list[dict[str, Any]] = [
    *sink_fields(
        ("target", "STRING", "The table written to: project.dataset.table."),
        ("connector", "STRING", "The source's connector."),
        ("stream", "STRING", "The source's own name for the stream."),
        ("day", "DATE", "The published day; NULL in the stream's fence row, which must stay."),
        ("generation", "INTEGER", "1 for the day's first publish, one more for every reload."),
        ("token", "STRING", "The intent it was published for."),
        ("attempt", "STRING", "The attempt that published."),
        ("run", "STRING", "Where to look in Airflow: dag_id/run_id/task_id; in the fence row, dag_id/task_id."),
        ("clear_number", "INTEGER", "How often that run was cleared before."),
        ("row_count", "INTEGER", "Rows of the day visible after the publish."),
        ("digest", "STRING", "Digest of what was polled."),
        ("counts", "JSON", "Counts of the poll and the publish."),
        ("reference", "STRING", "Id of the job that published."),
        ("link", "STRING", "URL of that job."),
        ("load_method", "STRING", "How the staging table was filled."),
        ("stream_count", "INTEGER", "How many write streams filled the staging table."),
    ),
    {"name": "streams", "type": "STRING", "mode": "REPEATED", "description": "Names of the first of them."},
    *sink_fields(
        ("polled_at", "TIMESTAMP", "When the source was polled; for people only, it decides nothing."),
        ("published_at", "TIMESTAMP", "When it was published; in the fence row, when a publish was last tried."),
    ),
    *ADDED_FIELDS,
]
_FIRST_VERSION_COLUMNS = (
    "day",
    "generation",
    "token",
    "run",
    "clear_number",
    "attempt",
    "row_count",
    "digest",
    "reference",
    "link",
)
_FIRST_COLUMNS_SQL = (
    f"{column_list((*_FIRST_VERSION_COLUMNS, 'polled_at', 'published_at'), LEDGER)}, "
    f"TO_JSON_STRING({LEDGER}.`counts`) AS `counts`"
)
LEDGER_ROW = (*_FIRST_VERSION_COLUMNS, "polled_at", "published_at", "counts", "checks", "answer", "span", "definition")
"""Columns that :func:`ledger_row` reads."""
LEDGER_COLUMNS = (
    f"{_FIRST_COLUMNS_SQL}, COALESCE({LEDGER}.`checks`, 0) AS `checks`, "
    f"{column_list(('answer', 'span', 'definition'), LEDGER)}"
)
"""SQL of the columns of :data:`LEDGER_ROW`."""
NEWEST_FIRST = f"{LEDGER}.`generation` DESC, {LEDGER}.`checks` DESC"
"""SQL order of a day's ledger rows."""


MISSING_IN_RECENT = {"definition": literal(None)}
MISSING_IN_OLDEST = {"checks": "0", "answer": literal(None), "span": literal(None), **MISSING_IN_RECENT}
"""SQL values for columns of :data:`LEDGER_ROW` that ledgers of earlier versions lack."""
FENCE_COLUMNS = f"MAX({LEDGER}.definition) AS definition, MAX({LEDGER}.run) AS task"
"""SQL columns of a stream's fence row."""


def upgraded_ledger_sql(ledger: TableRef, missing_columns: Mapping[str, str]) -> str:
    """Return SQL that reads an earlier ledger as if it had the missing columns.

    :param missing_columns: SQL value of each missing column.
    """
    present = [name for name in ("target", "connector", "stream", *LEDGER_ROW) if name not in missing_columns]
    columns = present if "span" in missing_columns else [*present, "span_number"]
    values = ", ".join(f"{value} AS {quoted(name)}" for name, value in missing_columns.items())
    return f"(SELECT {column_list(columns, LEDGER)}, {values} FROM {ledger.sql} AS {LEDGER})"


def ledger_row(values: dict[str, Any]) -> LedgerRow:
    common_values = {name: values[name] for name in LedgerRow.model_fields if name in values}
    return LedgerRow(
        **common_values
        | {
            "rows": values["row_count"],
            "clear_number": values["clear_number"] or 0,
            "counts": json.loads(values["counts"] or "{}"),
            "span": Span.model_validate_json(values["span"]) if values["span"] else None,
        }
    )


def ledger_values(target: TableRef, key: StreamKey, row: LedgerRow, **expressions: str) -> dict[str, str]:
    """Return the SQL values of a new ledger row by column, in the ledger's order.

    :param expressions: SQL values that replace the row's.
    """
    number, span = (row.span.number, row.span.model_dump_json()) if row.span is not None else (None, None)
    texts = {name: literal(getattr(row, name)) for name in ("token", "attempt", "run", "digest", "reference", "link")}
    values = {
        **key_values(target, key),
        "day": literal(row.day),
        "generation": literal(row.generation),
        **texts,
        "clear_number": literal(row.clear_number),
        "row_count": literal(row.rows),
        "counts": f"PARSE_JSON({literal(json.dumps(row.counts))})",
        "polled_at": timestamp(row.polled_at),
        "published_at": "CURRENT_TIMESTAMP()",
        "checks": "0",
        "answer": literal(row.answer),
        "span_number": literal(number, "INT64"),
        "span": literal(span),
        "definition": literal(row.definition),
        **expressions,
    }
    return {field["name"]: values[field["name"]] for field in LEDGER_FIELDS if field["name"] in values}


def key_values(target: TableRef, key: StreamKey) -> dict[str, str]:
    """Return the SQL values that identify a stream in ledger, notes and erase list, by column."""
    return {"target": literal(target.id), "connector": literal(key.connector), "stream": literal(key.stream)}


def target_condition(target: TableRef) -> str:
    """Return the SQL condition for all streams' rows of a target."""
    return f"{LEDGER}.target = {literal(target.id)}"


def stream_condition(target: TableRef, key: StreamKey) -> str:
    return " AND ".join(f"{LEDGER}.{name} = {value}" for name, value in key_values(target, key).items())


def newest_rows(values: Iterable[dict[str, Any]]) -> list[LedgerRow]:
    """Return the newest ledger row of each day and, for increments, of each of its spans.

    :param values: rows of :data:`LEDGER_COLUMNS`, oldest first.
    """
    rows = (ledger_row(row) for row in values)
    return list({(row.day, row.span_number): row for row in rows}.values())


def day_rows(values: Iterable[dict[str, Any]]) -> list[LedgerRow]:
    """Return one ledger row for each day, as :func:`.ledger.day_row` makes it."""
    by_day: dict[dt.date, list[LedgerRow]] = {}
    for row in newest_rows(values):
        by_day.setdefault(row.day, []).append(row)
    rows_of_days = (day_row(rows) for rows in by_day.values())
    return [row for row in rows_of_days if row is not None]


def first_span_condition(number: int | None) -> str:
    """Return the condition of the publish script that a span is its day's first."""
    return f"COALESCE({literal(number)} <= first_span, TRUE)"


def own_span_number(ledger: str, stream: str, day: dt.date, run: str) -> str:
    """Return SQL for the number of the span of a day that belongs to a run, or NULL.

    :param stream: SQL condition of the stream's rows.
    """
    rows = f"FROM {ledger} AS {LEDGER} WHERE {stream} AND {LEDGER}.day = {literal(day)}"
    return f"(SELECT MAX({LEDGER}.span_number) {rows} AND {LEDGER}.run = {literal(run)})"


def definition_in_force_of(fence_values: Mapping[str, Any]) -> DefinitionInForce | None:
    if fence_values["definition"] is None:
        return None
    return DefinitionInForce(fence_values["definition"], digest_of(task_of(fence_values["task"] or "")))


def last_definition_query(ledger: TableRef, stream: str) -> str:
    """Return a query for ``definition`` and ``run`` of a stream's newest publish with a definition."""
    erases = erase_run(0).removesuffix("0")
    return (
        f"SELECT 1 AS one, {LEDGER}.definition, {LEDGER}.run FROM {ledger.sql} AS {LEDGER}\n"
        f"  WHERE {stream} AND {LEDGER}.day IS NOT NULL AND {LEDGER}.definition IS NOT NULL\n"
        f"    AND COALESCE({LEDGER}.checks, 0) = 0 AND NOT STARTS_WITH(COALESCE({LEDGER}.run, ''), {literal(erases)})\n"
        f"  ORDER BY {LEDGER}.published_at DESC LIMIT 1"
    )
