"""Rejects: rows that BigQuery cannot hold or the source set aside."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.errors import MissingError
from airflow_provider_connect.clients.bigquery.sql import column_list, literal
from airflow_provider_connect.sinks._bigquery.aliases import REJECT, SPAN
from airflow_provider_connect.sinks._bigquery.columns.schema import sink_fields
from airflow_provider_connect.sinks._bigquery.ledger_rows import SPAN_FIELD, first_span_condition
from airflow_provider_connect.sinks._bigquery.names import DAY
from airflow_provider_connect.sinks._bigquery.tables import ensure_table
from airflow_provider_connect.stage.rejects import RejectedRecord

if TYPE_CHECKING:
    import datetime as dt

    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sink import StreamKey


STAGED_REJECT_FIELDS = sink_fields(
    ("origin", "STRING", "Who refused it: 'source' while reading, 'sink' because BigQuery cannot hold it."),
    ("position", "INTEGER", "Source: byte of the decoded answer. Sink: row of the staged day."),
    ("column", "STRING", "The column that cannot be held; NULL where it is about the whole record."),
    ("reason", "STRING", "Why."),
    ("record", "BYTES", "The record: as the source sent it, or the row as JSON."),
)
"""Columns of an attempt's staging table of rejects."""

REJECT_FIELDS = [
    *STAGED_REJECT_FIELDS,
    *sink_fields(
        (DAY, "DATE", "The day whose data the record came with."),
        ("connector", "STRING", "The source's connector."),
        ("stream", "STRING", "The source's own name for the stream."),
        ("generation", "INTEGER", "The generation of the day it was left out of."),
    ),
]


def ensure_rejects_table(
    api: BigQueryApi, table_ref: TableRef, target: TableRef, *, span_number: int | None = None
) -> None:
    """Create the table of a target's rejects if missing, partitioned by day.

    :param span_number: if given, adds its column.
    :raises ConfigError: a foreign table of that name.
    """
    ensure_table(
        api,
        table_ref,
        REJECT_FIELDS if span_number is None else [*REJECT_FIELDS, SPAN_FIELD],
        description=f"Records that could not be loaded into {target.id}.",
        cluster_by=("connector", "stream"),
        partition_by=DAY,
        added_later=() if span_number is None else [SPAN],
    )


def count_rejects(api: BigQueryApi, table_ref: TableRef) -> int:
    """Count the rejects of all streams of a target; 0 without the table."""
    api.locate(table_ref)
    sql = f"SELECT COUNT(*) AS found FROM {table_ref.sql} AS {REJECT}"
    try:
        [answer], _ = api.query(sql, action=f"count the rejects in {table_ref.id}", labels={"connect": "erase"})
    except MissingError:
        return 0
    return int(answer["found"])


def rejects_by_day(
    api: BigQueryApi, table_ref: TableRef, key: StreamKey, days: tuple[dt.date, dt.date], records: int
) -> dict[dt.date, list[RejectedRecord]]:
    """Return a stream's rejects between two days, by one query. Empty without the table.

    :param records: most rejects of a day with their record.
    """
    api.locate(table_ref)
    day = f"{REJECT}.`day`"
    sort = f"{REJECT}.`generation`, {REJECT}.`origin` DESC, {REJECT}.`position`"
    nth = f"ROW_NUMBER() OVER (PARTITION BY {day} ORDER BY {sort})"
    record = f"IF({nth} <= {records:d}, {REJECT}.`record`, NULL)" if records else "CAST(NULL AS BYTES)"
    columns = column_list((DAY, "origin", "position", "column", "reason"), REJECT)
    sql = (
        f"SELECT {columns}, {record} AS `record` FROM {table_ref.sql} AS {REJECT} "
        f"WHERE {_stream_condition(key)} AND {day} BETWEEN {literal(days[0])} AND {literal(days[1])} "
        f"ORDER BY {day}, {sort}"
    )
    try:
        rows, _ = api.query(sql, action=f"read the rejects in {table_ref.id}", labels={"connect": "rejects"})
    except MissingError:
        return {}
    by_day: dict[dt.date, list[RejectedRecord]] = {}
    for row in rows:
        by_day.setdefault(row["day"], []).append(_as_set_aside(row))
    return by_day


def _as_set_aside(row: dict[str, Any]) -> RejectedRecord:
    record: bytes | None = row["record"] or None
    digest = None if record is None else hashlib.blake2b(record, digest_size=16).hexdigest()
    return RejectedRecord(row["origin"], row["position"], row["reason"], row["column"] or "", digest, record)


def _stream_condition(key: StreamKey) -> str:
    return f"{REJECT}.connector = {literal(key.connector)} AND {REJECT}.stream = {literal(key.stream)}"


@dataclass(frozen=True)
class RejectTables:
    """Tables of a day's rejects.

    :param staging: None without rejects.
    :param span_number: of an increment.
    """

    target: TableRef
    staging: TableRef | None = None
    rows: int = 0
    span_number: int | None = None

    @property
    def staged_count_sql(self) -> str:
        return f"(SELECT COUNT(*) FROM {self.staging.sql})" if self.staging else "0"

    def statements(self, key: StreamKey, day: dt.date, *, generation: str, keep_old: bool) -> list[str]:
        """Return the statements that replace a day's rejects.

        :param keep_old: True in append mode.
        """
        key_values = {DAY: literal(day), "connector": literal(key.connector), "stream": literal(key.stream)}
        statements = []
        if not keep_old:
            condition = " AND ".join(f"{column_list([name], REJECT)} = {value}" for name, value in key_values.items())
            if self.span_number is not None:
                is_first = first_span_condition(self.span_number)
                span = f"{REJECT}.{SPAN}"
                condition += f" AND ({span} = {self.span_number} OR ({span} IS NULL AND {is_first}))"
            statements.append(f"DELETE FROM {self.target.sql} AS {REJECT} WHERE {condition}")
        if self.staging is not None:
            key_values |= {} if self.span_number is None else {SPAN: literal(self.span_number)}
            staged = [field["name"] for field in STAGED_REJECT_FIELDS]
            statements.append(
                f"INSERT INTO {self.target.sql} ({column_list([*staged, *key_values, 'generation'])})\n"
                f"  SELECT {column_list(staged, REJECT)}, {', '.join(key_values.values())}, {generation}\n"
                f"  FROM {self.staging.sql} AS {REJECT}"
            )
        return statements
