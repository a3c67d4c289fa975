"""Erases people from a BigQuery table."""

from __future__ import annotations

import datetime as dt
import secrets
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.tables import fields_of, filter_column, find_table
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError, RetriableError, refuse_text
from airflow_provider_connect.patience import FROM_NONE, Patience, doubling_pauses
from airflow_provider_connect.sinks._bigquery.erase_list import (
    ADDED_LIST_FIELDS,
    LIST_FIELDS,
    MAX_DIGESTS_PER_VERSION,
    erase_list_table,
    extend_list_script,
)
from airflow_provider_connect.sinks._bigquery.erasing.script import (
    EraseSearch,
    MatchCount,
    SearchedTable,
    count_query,
    delete_tombstones_script,
    erase_script,
    require_script_length,
    rows_after_erase,
)
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger, ensure_ledger
from airflow_provider_connect.sinks._bigquery.names import legal_names
from airflow_provider_connect.sinks._bigquery.partitions import row_partition_sql
from airflow_provider_connect.sinks._bigquery.script import MAX_SCRIPT_BYTES, RESERVED_BYTES
from airflow_provider_connect.sinks._bigquery.spans import has_span_column
from airflow_provider_connect.sinks._bigquery.tables import ensure_table
from airflow_provider_connect.sinks._bigquery.target import PreparedTarget, has_delete_marks
from airflow_provider_connect.sinks._bigquery.template_tables import TemplateTables
from airflow_provider_connect.sinks._bigquery.turns import ASSUMED_PUBLISHERS, run_in_turn
from airflow_provider_connect.stage.erase_list import EraseList, Erasure, ShapingDigest, erase_run, require_integers

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sink import LedgerRow
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions
    from airflow_provider_connect.sinks._bigquery.tables import TargetTables
    from airflow_provider_connect.window import SourceKind

MAX_DAYS_PER_TRANSACTION = 300
"""Most days of one transaction, whose script may have 1 MB."""
MAX_PARTITIONS_PER_TRANSACTION = 4_000
"""Most partitions that one transaction changes over all tables, except for a single day. BigQuery's limit of a job:
https://cloud.google.com/bigquery/quotas#partitioned_tables (2026-11).
"""
_JOB = f"connect_erase_{'0' * 32}"
"""Job id with zeros for its random part."""
_NUMBERS = ("INTEGER", "NUMERIC", "BIGNUMERIC")
"""Types whose whole numbers have a unique text. Fractions identify no person."""
_TRIES = 20
_PAUSES = doubling_pauses(0.5, 10.0)


