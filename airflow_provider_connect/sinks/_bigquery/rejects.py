"""Dead letters: rows that could not be loaded, in a table beside the target, put there with the day itself."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.errors import MissingError
from airflow_provider_connect.clients.bigquery.sql import literal, names
from airflow_provider_connect.sinks._bigquery.aliases import REJECT
from airflow_provider_connect.sinks._bigquery.columns.schema import own_fields
from airflow_provider_connect.sinks._bigquery.names import DAY
from airflow_provider_connect.sinks._bigquery.tables import ensure_table
from airflow_provider_connect.stage.rejects import SetAside

if TYPE_CHECKING:
    import datetime as dt

    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.clients.bigquery.sql import Place
    from airflow_provider_connect.sink import StreamKey


STAGED_REJECT_FIELDS = own_fields(
    ("origin", "STRING", "Who refused it: 'source' while reading, 'sink' because BigQuery cannot hold it."),
    ("position", "INTEGER", "Source: byte of the decoded answer. Sink: row of the staged day."),
    ("column", "STRING", "The column that cannot be held; NULL where it is about the whole record."),
    ("reason", "STRING", "Why."),
    ("record", "BYTES", "The record: as the source sent it, or the row as JSON."),
)
"""What an attempt stages of its rejects."""

REJECT_FIELDS = [
    *STAGED_REJECT_FIELDS,
    *own_fields(
        (DAY, "DATE", "The day whose data the record came with."),
        ("connector", "STRING", "The source's connector."),
        ("stream", "STRING", "The source's own name for the stream."),
        ("generation", "INTEGER", "The generation of the day it was left out of."),
    ),
]
"""What a table of rejects has."""


def ensure_rejects(api: Api, place: Place, target: Place) -> None:
    """Make the table of a target's dead letters if it is missing, so that a day's are found without reading all.

    :raises ConfigError: there is a table of that name that this sink did not make.
    """
    ensure_table(
        api,
        place,
        REJECT_FIELDS,
        description=f"Records that could not be loaded into {target.id}.",
        cluster_by=("connector", "stream"),
        partition_by=DAY,
    )


def rejects_in(api: Api, place: Place) -> int:
    """Count a target's dead letters, of all streams; 0 if there is no table of them."""
    api.locate(place)
    sql = f"SELECT COUNT(*) AS found FROM {place.sql} AS {REJECT}"
    try:
        [answer], _ = api.query(sql, doing=f"count the rejects in {place.id}", labels={"connect": "erase"})
    except MissingError:
        return 0
    return int(answer["found"])


def rejects_by_day(
    api: Api, place: Place, key: StreamKey, days: tuple[dt.date, dt.date], records: int
) -> dict[dt.date, list[SetAside]]:
    """Read a stream's dead letters of some days, by one query; {} if there is no table of them.

    :param days: the first and the last.
    :param records: of how many of a day's the record itself is read; 0 leaves that column out.
    """
    api.locate(place)
    day = f"{REJECT}.`day`"
    sort = f"{REJECT}.`generation`, {REJECT}.`origin` DESC, {REJECT}.`position`"
    nth = f"ROW_NUMBER() OVER (PARTITION BY {day} ORDER BY {sort})"
    record = f"IF({nth} <= {records:d}, {REJECT}.`record`, NULL)" if records else "CAST(NULL AS BYTES)"
    columns = names((DAY, "origin", "position", "column", "reason"), REJECT)
    sql = (
        f"SELECT {columns}, {record} AS `record` FROM {place.sql} AS {REJECT} "
        f"WHERE {_of_stream(key)} AND {day} BETWEEN {literal(days[0])} AND {literal(days[1])} ORDER BY {day}, {sort}"
    )
    try:
        rows, _ = api.query(sql, doing=f"read the rejects in {place.id}", labels={"connect": "rejects"})
    except MissingError:
        return {}
    found: dict[dt.date, list[SetAside]] = {}
    for row in rows:
        found.setdefault(row["day"], []).append(_as_set_aside(row))
    return found


def _as_set_aside(row: dict[str, Any]) -> SetAside:
    record: bytes | None = row["record"] or None
    digest = None if record is None else hashlib.blake2b(record, digest_size=16).hexdigest()
    return SetAside(row["origin"], row["position"], row["reason"], row["column"] or "", digest, record)


def _of_stream(key: StreamKey) -> str:
    return f"{REJECT}.connector = {literal(key.connector)} AND {REJECT}.stream = {literal(key.stream)}"


@dataclass(frozen=True)
class Rejects:
    """The dead letters of a day.

    :param target: the table of dead letters, which exists.
    :param staging: where this attempt's are staged; None when it has none, and those of an earlier publish just go.
    :param rows: how many are staged.
    """

    target: Place
    staging: Place | None = None
    rows: int = 0

    @property
    def staged(self) -> str:
        """SQL that counts what is staged."""
        return f"(SELECT COUNT(*) FROM {self.staging.sql})" if self.staging else "0"

    def statements(self, key: StreamKey, day: dt.date, *, generation: str, keep_old: bool) -> list[str]:
        """Return the statements that put a day's rejects in the place of those it had.

        :param generation: SQL for the generation that is being published.
        :param keep_old: append mode, where earlier rows of the day stay as well.
        """
        own = {DAY: literal(day), "connector": literal(key.connector), "stream": literal(key.stream)}
        statements = []
        if not keep_old:
            condition = " AND ".join(f"{names([name], REJECT)} = {value}" for name, value in own.items())
            statements.append(f"DELETE FROM {self.target.sql} AS {REJECT} WHERE {condition}")
        if self.staging is not None:
            staged = [field["name"] for field in STAGED_REJECT_FIELDS]
            statements.append(
                f"INSERT INTO {self.target.sql} ({names([*staged, *own, 'generation'])})\n"
                f"  SELECT {names(staged, REJECT)}, {', '.join(own.values())}, {generation}\n"
                f"  FROM {self.staging.sql} AS {REJECT}"
            )
        return statements
