"""The ledger: a small table with a row for every publish and every confirmation, and one fence row for each stream.

A day's newest generation counts, and its last confirmation. A confirmation repeats the row of a publish, with who found
it unchanged and with one check more (:mod:`.decision`). Every publish, confirmation and erase of a stream
first changes its fence row (``day`` NULL, generation 0), so two of them cannot run at once; see :mod:`.script`. It also
has the version of the stream's erase list (:mod:`.erase_list`), and the definition in force
(:mod:`.ledger_rows`). Notes lie in a table beside it (:mod:`.notes`).

From the first preflight on, the target's label ``connect_ledger`` names its ledger. So a ledger that is gone or emptied
never looks like that of a new table, and no second ledger begins.

Each read is one query over one table, clustered by target, connector and stream.
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
    definition_in_force_of,
    increment_order,
    last_definition_query,
    ledger_row,
    stream_condition,
    target_condition,
    upgraded_ledger_sql,
)
from airflow_provider_connect.sinks._bigquery.names import distinct_label
from airflow_provider_connect.sinks._bigquery.notes import read_notes
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
    """What one stream has published into one table.

    :param api: to BigQuery; sends nothing before the first read.
    :param on_published_day: with ``refuse``, :meth:`published` raises for a day that another intent has published:
        append mode then refuses it before the poll. Other modes use ``append``.
    :param replaces_whole: whether a snapshot replaces what the table shows, of whatever day that is.
    """

    api: BigQueryApi
    target: TableRef
    ledger: TableRef
    key: StreamKey
    on_published_day: Literal["refuse", "append"] = "append"
    replaces_whole: bool = False

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return a day's newest publish, None if there is none."""
        rows = self._read_rows(f"AND {LEDGER}.day = {literal(day)} ORDER BY {NEWEST_FIRST} LIMIT 1")
        return ledger_row(rows[0]) if rows else None

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return each day's newest publish, by one query."""
        rows = self._read_rows(
            f"AND {LEDGER}.day BETWEEN {literal(first)} AND {literal(last)}\n"
            f"ORDER BY {column_list(('day', 'generation', 'checks'), LEDGER)}"
        )
        return list({row["day"]: ledger_row(row) for row in rows}.values())

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the day's newest publish; the stream's newest snapshot, or increment, where that is followed."""
        if kind == "increment":
            return self._newest_increment(day)
        if kind == "day" or not self.replaces_whole:
            return self.row(day)
        rows = self._read_rows(f"AND {LEDGER}.day IS NOT NULL ORDER BY {LEDGER}.day DESC, {NEWEST_FIRST} LIMIT 1")
        return ledger_row(rows[0]) if rows else None

    def _newest_increment(self, day: dt.date) -> LedgerRow | None:
        rest = f"AND {LEDGER}.day IS NOT NULL ORDER BY {increment_order(day)}, {NEWEST_FIRST} LIMIT 1"
        try:
            rows = self._read_rows(rest)
        except ColumnError:  # no preflight has brought the ledger up to date yet, so there is none
            return self.row(day)
        return ledger_row(rows[0]) if rows else None

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return what was published of a day for one intent, even if a newer publish followed.

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
        """Return every published day."""
        rows = self._read(f"SELECT DISTINCT {LEDGER}.day", f"AND {LEDGER}.day IS NOT NULL")
        return DaySet.from_dates(row["day"] for row in rows)

    def tables_with_rows(self, day: dt.date | None = None, generation: int = 0) -> dict[str, bool]:
        """Return every table of a template that ever had rows, and whether one generation of a day put some there."""
        there = "FALSE" if day is None else f"{LEDGER}.day = {literal(day)} AND {LEDGER}.generation = {generation}"
        select = f"SELECT name, LOGICAL_OR({there}) AS there"
        joined = f", UNNEST({LEDGER}.tables) AS name"
        rows = self._read(select, f"AND {LEDGER}.day IS NOT NULL GROUP BY name", joined=joined)
        return {row["name"]: bool(row["there"]) for row in rows}

    def erased(self) -> EraseList:
        """Return whose rows are kept out of the target, by one query; by two once somebody is erased.

        :raises ConfigError: the list is gone, or was changed by hand.
        """
        try:
            rows = self._read(
                f"SELECT MAX({LEDGER}.erased) AS version",
                f"AND {LEDGER}.day IS NULL",
                whose=target_condition(self.target),
            )
        except ColumnError:  # no preflight has brought the ledger up to date yet
            return EraseList()
        version = int(rows[0]["version"] or 0) if rows else 0
        return read_erase_list(self.api, self.target, version)

    def definition_in_force(self) -> DefinitionInForce | None:
        """Return the definition of the stream's newest publish, by one query for its fence row."""
        try:
            rows = self._read(f"SELECT {FENCE_COLUMNS}", f"AND {LEDGER}.day IS NULL")
        except ColumnError:  # no preflight has brought the ledger up to date yet
            return None
        return definition_in_force_of(rows[0]) if rows else None

    def notes(self) -> list[LedgerNote]:
        """Return the stream's notes, by one call that is not a query."""
        return read_notes(self.api, self.target, self.key)

    def _read_rows(self, rest: str) -> list[dict[str, Any]]:
        for source in (self.ledger.sql, upgraded_ledger_sql(self.ledger, MISSING_IN_RECENT)):
            with suppress(ColumnError):  # no preflight has brought the ledger up to date yet
                return self._read(f"SELECT {LEDGER_COLUMNS}", rest, source=source)
        return self._read(f"SELECT {LEDGER_COLUMNS}", rest, source=upgraded_ledger_sql(self.ledger, MISSING_IN_OLDEST))

    def _read(
        self, select: str, rest: str, *, joined: str = "", whose: str | None = None, source: str | None = None
    ) -> list[dict[str, Any]]:
        rows_of = f"{source or self.ledger.sql} AS {LEDGER}{joined}"
        sql = f"{select} FROM {rows_of} WHERE {whose or stream_condition(self.target, self.key)} {rest}"
        try:
            # A query in the wrong location finds no table, and then the ledger would look empty.
            self.api.locate(self.ledger)
        except MissingError:
            return []  # without its dataset the target is gone, too
        try:
            rows, _ = self.api.query(sql, action=f"read ledger {self.ledger.id}", labels={"connect": "ledger"})
        except MissingError:
            _check_unpublished(self.api, self.target, self.ledger)
            return []
        return rows


