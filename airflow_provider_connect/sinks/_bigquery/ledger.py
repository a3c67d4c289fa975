"""The ledger: a row for every publish and confirmation, and one fence row for each stream.

The fence row (``day`` NULL, generation 0) also holds the erase list's version and the definition in force.

The target's label ``connect_ledger`` names its ledger.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.clients.bigquery.api import SETTLE_SECONDS
from airflow_provider_connect.clients.bigquery.errors import ColumnError, MissingError
from airflow_provider_connect.clients.bigquery.sql import column_list, literal
from airflow_provider_connect.clients.bigquery.tables import find_table, retry_if_stale
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.ledger import second_span_error, several_spans_error
from airflow_provider_connect.sink import DefinitionInForce, Ledger, LedgerRow, StreamKey
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER
from airflow_provider_connect.sinks._bigquery.erase_list import (
    erase_list_table,
    newest_version_sql,
    raise_version_statement,
    read_erase_list,
)
from airflow_provider_connect.sinks._bigquery.ledger_rows import (
    ADDED_FIELDS,
    FENCE_COLUMNS,
    LEDGER_COLUMNS,
    LEDGER_FIELDS,
    MISSING_IN_OLDEST,
    MISSING_IN_RECENT,
    NEWEST_FIRST,
    day_rows,
    definition_in_force_of,
    last_definition_query,
    ledger_row,
    newest_rows,
    own_span_number,
    stream_condition,
    target_condition,
    upgraded_ledger_sql,
)
from airflow_provider_connect.sinks._bigquery.names import distinct_label
from airflow_provider_connect.sinks._bigquery.notes import read_notes, read_position
from airflow_provider_connect.sinks._bigquery.tables import ensure_table
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.window import DaySet, SourceKind

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef

WriteMode = Literal["replace", "merge", "append"]

LEDGER_LABEL = "connect_ledger"


@dataclass(frozen=True)
class BigQueryLedger(Ledger):
    """Ledger of one stream in one table. Each read is one query.

    :param on_published_day: ``refuse`` lets :meth:`published` raise for another intent's day.
    """

    api: BigQueryApi
    target: TableRef
    ledger: TableRef
    key: StreamKey
    on_published_day: Literal["refuse", "append"] = "append"
    replaces_whole: bool = False
    is_merged: bool = False

    def row(self, day: dt.date) -> LedgerRow | None:
        return next(iter(self.between(day, day)), None)

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        rows = self._read_rows(_rows_between(first, last))
        return day_rows(rows)

    def span_rows(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return the ledger row of each day's newest publish and, for increments, of each of its spans."""
        return newest_rows(self._read_rows(_rows_between(first, last)))

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        if kind == "increment":
            return self.newest_increment(day, "")
        if kind == "day" or not self.replaces_whole:
            return self.row(day)
        rows = self._read_rows(f"AND {LEDGER}.day IS NOT NULL ORDER BY {LEDGER}.day DESC, {NEWEST_FIRST} LIMIT 1")
        return ledger_row(rows[0]) if rows else None

    def newest_increment(self, day: dt.date, run: str) -> LedgerRow | None:
        stream, ledger = stream_condition(self.target, self.key), self.ledger.sql
        number = own_span_number(ledger, stream, day, run)
        is_own = f"COALESCE({LEDGER}.span_number = {number}, FALSE)"
        is_without_span = f"{LEDGER}.day = {literal(day)} AND {LEDGER}.span_number IS NULL"
        order = f"IF({is_own}, 1, 0) DESC, IF({is_without_span}, 1, 0) DESC, {LEDGER}.span_number DESC, {NEWEST_FIRST}"
        conditions = f"AND {LEDGER}.day IS NOT NULL ORDER BY {order} LIMIT 1"
        try:
            rows = self._read_rows(conditions, f"{LEDGER_COLUMNS}, {is_own} AS is_own")
        except ColumnError:  # no preflight has upgraded the ledger yet, so there is no increment
            return self.row(day)
        if not rows:
            return None
        row = ledger_row(rows[0])
        if row.span is None:
            return row
        if self.is_merged:
            self._require_one_span(day, is_own=rows[0]["is_own"])
        return row.model_copy(update={"span": row.span.model_copy(update={"run": run if rows[0]["is_own"] else None})})

    def _require_one_span(self, day: dt.date, *, is_own: bool) -> None:
        span_rows = self.span_rows(day, day)
        if len(span_rows) > 1:
            raise several_spans_error(day, len(span_rows))
        if span_rows and not is_own:
            raise second_span_error(day, span_rows[0].run or None)

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the row that an intent published for a day, if any.

        :raises ConfigError: append mode, and another intent has published the day.
        """
        mine = f"IF({LEDGER}.token = {literal(token)}, 1, 0)"
        rows = self._read_rows(f"AND {LEDGER}.day = {literal(day)} ORDER BY {mine} DESC, {NEWEST_FIRST} LIMIT 1")
        if not rows:
            return None
        row = ledger_row(rows[0])
        if row.token == token:
            return row
        if self.on_published_day == "refuse":
            raise append_refused_error(self.key, day, self.target, row.generation)
        return None

    def days(self) -> DaySet:
        rows = self._read(f"SELECT DISTINCT {LEDGER}.day", f"AND {LEDGER}.day IS NOT NULL")
        return DaySet.from_dates(row["day"] for row in rows)

    def tables_with_rows(self, day: dt.date | None = None, generation: int = 0) -> dict[str, bool]:
        """Return the template tables that ever had rows. True if this generation put rows there."""
        put_rows = "FALSE" if day is None else f"{LEDGER}.day = {literal(day)} AND {LEDGER}.generation = {generation}"
        select = f"SELECT name, LOGICAL_OR({put_rows}) AS there"
        joined = f", UNNEST({LEDGER}.tables) AS name"
        rows = self._read(select, f"AND {LEDGER}.day IS NOT NULL GROUP BY name", joined=joined)
        return {row["name"]: bool(row["there"]) for row in rows}

    def erased(self) -> EraseList:
        """Return the target's erase list. Takes a second query unless the list is empty.

        :raises ConfigError: the list is lost or was changed.
        """
        try:
            rows = self._read(
                f"SELECT MAX({LEDGER}.erased) AS version",
                f"AND {LEDGER}.day IS NULL",
                owner_condition=target_condition(self.target),
            )
        except ColumnError:  # no preflight has upgraded the ledger yet
            return EraseList()
        version = int(rows[0]["version"] or 0) if rows else 0
        return read_erase_list(self.api, self.target, version)

    def definition_in_force(self) -> DefinitionInForce | None:
        try:
            rows = self._read(f"SELECT {FENCE_COLUMNS}", f"AND {LEDGER}.day IS NULL")
        except ColumnError:  # no preflight has upgraded the ledger yet
            return None
        return definition_in_force_of(rows[0]) if rows else None

    def notes(self) -> list[LedgerNote]:
        """Return the stream's notes. Takes one call, but no query."""
        return read_notes(self.api, self.target, self.key)

    def position_note(self, note_id: str) -> LedgerNote | None:
        """Return the note with a long position. Takes a query."""
        return read_position(self.api, self.target, self.key, note_id)

    def _read_rows(self, conditions: str, columns: str = LEDGER_COLUMNS) -> list[dict[str, Any]]:
        for source in (self.ledger.sql, upgraded_ledger_sql(self.ledger, MISSING_IN_RECENT)):
            with suppress(ColumnError):  # no preflight has upgraded the ledger yet
                return self._read(f"SELECT {columns}", conditions, source=source)
        return self._read(f"SELECT {columns}", conditions, source=upgraded_ledger_sql(self.ledger, MISSING_IN_OLDEST))

    def _read(
        self,
        select: str,
        conditions: str,
        *,
        joined: str = "",
        owner_condition: str | None = None,
        source: str | None = None,
    ) -> list[dict[str, Any]]:
        from_sql = f"{source or self.ledger.sql} AS {LEDGER}{joined}"
        sql = (
            f"{select} FROM {from_sql} WHERE {owner_condition or stream_condition(self.target, self.key)} {conditions}"
        )
        try:
            # A query in the wrong location finds no table, so the ledger would look empty.
            self.api.locate(self.ledger)
        except MissingError:
            return []  # without its dataset the target does not exist either
        try:
            rows, _ = self.api.query(sql, action=f"read ledger {self.ledger.id}", labels={"connect": "ledger"})
        except MissingError:
            _require_unpublished(self.api, self.target, self.ledger)
            return []
        return rows