@dataclass(frozen=True)
class TableEraser:
    """Eraser by one column, from one stream's table or all tables of its template.

    One transaction changes a day in all tables. After a kill, the next attempt erases the remaining days.
    """

    api: BigQueryApi
    tables: TargetTables
    ledger: BigQueryLedger
    column: str

    def count_rows(self, values: Sequence[str]) -> dict[dt.date, int]:
        rows: dict[dt.date, int] = {}
        for search in self._searches(values):
            for day, day_count in self._count(search).items():
                rows[day] = rows.get(day, 0) + day_count.matching
        return dict(sorted(rows.items()))

    def erase(self, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest) -> Erasure:
        self._searches(values)  # validates before any change
        target, ledger = self.tables.target, self.tables.ledger
        replaces_whole = self.tables.options.replaces_whole(kind)
        self.ledger.erased()  # a lost list must be detected before an empty table takes its name
        ensure_ledger(self.api, ledger, target, self.ledger.key, "replace", replaces_whole=replaces_whole)
        ensure_table(
            self.api,
            erase_list_table(target),
            LIST_FIELDS,
            cluster_by=("target", "connector", "stream"),
            description=f"Keyed digests of the values whose rows are kept out of {target.id}. Do not change by hand.",
            added_later=ADDED_LIST_FIELDS,
        )
        erased = self._extend_list(values, shaping)
        self._delete_tombstones(values)
        rows: dict[dt.date, int] = {}
        # A template's tables are read after the list has grown: later tables get no such rows.
        for search in self._searches(values):
            for day, deleted in self._delete_rows(search, erased, replaces_whole=replaces_whole):
                rows[day] = rows.get(day, 0) + deleted
        return Erasure(target.id, self.column, len(set(values)), dict(sorted(rows.items())), erased.version)

    def _searches(self, values: Sequence[str]) -> list[EraseSearch]:
        refuse_text("values", values)
        options, target = self.tables.options, self.tables.target
        if problem := write_mode_problem(options, self.column):
            raise ConfigError(
                f"{problem}. Delete them from {target.id} by hand, after the source has deleted them, or load the "
                "table again with write_mode='replace'"
            )
        self.api.locate(target)
        table = find_table(self.api, target)
        if table is None:
            raise ConfigError(f"table {target.id} does not exist, so nothing can be erased from it")
        fields = {field["name"]: field for field in fields_of(table)}
        name = legal_names([self.column], fields)[self.column]
        if name not in fields:
            raise ConfigError(
                f"table {target.id} has no column {self.column!r}; {suggest_nearest(self.column, fields)}"
            )
        if fields[name]["type"] in _NUMBERS:
            require_integers(values, self.column, fields[name]["type"])
        tables = tuple(
            _searched_table(table_ref, metadata, name, softly=options.deletes == "soft")
            for table_ref, metadata in self._tables_with_rows(table).items()
        )
        unique_values = tuple(dict.fromkeys(values))
        value_groups = (
            unique_values[start : start + MAX_DIGESTS_PER_VERSION]
            for start in range(0, len(unique_values), MAX_DIGESTS_PER_VERSION)
        )
        salt = secrets.token_hex(16)
        return [EraseSearch(target, tables, salt, value_group) for value_group in value_groups]

    def _tables_with_rows(self, target: Any) -> Mapping[TableRef, Any]:
        if self.tables.options.tables is None:
            return {self.tables.target: target}
        known_tables = frozenset(self.ledger.tables_with_rows())
        return TemplateTables(self.api, self.tables, PreparedTarget([], None, (), target), known_tables).find_known(
            known_tables
        )

    def _count(self, search: EraseSearch) -> dict[dt.date, MatchCount]:
        if not search.tables:
            return {}
        action = f"count rows to erase in {search.target.id}"
        sql = count_query(search)
        require_script_length(sql, search.target)
        rows, _ = self.api.query(sql, action=action, labels={"connect": "erase"})
        if tables_without_day := sorted({search.target.sibling(row["name"]).id for row in rows if row["day"] is None}):
            raise ConfigError(
                f"table {tables_without_day[0]} has rows without a day, which this sink did not write. Delete them by "
                "hand first"
            )
        return sum_by_day(rows)

    def _extend_list(self, values: Sequence[str], shaping: ShapingDigest) -> EraseList:
        patience = Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=_TRIES)
        ledger, target, key = self.tables.ledger, self.tables.target, self.ledger.key
        while True:
            current = self.ledger.erased()
            extended = current.with_values(self.column, values, shaping)
            if extended is current:
                return current
            added = sorted({*extended.digests} - {*current.digests})[:MAX_DIGESTS_PER_VERSION]
            script = extend_list_script(ledger, target, key, new_list=extended, added_digests=added)
            answer = self._run(script, f"extend the erase list of {target.id}")
            if not answer["fences"]:
                raise RetriableError(
                    f"ledger {ledger.id} has lost the fence row of {key}. Try again: the next try restores it"
                )
            # Another erase was faster: read its version of the list and extend that one.
            if int(answer["erased"]) != current.version and not patience.wait_and_retry():
                raise RetriableError(f"others keep changing the erase list of {key} in {target.id}. Try again")

    def _delete_tombstones(self, values: Sequence[str]) -> None:
        tombstones = self.tables.tombstones
        if self.tables.options.delete_where is None or (table := find_table(self.api, tombstones)) is None:
            return
        for search in self._searches(values):
            columns = [searched.column for searched in search.tables if searched.column is not None]
            searched_tables = tuple(_searched_table(tombstones, table, name) for name in columns)
            self._run(
                delete_tombstones_script(replace(search, tables=searched_tables)),
                f"erase deleted keys from {tombstones.id}",
            )

    def _delete_rows(
        self, search: EraseSearch, erased: EraseList, *, replaces_whole: bool
    ) -> Iterator[tuple[dt.date, int]]:
        patience = Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=_TRIES)
        while True:
            # Read before the rows, so that the script detects a publish between the two reads.
            newest = self._newest_rows()
            if not (day_counts := self._count(search)):
                return
            transaction_days = days_of_one_transaction(day_counts)
            self._require_published(transaction_days, newest)
            token = f"erase{erased.version}-{uuid.uuid4().hex[:16]}"
            while True:
                script = self._script(search, transaction_days, newest, erased, token, replaces_whole=replaces_whole)
                # With a reserve for the job's name, which each day's row has twice.
                if len(transaction_days) == 1 or len(script(_JOB).encode()) <= MAX_SCRIPT_BYTES - RESERVED_BYTES:
                    break
                transaction_days = dict(list(transaction_days.items())[: len(transaction_days) // 2])
            if self._run_erase(script, transaction_days, token):
                yield from ((day, day_count.matching) for day, day_count in transaction_days.items())
            elif not patience.wait_and_retry():
                raise RetriableError(
                    f"other publishers keep changing {search.target.id}, so some rows are not erased yet. Try again"
                )

    def _newest_rows(self) -> dict[dt.date, list[LedgerRow]]:
        days = self.ledger.days()
        rows: dict[dt.date, list[LedgerRow]] = {}
        for row in self.ledger.span_rows(min(days), max(days)) if days else ():
            rows.setdefault(row.day, []).append(row)
        return rows

    def _require_published(
        self, day_counts: Mapping[dt.date, MatchCount], newest: Mapping[dt.date, list[LedgerRow]]
    ) -> None:
        if unpublished_days := sorted(str(day) for day in day_counts.keys() - newest.keys()):
            # A generation would make an unpublished day count as loaded.
            raise ConfigError(
                f"table {self.tables.target.id} has rows of days that this stream never published "
                f"({', '.join(unpublished_days[:5])}): delete them by hand first"
            )

    def _script(
        self,
        search: EraseSearch,
        day_counts: Mapping[dt.date, MatchCount],
        newest: Mapping[dt.date, list[LedgerRow]],
        erased: EraseList,
        token: str,
        *,
        replaces_whole: bool,
    ) -> Callable[[str], str]:
        run = erase_run(erased.version)
        # Only a later snapshot matters, because it replaces these rows.
        last_day = max(newest) if replaces_whole else None
        replaced = day_counts
        if last_day is not None and self.tables.options.write_mode == "merge":
            # Rows of earlier days belong to the newest snapshot too, whose ledger row counts all of them.
            matching = sum(day_count.matching for day_count in day_counts.values())
            deleted = sum(day_count.matching_deleted for day_count in day_counts.values())
            rows_left = max(0, newest[last_day][0].rows - (matching - deleted))
            replaced = {last_day: MatchCount(matching, rows_left, matching_deleted=deleted)}
        followed = [row for day in {*day_counts, *([] if last_day is None else [last_day])} for row in newest[day]]

        def script(job_id: str) -> str:
            job = {"reference": job_id, "link": self.api.console_link(job_id)}
            rows = [
                row
                for day, day_count in replaced.items()
                for row in rows_after_erase(newest[day], day_count, token=token, run=run)
            ]
            rows = [row.model_copy(update=job) for row in rows]
            return erase_script(
                search,
                self.tables.ledger,
                self.ledger.key,
                day_counts=day_counts,
                new_rows=rows,
                followed_rows=followed,
                list_version=erased.version,
                last_day=last_day,
            )

        return script

    def _run_erase(self, script: Callable[[str], str], day_counts: Mapping[dt.date, MatchCount], token: str) -> bool:
        outcome = self._run(script, f"erase rows from {self.tables.target.id}")["outcome"]
        if outcome == "unfenced":
            raise RetriableError(
                f"ledger {self.tables.ledger.id} has lost the fence row of {self.ledger.key}. "
                "Try again: the next try restores it"
            )
        if outcome == "erased":
            return True
        # BigQuery may have run the script twice, if its first job ended with an error of BigQuery's own.
        days = {min(day_counts), max(self.ledger.days())}
        return any(self.ledger.published(day, token) is not None for day in days)

    def _run(self, script: str | Callable[[str], str], action: str) -> dict[str, Any]:
        def run() -> dict[str, Any]:
            job_id = f"{_JOB[:-32]}{uuid.uuid4().hex}"
            require_script_length(script if isinstance(script, str) else script(job_id), self.tables.target)
            [answer], _ = self.api.query(script, action=action, labels={"connect": "erase"}, job_id=job_id)
            return dict(answer)

        return run_in_turn(action, run, lambda: ASSUMED_PUBLISHERS)


def write_mode_problem(options: BigQueryOptions, column: str) -> str | None:
    if options.write_mode == "append":
        return (
            "write_mode='append': the table may hold rows of other streams and of other loads, and the rows of "
            "this stream cannot be distinguished"
        )
    if options.write_mode == "merge" and column not in options.key:
        # An erased person's row may have replaced or deleted another person's row of the same key.
        return (
            f"write_mode='merge' with key={options.key!r}: by column {column!r}, which is not in the key, later "
            "loads would leave out rows that replace or delete other people's rows of the same key, and these "
            "would come back"
        )
    return None


def _searched_table(table_ref: TableRef, table: Any, column: str, *, softly: bool = False) -> SearchedTable:
    field = next((field for field in fields_of(table) if field["name"] == column), None)
    has_spans = has_span_column(table)
    if field is None:
        return SearchedTable(table_ref, None, filter_column(table), row_partition_sql(table), has_spans=has_spans)
    if field["type"] not in ("STRING", *_NUMBERS) or field.get("mode") not in ("NULLABLE", "REQUIRED"):
        type_text = f"{field['type']} {field.get('mode')}"
        raise ConfigError(
            f"table {table_ref.id}: column {column!r} is {type_text}, but must be one STRING or whole number a row"
        )
    marked = softly and has_delete_marks(table, ())
    return SearchedTable(
        table_ref, column, filter_column(table), row_partition_sql(table), marked, field["type"], has_spans
    )


def sum_by_day(rows: Iterable[Mapping[str, Any]]) -> dict[dt.date, MatchCount]:
    totals: dict[dt.date, MatchCount] = {}
    for row in rows:
        total = totals.get(row["day"], MatchCount(0, 0, 0))
        name, matching, rows_left = row["name"], int(row["gone"]), int(row["rows_left"])
        totals[row["day"]] = MatchCount(
            matching=total.matching + matching,
            others=total.others + rows_left,
            partitions=total.partitions + (int(row["partitions"]) if matching else 0),
            matching_tables=(*total.matching_tables, name) if matching else total.matching_tables,
            other_tables=(*total.other_tables, name) if rows_left else total.other_tables,
            matching_deleted=total.matching_deleted + int(row.get("gone_deleted", 0)),
            spans={**total.spans, int(row["span"] or 0): (matching, rows_left)} if "span" in row else {},
        )
    return totals


def days_of_one_transaction(day_counts: Mapping[dt.date, MatchCount]) -> dict[dt.date, MatchCount]:
    """Return the first days that fit into one transaction, at least one."""
    first_days: dict[dt.date, MatchCount] = {}
    for day, day_count in list(day_counts.items())[:MAX_DAYS_PER_TRANSACTION]:
        if (
            first_days
            and day_count.partitions + sum(chosen_day_count.partitions for chosen_day_count in first_days.values())
            > MAX_PARTITIONS_PER_TRANSACTION
        ):
            break
        first_days[day] = day_count
    return first_days
