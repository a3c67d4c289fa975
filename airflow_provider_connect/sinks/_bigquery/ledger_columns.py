"""The columns of a ledger: their types, the SQL that reads them, and columns that earlier versions lack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.sql import literal, names, quoted
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER
from airflow_provider_connect.sinks._bigquery.columns.schema import own_fields

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.place import Place

LATER_FIELDS: list[dict[str, Any]] = [
    *own_fields(
        ("checks", "INTEGER", "How often this generation was confirmed: the source gave the same answer again."),
        ("answer", "STRING", "Digest of what was published, and how."),
        (
            "erased",
            "INTEGER",
            "In the stream's fence row, the version of the target's erase list; NULL as long as nobody is erased.",
        ),
    ),
    {"name": "tables", "type": "STRING", "mode": "REPEATED", "description": "The tables of a template with its rows."},
    *own_fields(
        ("span_number", "INTEGER", "Of an increment, which of the stream's it is."),
        ("span", "STRING", "What it has read, as JSON: after one position of the source, up to another."),
        ("definition", "STRING", "Digest of what decided the day's rows; in the fence row, the one in force."),
    ),
]
"""What the ledgers of earlier versions lack, until the next preflight."""
LEDGER_FIELDS: list[dict[str, Any]] = [
    *own_fields(
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
    *own_fields(
        ("polled_at", "TIMESTAMP", "When the source was polled; for people only, it decides nothing."),
        ("published_at", "TIMESTAMP", "When it was published; in the fence row, when a publish was last tried."),
    ),
    *LATER_FIELDS,
]
_ROW = ("day", "generation", "token", "run", "clear_number", "attempt", "row_count", "digest", "reference", "link")
_FIRST_COLUMNS = f"{names((*_ROW, 'polled_at', 'published_at'), LEDGER)}, TO_JSON_STRING({LEDGER}.`counts`) AS `counts`"
LEDGER_ROW = (*_ROW, "polled_at", "published_at", "counts", "checks", "answer", "span", "definition")
"""The columns that :func:`ledger_row` needs."""
LEDGER_COLUMNS = (
    f"{_FIRST_COLUMNS}, COALESCE({LEDGER}.`checks`, 0) AS `checks`, {names(('answer', 'span', 'definition'), LEDGER)}"
)
"""The same as SQL, of a ledger."""
NEWEST_FIRST = f"{LEDGER}.`generation` DESC, {LEDGER}.`checks` DESC"
"""How a day's rows are sorted."""


LACKED_LAST = {"definition": literal(None)}
LACKED_FIRST = {"checks": "0", "answer": literal(None), "span": literal(None), **LACKED_LAST}
"""What ledgers of earlier versions lack of :data:`LEDGER_ROW`, and SQL in its place."""


def of_today(ledger: Place, lacked: Mapping[str, str]) -> str:
    """Return SQL for a ledger that an earlier version made, with columns in the place of those that it lacks."""
    present = [name for name in ("target", "connector", "stream", *LEDGER_ROW) if name not in lacked]
    columns = present if "span" in lacked else [*present, "span_number"]
    values = ", ".join(f"{value} AS {quoted(name)}" for name, value in lacked.items())
    return f"(SELECT {names(columns, LEDGER)}, {values} FROM {ledger.sql} AS {LEDGER})"  # noqa: S608 - names of ours