def _rows_between(first: dt.date, last: dt.date) -> str:
    return (
        f"AND {LEDGER}.day BETWEEN {literal(first)} AND {literal(last)}\n"
        f"ORDER BY {column_list(('day', 'generation', 'checks'), LEDGER)}"
    )


def _require_unpublished(api: BigQueryApi, target: TableRef, ledger: TableRef) -> None:
    name = f"{ledger.project}.{ledger.dataset}"
    try:
        api.call(f"read dataset {name}", api.client.get_dataset, name, retry_missing_seconds=SETTLE_SECONDS)
    except MissingError:
        return
    if find_table(api, ledger) is not None:
        raise RetriableError(f"ledger {ledger.id} exists, but a query did not find it: try again")
    label = _ledger_label(find_table(api, target))
    if label is not None:
        _require_same_ledger(label, target, ledger)
        raise _lost_ledger_error(target, ledger)


def _ledger_label(table: Any) -> str | None:
    return None if table is None else (table.labels or {}).get(LEDGER_LABEL)


def _require_same_ledger(label: str, target: TableRef, ledger: TableRef) -> None:
    if label != distinct_label(ledger.table):
        raise ConfigError(
            f"label {LEDGER_LABEL} of table {target.id} names ledger {label!r}, not {ledger.table!r}: the table is "
            "a copy or was renamed. Load into the original table. Or, to load every day again: bq update "
            f"--clear_label {LEDGER_LABEL} {target.project}:{target.dataset}.{target.table}"
        )


