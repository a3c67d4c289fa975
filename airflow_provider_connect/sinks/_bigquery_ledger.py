"""The ledger: a small table that remembers every publish, and one fence row for each stream.

One row for each publish, newest generation current. A fence row (``day`` NULL, generation 0) is what every publish of
a stream changes first, so that two of them cannot run at once; see :mod:`._bigquery_publish`.

Each read is one query over one table clustered by target, connector and stream.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Ledger, LedgerRow, StreamKey
from airflow_provider_connect.sinks._bigquery_errors import MissingError
from airflow_provider_connect.sinks._bigquery_sql import literal
from airflow_provider_connect.sinks._bigquery_table import ensure_table
from airflow_provider_connect.window import DaySet

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._bigquery_access import Api
    from airflow_provider_connect.sinks._bigquery_place import Place

WriteMode = Literal["replace", "merge", "append"]

LEDGER_FIELDS: list[dict[str, Any]] = [
    {"name": name, "type": type_name, "mode": mode, "description": description}
    for name, type_name, mode, description in (
        ("target", "STRING", "NULLABLE", "The table written to: project.dataset.table."),
        ("connector", "STRING", "NULLABLE", "The source's connector."),
        ("stream", "STRING", "NULLABLE", "The source's own name for the stream."),
        ("day", "DATE", "NULLABLE", "The published day; NULL in the stream's fence row, which must stay."),
        ("generation", "INTEGER", "NULLABLE", "1 for the day's first publish, one more for every reload."),
        ("token", "STRING", "NULLABLE", "The intent it was published for."),
        ("intent_order", "INTEGER", "NULLABLE", "Grows with every newer intent."),
        ("attempt", "STRING", "NULLABLE", "The attempt that published."),
        ("run", "STRING", "NULLABLE", "Where to look in Airflow: dag_id/run_id/task_id."),
        ("row_count", "INTEGER", "NULLABLE", "Rows of the day visible after the publish."),
        ("digest", "STRING", "NULLABLE", "Digest of what was polled."),
        ("counts", "JSON", "NULLABLE", "What was counted on the way."),
        ("reference", "STRING", "NULLABLE", "Id of the job that published."),
        ("link", "STRING", "NULLABLE", "Where that job can be looked at."),
        ("load_method", "STRING", "NULLABLE", "How the staging table was filled."),
        ("streams", "STRING", "REPEATED", "Write streams that filled the staging table."),
        ("published_at", "TIMESTAMP", "NULLABLE", "When; in the fence row, when a publish was last tried."),
    )
]
LEDGER_COLUMNS = (
    "`day`, `generation`, `token`, `intent_order`, `attempt`, `row_count`, `digest`, "
    "TO_JSON_STRING(`counts`) AS `counts`, `reference`, `link`, `published_at`"
)
"""What :func:`ledger_row` needs of a row."""


def ledger_row(values: dict[str, Any]) -> LedgerRow:
    """Return a row of :data:`LEDGER_COLUMNS` as a ledger row."""
    return LedgerRow(
        day=values["day"],
        generation=values["generation"],
        token=values["token"],
        order=values["intent_order"],
        rows=values["row_count"],
        digest=values["digest"],
        attempt=values["attempt"],
        counts=json.loads(values["counts"] or "{}"),
        published_at=values["published_at"],
        reference=values["reference"],
        link=values["link"],
    )


def of_stream(target: Place, key: StreamKey) -> str:
    """Return the condition that a ledger row is about one stream in one table."""
    return f"target = {literal(target.id)} AND connector = {literal(key.connector)} AND stream = {literal(key.stream)}"


class BigQueryLedger(Ledger):
    """What one stream has published into one table.

    :param open_api: makes the client; called once, at the first read.
    :param on_published_day: ``refuse``: :meth:`published` raises for a day that another intent has published, so
        that append mode refuses it before anything is polled; ``append`` for every other mode.
    """

    def __init__(
        self,
        open_api: Callable[[], Api],
        target: Place,
        ledger: Place,
        key: StreamKey,
        on_published_day: Literal["refuse", "append"] = "append",
    ) -> None:
        self.open_api = open_api
        self.target = target
        self.ledger = ledger
        self.key = key
        self.on_published_day = on_published_day
        self._api: Api | None = None

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the newest published state of a day, None if it never was."""
        rows = self._read(f"SELECT {LEDGER_COLUMNS}", f"AND day = {literal(day)} ORDER BY generation DESC LIMIT 1")
        return ledger_row(rows[0]) if rows else None

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return what was published of a day for one intent, also when a newer one followed.

        :raises ConfigError: append mode, and the day was published for another intent.
        """
        mine = f"IF(token = {literal(token)}, 1, 0)"
        rows = self._read(
            f"SELECT {LEDGER_COLUMNS}",
            f"AND day = {literal(day)} ORDER BY {mine} DESC, generation DESC LIMIT 1",
        )
        if not rows:
            return None
        row = ledger_row(rows[0])
        if row.token == token:
            return row
        if self.on_published_day == "refuse":
            raise refused_append(self.key, day, self.target, row.generation)
        return None

    def days(self) -> DaySet:
        """Return every published day."""
        rows = self._read("SELECT DISTINCT day", "AND day IS NOT NULL")
        return DaySet.of(row["day"] for row in rows)

    def _read(self, select: str, rest: str) -> list[dict[str, Any]]:
        if self._api is None:
            self._api = self.open_api()
        sql = f"{select} FROM {self.ledger.sql} WHERE {of_stream(self.target, self.key)} {rest}"
        try:
            # A query in the wrong location finds no table either, and then the ledger would look empty.
            self._api.locate(self.ledger)
            rows, _ = self._api.query(sql, doing=f"read ledger {self.ledger.id}", labels={"connect": "ledger"})
        except MissingError:
            return []
        return rows


def refused_append(key: StreamKey, day: dt.date, target: Place, generation: int) -> ConfigError:
    """Return the error of a day that append mode would write a second time."""
    return ConfigError(
        f"{key} {day}: {target.id} has this day already (generation {generation}), and write_mode='append' would "
        "double it. Use write_mode='replace', or say on_published_day='append' if doubling is wanted"
    )


def foreign_rows(key: StreamKey, target: Place, ledger: Place) -> ConfigError:
    """Return the error of a table that replace mode shares with another stream."""
    return ConfigError(
        f"{key}: ledger {ledger.id} says that another stream has published into {target.id}, whose days "
        "write_mode='replace' would delete: give each stream a table of its own"
    )


def ensure(
    api: Api,
    ledger: Place,
    target: Place,
    key: StreamKey,
    *,
    labels: dict[str, str],
    kms_key: str | None = None,
    write_mode: WriteMode = "append",
) -> None:
    """Make the ledger table if it is missing, and this stream's fence row: one look and one query, once a job.

    Two at once may both insert a fence row, which does no harm: a publish changes all of them.

    :raises ConfigError: there is a table of that name which is no ledger; or another stream has published into the
        target, whose days ``write_mode="replace"`` would delete.
    """
    ensure_table(
        api,
        ledger,
        LEDGER_FIELDS,
        labels=labels,
        kms_key=kms_key,
        cluster_by=("target", "connector", "stream"),
        description="What airflow-provider-connect has published into this dataset's tables. Do not change by hand.",
    )
    mine = of_stream(target, key)
    [found], _ = api.query(
        f"SELECT COUNTIF({mine} AND day IS NULL) AS fences, COUNTIF(NOT ({mine}) AND day IS NOT NULL) AS strangers\n"
        f"FROM {ledger.sql} WHERE target = {literal(target.id)}",
        doing=f"look for the fence row of {key} in {ledger.id}",
        labels=labels,
    )
    if write_mode == "replace" and found["strangers"]:
        raise foreign_rows(key, target, ledger)
    if not found["fences"]:
        values = f"{literal(target.id)}, {literal(key.connector)}, {literal(key.stream)}, {literal(None, 'DATE')}, 0"
        api.query(
            f"INSERT INTO {ledger.sql} (target, connector, stream, day, generation) SELECT {values}",
            doing=f"put the fence row of {key} into {ledger.id}",
            labels=labels,
        )