def _check_unpublished(api: BigQueryApi, target: TableRef, ledger: TableRef) -> None:
    """Check that a ledger that a query did not find was never made, or was deleted with its dataset.

    :raises ConfigError: the target names a ledger, so it is lost.
    :raises RetriableError: the ledger exists after all.
    """
    name = f"{ledger.project}.{ledger.dataset}"
    try:
        api.call(f"read dataset {name}", api.client.get_dataset, name, retry_missing_seconds=SETTLE_SECONDS)
    except MissingError:
        return
    if find_table(api, ledger) is not None:
        raise RetriableError(f"ledger {ledger.id} exists, but a query did not find it: try again")
    named = _named_ledger(find_table(api, target))
    if named is not None:
        _check_same(named, target, ledger)
        raise _lost(target, ledger)


def _named_ledger(table: Any) -> str | None:
    return None if table is None else (table.labels or {}).get(LEDGER_LABEL)


def _check_same(named: str, target: TableRef, ledger: TableRef) -> None:
    if named != distinct_label(ledger.table):
        raise ConfigError(
            f"label {LEDGER_LABEL} of table {target.id} names ledger {named!r}, not {ledger.table!r}: the table is a "
            "copy or was renamed, and that ledger knows its original name. Load into the original; or, to load every "
            f"day again: bq update --clear_label {LEDGER_LABEL} "
            f"{target.project}:{target.dataset}.{target.table}"
        )


def _lost(target: TableRef, ledger: TableRef) -> ConfigError:
    old_table = f"{ledger.project}:{ledger.dataset}.{ledger.table}"
    return ConfigError(
        f"ledger {ledger.id} of table {target.id} is gone, or holds nothing about it, so the published days are "
        f"unknown. Restore it (bq cp '{old_table}@<milliseconds since 1970>' {old_table}) within the dataset's "
        "time travel window: seven days by default, two at least. "
        f"Or, to forget it and load every day again: bq update --clear_label {LEDGER_LABEL} "
        f"{target.project}:{target.dataset}.{target.table}"
    )


def append_refused_error(key: StreamKey, day: dt.date, target: TableRef, generation: int) -> ConfigError:
    """Return the error for a day that append mode would write twice."""
    return ConfigError(
        f"{key} {day}: {target.id} already has this day (generation {generation}), and write_mode='append' would "
        "double it. Use write_mode='replace', or set on_published_day='append' to double it"
    )