def _lost_ledger_error(target: TableRef, ledger: TableRef) -> ConfigError:
    old_table = f"{ledger.project}:{ledger.dataset}.{ledger.table}"
    return ConfigError(
        f"ledger {ledger.id} of table {target.id} is gone or has no row about it, so the published days are "
        f"unknown. Restore it (bq cp '{old_table}@<milliseconds since 1970>' {old_table}) within the dataset's "
        "time travel window: seven days by default, two at least. Or, to forget it and load every day again: bq "
        f"update --clear_label {LEDGER_LABEL} {target.project}:{target.dataset}.{target.table}"
    )


def append_refused_error(key: StreamKey, day: dt.date, target: TableRef, generation: int) -> ConfigError:
    """Return the error for a day that append mode would double."""
    return ConfigError(
        f"{key} {day}: {target.id} already has this day (generation {generation}), and write_mode='append' would "
        "double it. Use write_mode='replace', or set on_published_day='append' to double it"
    )


def foreign_rows_error(key: StreamKey, target: TableRef, ledger: TableRef) -> ConfigError:
    """Return the error for another stream's rows, which a replace would delete."""
    return ConfigError(
        f"{key}: another stream has published into {target.id} (ledger {ledger.id}), and its rows would be "
        "deleted. Give each stream its own table"
    )


def ensure_ledger(
    api: BigQueryApi,
    ledger: TableRef,
    target: TableRef,
    key: StreamKey,
    write_mode: WriteMode = "append",
    *,
    replaces_whole: bool = False,
) -> int:
    """Create ledger table and fence row if missing, and label the target. Returns the erase list's version.

    A restored ledger gets the erase list's version again, and a lost fence row the newest publish's definition.

    :raises ConfigError: the ledger is foreign or lost, the target has another, or a publish would delete rows of
        another stream.
    """
    label = _ledger_label(find_table(api, target))
    if label is not None:
        _require_same_ledger(label, target, ledger)
        if find_table(api, ledger) is None:
            raise _lost_ledger_error(target, ledger)
    ensure_table(
        api,
        ledger,
        LEDGER_FIELDS,
        cluster_by=("target", "connector", "stream"),
        description="Publishes of airflow-provider-connect into this dataset's tables. Do not change by hand.",
        added_later=[field["name"] for field in ADDED_FIELDS],
    )
    own_rows = stream_condition(target, key)
    # The list decides, because fence rows can be lost or restored to an older state.
    list_version = (
        "CAST(NULL AS INT64)" if find_table(api, erase_list_table(target)) is None else newest_version_sql(target)
    )
    [counts], _ = api.query(
        f"SELECT COUNTIF({own_rows} AND {LEDGER}.day IS NULL) AS fences,\n"
        f"  COUNTIF(NOT ({own_rows}) AND {LEDGER}.day IS NOT NULL) AS strangers,\n"
        f"  COUNT(*) AS entries, MAX(IF({LEDGER}.day IS NULL, {LEDGER}.erased, NULL)) AS erased, "
        f"{list_version} AS listed\n"
        f"FROM {ledger.sql} AS {LEDGER} WHERE {LEDGER}.target = {literal(target.id)}",
        action=f"look for the fence row of {key} in {ledger.id}",
        labels={"connect": "preflight"},
    )
    if label is not None and not counts["entries"]:
        raise _lost_ledger_error(target, ledger)
    if (write_mode == "replace" or replaces_whole) and counts["strangers"]:
        raise foreign_rows_error(key, target, ledger)
    if not counts["fences"]:
        values = f"{literal(target.id)}, {literal(key.connector)}, {literal(key.stream)}, {literal(None, 'DATE')}, 0"
        api.query(
            f"INSERT INTO {ledger.sql} (target, connector, stream, day, generation, erased, definition, run)\n"
            f"SELECT {values}, {list_version}, {LEDGER}.definition, {LEDGER}.run\n"
            f"FROM (SELECT 1 AS one) AS connect_one\n"
            f"LEFT JOIN ({last_definition_query(ledger, own_rows)}) AS {LEDGER} ON connect_one.one = {LEDGER}.one",
            action=f"put the fence row of {key} into {ledger.id}",
            labels={"connect": "preflight"},
        )
    elif int(counts["listed"] or 0) > int(counts["erased"] or 0):
        api.query(
            raise_version_statement(ledger, target, int(counts["listed"])),
            action=f"put the version of the erase list of {target.id} back into {ledger.id}",
            labels={"connect": "preflight"},
        )
    if label is None:
        # Last, because the label implies that the fence row exists.
        _label_with_ledger(api, target, ledger)
    return max(int(counts["listed"] or 0), int(counts["erased"] or 0))


def _label_with_ledger(api: BigQueryApi, target: TableRef, ledger: TableRef) -> None:
    def add_label() -> None:
        table = api.call(
            f"read table {target.id}", api.client.get_table, target.id, retry_missing_seconds=SETTLE_SECONDS
        )
        label = _ledger_label(table)
        if label is not None:
            _require_same_ledger(label, target, ledger)
            return
        table.labels = {**table.labels, LEDGER_LABEL: distinct_label(ledger.table)}
        api.call(f"label {target.id} with its ledger", api.client.update_table, table, ["labels"])

    retry_if_stale(add_label, f"{target.id}, so its label for the ledger could not be set")
