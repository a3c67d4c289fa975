"""Ledger notes: facts of a stream that belong to no day, in a table next to the ledger.

Reading needs no query: listing a small table's rows is free
(https://cloud.google.com/bigquery/docs/best-practices-costs, 2026-11).
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.errors import MissingError
from airflow_provider_connect.clients.bigquery.sql import column_list, literal, timestamp
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER
from airflow_provider_connect.sinks._bigquery.columns.schema import sink_fields
from airflow_provider_connect.sinks._bigquery.ledger_rows import key_values
from airflow_provider_connect.sinks._bigquery.tables import ensure_table
from airflow_provider_connect.stage.notes import LedgerNote

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sink import StreamKey

NOTE_FIELDS: list[dict[str, Any]] = sink_fields(
    ("target", "STRING", "The table written to: project.dataset.table."),
    ("connector", "STRING", "The source's connector."),
    ("stream", "STRING", "The source's own name for the stream."),
    ("kind", "STRING", "What it notes: definition, acceptance, alarm, resumption or position."),
    ("id", "STRING", "Which of its kind it is: the ledger's column `definition` names definitions by it."),
    ("noted_at", "TIMESTAMP", "When it was noted; for people only."),
    ("run", "STRING", "Who noted it: dag_id/run_id/task_id, or a person's command."),
    ("content", "STRING", "What is noted, as JSON, without secrets and without values of records."),
)


def notes_table(target: TableRef) -> TableRef:
    return target.sibling(f"{target.table}__notes")


def positions_table(target: TableRef) -> TableRef:
    """Return the table of long positions: one a run, so that they would make the other notes slow to read."""
    return target.sibling(f"{target.table}__positions")


def table_of(target: TableRef, note: LedgerNote) -> TableRef:
    return positions_table(target) if note.kind == "position" else notes_table(target)


def read_position(api: BigQueryApi, target: TableRef, key: StreamKey, note_id: str) -> LedgerNote | None:
    """Return the note with a long position, or None. Takes one query."""
    try:
        rows, _ = api.query(
            position_query(target, key, note_id),
            action=f"read a position of {key} in {positions_table(target).id}",
            labels={"connect": "ledger"},
        )
    except MissingError:
        return None
    return _note_of(rows[0]) if rows else None


def position_query(target: TableRef, key: StreamKey, note_id: str) -> str:
    """Return the query for a long position."""
    values = key_values(target, key) | {"id": literal(note_id)}
    conditions = " AND ".join(f"{LEDGER}.{name} = {value}" for name, value in values.items())
    columns = column_list(("kind", "id", "noted_at", "run", "content"), LEDGER)
    return f"SELECT {columns} FROM {positions_table(target).sql} AS {LEDGER} WHERE {conditions} LIMIT 1"


def read_notes(api: BigQueryApi, target: TableRef, key: StreamKey) -> list[LedgerNote]:
    """Return a stream's notes, oldest first. Takes one call, no query."""
    from google.cloud import bigquery

    notes = notes_table(target)
    fields = [bigquery.SchemaField.from_api_repr(field) for field in NOTE_FIELDS]

    def read_rows(*, timeout: float, retry: None) -> list[dict[str, Any]]:
        rows_found = api.client.list_rows(notes.id, selected_fields=fields, timeout=timeout, retry=retry)
        return [dict(row) for row in rows_found]

    try:
        all_rows = api.call(f"read notes {notes.id}", read_rows)
    except MissingError:
        return []
    stream = (target.id, key.connector, key.stream)
    stream_rows = [row for row in all_rows if (row["target"], row["connector"], row["stream"]) == stream]
    oldest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(stream_rows, key=lambda row: row["noted_at"]):
        oldest.setdefault((row["kind"], row["id"]), row)
    return [_note_of(row) for row in oldest.values()]


def write_note(api: BigQueryApi, target: TableRef, key: StreamKey, note: LedgerNote) -> None:
    """Add a note unless it exists, and create the table of notes if missing.

    :raises ConfigError: a foreign table, or no rights.
    :raises RetriableError: BigQuery is unavailable.
    """
    notes = table_of(target, note)
    ensure_table(
        api,
        notes,
        NOTE_FIELDS,
        cluster_by=("target", "connector", "stream", *(("id",) if note.kind == "position" else ())),
        description=f"Notes of the ledger of {target.id} that belong to no day. Do not change by hand.",
    )
    action = f"note {note.kind} {note.id} of {key} in {notes.id}"
    api.query(note_statement(target, key, note), action=action, labels={"connect": "ledger"})


def note_statement(target: TableRef, key: StreamKey, note: LedgerNote) -> str:
    """Return the statement that adds a note unless it exists."""
    values = {
        **key_values(target, key),
        "kind": literal(note.kind),
        "id": literal(note.id),
        "noted_at": timestamp(note.noted_at),
        "run": literal(note.run),
        "content": literal(json.dumps(note.content, ensure_ascii=False, sort_keys=True)),
    }
    same_note = " AND ".join(
        f"{LEDGER}.{name} = {values[name]}" for name in ("target", "connector", "stream", "kind", "id")
    )
    notes = table_of(target, note)
    return (
        f"INSERT INTO {notes.sql} ({column_list(values)})\n"
        f"SELECT {', '.join(values.values())} FROM (SELECT 1 AS one) AS connect_one\n"
        f"WHERE NOT EXISTS (SELECT 1 FROM {notes.sql} AS {LEDGER} WHERE {same_note})"
    )


def _note_of(row: dict[str, Any]) -> LedgerNote:
    note_fields = {name: row[name] for name in ("kind", "id", "noted_at", "run")}
    return LedgerNote(**note_fields, content=json.loads(row["content"]))