def foreign_rows_error(key: StreamKey, target: TableRef, ledger: TableRef) -> ConfigError:
    """Return the error for a table that is replaced, by day or whole, and shared with another stream."""
    return ConfigError(
        f"{key}: ledger {ledger.id} says that another stream has published into {target.id}, whose rows "
        "would be deleted: give each stream a table of its own"
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
    """Make the ledger table and this stream's fence row if they are missing; name the ledger in the target's label.

    Once a job, three reads and a query. Two jobs may both insert a fence row, which does no harm: a publish changes
    all. A ledger that was restored to a time before an erase gets the version of the erase list back, and a fence row
    that was lost gets the definition of the newest publish.

    :param target: must exist.
    :return: the version of the target's erase list.
    :raises ConfigError: the table of that name is not a ledger; the ledger is lost; the target has another one; or
        ``write_mode="replace"``, or a snapshot that replaces the whole, would delete what another stream has published
        into the target.
    """
    named = _named_ledger(find_table(api, target))
    if named is not None:
        _check_same(named, target, ledger)
        if find_table(api, ledger) is None:
            raise _lost(target, ledger)
    ensure_table(
        api,
        ledger,
        LEDGER_FIELDS,
        cluster_by=("target", "connector", "stream"),
        description="What airflow-provider-connect has published into this dataset's tables. Do not change by hand.",
        added_later=[field["name"] for field in ADDED_FIELDS],
    )
    mine = stream_condition(target, key)
    # The list decides, whatever a fence row says that was lost, or restored: whom it names is kept out.
    erased = "CAST(NULL AS INT64)" if find_table(api, erase_list_table(target)) is None else newest_version_sql(target)
    [found], _ = api.query(
        f"SELECT COUNTIF({mine} AND {LEDGER}.day IS NULL) AS fences,\n"
        f"  COUNTIF(NOT ({mine}) AND {LEDGER}.day IS NOT NULL) AS strangers,\n"
        f"  COUNT(*) AS entries, MAX(IF({LEDGER}.day IS NULL, {LEDGER}.erased, NULL)) AS erased, {erased} AS listed\n"
        f"FROM {ledger.sql} AS {LEDGER} WHERE {LEDGER}.target = {literal(target.id)}",
        action=f"look for the fence row of {key} in {ledger.id}",
        labels={"connect": "preflight"},
    )
    if named is not None and not found["entries"]:
        raise _lost(target, ledger)
    if (write_mode == "replace" or replaces_whole) and found["strangers"]:
        raise foreign_rows_error(key, target, ledger)
    if not found["fences"]:
        values = f"{literal(target.id)}, {literal(key.connector)}, {literal(key.stream)}, {literal(None, 'DATE')}, 0"
        api.query(
            f"INSERT INTO {ledger.sql} (target, connector, stream, day, generation, erased, definition, run)\n"
            f"SELECT {values}, {erased}, {LEDGER}.definition, {LEDGER}.run\n"
            f"FROM (SELECT 1 AS one) AS connect_one\n"
            f"LEFT JOIN ({last_definition_query(ledger, mine)}) AS {LEDGER} ON connect_one.one = {LEDGER}.one",
            action=f"put the fence row of {key} into {ledger.id}",
            labels={"connect": "preflight"},
        )
    elif int(found["listed"] or 0) > int(found["erased"] or 0):
        api.query(
            raise_version_statement(ledger, target, int(found["listed"])),
            action=f"put the version of the erase list of {target.id} back into {ledger.id}",
            labels={"connect": "preflight"},
        )
    if named is None:
        # Last: a label means that the fence row exists.
        _name_ledger(api, target, ledger)
    return max(int(found["listed"] or 0), int(found["erased"] or 0))


def _name_ledger(api: BigQueryApi, target: TableRef, ledger: TableRef) -> None:
    def name() -> None:
        table = api.call(
            f"read table {target.id}", api.client.get_table, target.id, retry_missing_seconds=SETTLE_SECONDS
        )
        named = _named_ledger(table)
        if named is not None:
            _check_same(named, target, ledger)
            return
        table.labels = {**table.labels, LEDGER_LABEL: distinct_label(ledger.table)}
        api.call(f"label {target.id} with its ledger", api.client.update_table, table, ["labels"])

    retry_if_stale(name, f"{target.id}: it could not be labelled with its ledger")
