"""Takes people's rows out of a BigQuery table: the erase list first, then their rows, as a generation of each day.

From the moment that the list has them, nobody can publish their rows any more: a publish that was polled before is
refused, and polls again. So the rows of a day can only become fewer from there on.
"""

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
    MOST_AT_ONCE,
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
    row_after_erase,
)
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger, ensure_ledger
from airflow_provider_connect.sinks._bigquery.names import legal_names
from airflow_provider_connect.sinks._bigquery.partitions import row_partition_sql
from airflow_provider_connect.sinks._bigquery.script import MAX_SCRIPT_BYTES, RESERVED_BYTES
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

DAYS_AT_ONCE = 300
"""How many days one transaction takes rows out of: each has a ledger row in its script, which may have 1 MB."""
PARTITIONS_AT_ONCE = 4_000
"""How many partitions one transaction changes, in all of its tables, unless one day is in more: it is what one job of
BigQuery's changes: https://cloud.google.com/bigquery/quotas#partitioned_tables
(2026-11)."""
_JOB = f"connect_erase_{'0' * 32}"
"""What the names of jobs look like."""
_NUMBERS = ("INTEGER", "NUMERIC", "BIGNUMERIC")
"""Types whose whole numbers have one text; a fraction is nobody's."""
_TRIES = 20
_PAUSES = doubling_pauses(0.5, 10.0)


@dataclass(frozen=True)
class TableEraser:
    """Erases from one stream's table, or from all tables of its template, by one column.

    The erase list and the ledger are then the head's, and a day is rewritten in all of its tables at once. An attempt
    that is killed leaves the list and the days that it has done. The next one does the rest.
    """

    api: BigQueryApi
    tables: TargetTables
    ledger: BigQueryLedger
    column: str

    def count_rows(self, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the rows with these values, by day."""
        rows: dict[dt.date, int] = {}
        for wanted in self._wanted(values):
            for day, counted in self._count(wanted).items():
                rows[day] = rows.get(day, 0) + counted.matching
        return dict(sorted(rows.items()))

    def erase(self, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest) -> Erasure:
        """Put values on the list, and take their rows out of every day."""
        self._wanted(values)  # before anything is changed
        target, ledger = self.tables.target, self.tables.ledger
        replaces_whole = self.tables.options.replaces_whole(kind)
        self.ledger.erased()  # a list that is lost must be found before an empty table has its name
        ensure_ledger(self.api, ledger, target, self.ledger.key, "replace", replaces_whole=replaces_whole)
        ensure_table(
            self.api,
            erase_list_table(target),
            LIST_FIELDS,
            cluster_by=("target", "connector", "stream"),
            description=f"Whose rows are kept out of {target.id}, as keyed digests. Do not change by hand.",
            added_later=ADDED_LIST_FIELDS,
        )
        erased = self._listed(values, shaping)
        self._forget_deletions(values)
        rows: dict[dt.date, int] = {}
        # A template's tables are read after the list: one that is made from now on has no rows of theirs.
        for wanted in self._wanted(values):
            for day, gone in self._taken_out(wanted, erased, replaces_whole=replaces_whole):
                rows[day] = rows.get(day, 0) + gone
        return Erasure(target.id, self.column, len(set(values)), dict(sorted(rows.items())), erased.version)

    def _wanted(self, values: Sequence[str]) -> list[EraseSearch]:
        """Return whose rows are looked for, in as many pieces as fit into a script each.

        :raises ConfigError: there is no such table or column, or it cannot be erased from.
        """
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
            raise ConfigError(f"there is no table {target.id}: nothing can be erased from it")
        fields = {field["name"]: field for field in fields_of(table)}
        name = legal_names([self.column], fields)[self.column]
        if name not in fields:
            raise ConfigError(
                f"table {target.id} has no column {self.column!r}; {suggest_nearest(self.column, fields)}"
            )
        if fields[name]["type"] in _NUMBERS:
            require_integers(values, self.column, fields[name]["type"])
        tables = tuple(
            _searched(place, each, name, softly=options.deletes == "soft")
            for place, each in self._holding(table).items()
        )
        every = tuple(dict.fromkeys(values))
        pieces = (every[start : start + MOST_AT_ONCE] for start in range(0, len(every), MOST_AT_ONCE))
        salt = secrets.token_hex(16)
        return [EraseSearch(target, tables, salt, piece) for piece in pieces]

    def _holding(self, target: Any) -> Mapping[TableRef, Any]:
        """Return the tables that hold the stream's rows, each with its metadata.

        :raises ConfigError: one of a template is gone, and could be restored with rows of theirs; or it is foreign.
        """
        if self.tables.options.tables is None:
            return {self.tables.target: target}
        known = frozenset(self.ledger.tables_with_rows())
        return TemplateTables(self.api, self.tables, PreparedTarget([], None, (), target), known).find_known(known)

    def _count(self, wanted: EraseSearch) -> dict[dt.date, MatchCount]:
        if not wanted.tables:
            return {}
        doing = f"count rows to erase in {wanted.target.id}"
        sql = count_query(wanted)
        require_script_length(sql, wanted.target)
        rows, _ = self.api.query(sql, action=doing, labels={"connect": "erase"})
        if strange := sorted({wanted.target.sibling(row["name"]).id for row in rows if row["day"] is None}):
            raise ConfigError(
                f"table {strange[0]} has rows without a day, which this sink did not write: delete them by hand first"
            )
        return sum_by_day(rows)

    def _listed(self, values: Sequence[str], shaping: ShapingDigest) -> EraseList:
        """Put values on the target's list; return the list that has them all."""
        patience = Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=_TRIES)
        ledger, target, key = self.tables.ledger, self.tables.target, self.ledger.key
        while True:
            listed = self.ledger.erased()
            longer = listed.with_values(self.column, values, shaping)
            if longer is listed:
                return listed
            added = sorted({*longer.digests} - {*listed.digests})[:MOST_AT_ONCE]
            script = extend_list_script(ledger, target, key, new_list=longer, added_digests=added)
            answer = self._run(script, f"lengthen the erase list of {target.id}")
            if not answer["fences"]:
                raise RetriableError(
                    f"ledger {ledger.id} has lost the fence row of {key}: try again, which puts it back"
                )
            # Somebody else's list first: then ours is of another version, and comes on top of theirs.
            if int(answer["erased"]) != listed.version and not patience.wait_and_retry():
                raise RetriableError(f"others keep changing the erase list of {key} in {target.id}: try again")

    def _forget_deletions(self, values: Sequence[str]) -> None:
        """Delete tombstones with these values: keys of deleted rows, which hold the values as the rows did.

        Nothing brings such a key back that they would have to keep out: all of its rows are on the list.
        """
        place = self.tables.tombstones
        if self.tables.options.delete_where is None or (table := find_table(self.api, place)) is None:
            return
        for wanted in self._wanted(values):
            names = [each.column for each in wanted.tables if each.column is not None]
            found = tuple(_searched(place, table, name) for name in names)
            self._run(delete_tombstones_script(replace(wanted, tables=found)), f"erase deleted keys from {place.id}")

    def _taken_out(
        self, wanted: EraseSearch, erased: EraseList, *, replaces_whole: bool
    ) -> Iterator[tuple[dt.date, int]]:
        """Yield each day with the number of rows that were taken out of it."""
        patience = Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=_TRIES)
        while True:
            # Before the rows: what is published between the two must be found when they are taken out.
            newest = self._newest()
            if not (counted := self._count(wanted)):
                return
            some = days_of_one_transaction(counted)
            self._require_published(some, newest)
            token = f"erase{erased.version}-{uuid.uuid4().hex[:16]}"
            while True:
                script = self._script(wanted, some, newest, erased, token, replaces_whole=replaces_whole)
                # With room for the end of a job's name, which each day's row has twice.
                if len(some) == 1 or len(script(_JOB).encode()) <= MAX_SCRIPT_BYTES - RESERVED_BYTES:
                    break
                some = dict(list(some.items())[: len(some) // 2])
            if self._rewritten(script, some, token):
                yield from ((day, each.matching) for day, each in some.items())
            elif not patience.wait_and_retry():
                raise RetriableError(f"others keep publishing into {wanted.target.id}: the rest is to be erased yet")

    def _newest(self) -> dict[dt.date, LedgerRow]:
        days = self.ledger.days()
        return {row.day: row for row in self.ledger.between(min(days), max(days))} if days else {}

    def _require_published(self, counted: Mapping[dt.date, MatchCount], newest: Mapping[dt.date, LedgerRow]) -> None:
        if strange := sorted(str(day) for day in counted.keys() - newest.keys()):
            # A generation of a day that nobody published would count as loaded.
            raise ConfigError(
                f"table {self.tables.target.id} has rows of days that this stream never published "
                f"({', '.join(strange[:5])}): delete them by hand first"
            )

    def _script(
        self,
        wanted: EraseSearch,
        counted: Mapping[dt.date, MatchCount],
        newest: Mapping[dt.date, LedgerRow],
        erased: EraseList,
        token: str,
        *,
        replaces_whole: bool,
    ) -> Callable[[str], str]:
        """Return what makes the script that takes rows out of days, by the name of its job.

        :param newest: by day, the ledger's rows when they were counted.
        """
        run = erase_run(erased.version)
        # What else is published matters only where it takes the place of these rows: a later snapshot.
        last_day = max(newest) if replaces_whole else None
        replaced = counted
        if last_day is not None and self.tables.options.write_mode == "merge":
            # Rows of earlier days belong to the newest snapshot, too, and its row in the ledger counts all of them.
            gone = sum(each.matching for each in counted.values())
            deleted = sum(each.matching_deleted for each in counted.values())
            left = max(0, newest[last_day].rows - (gone - deleted))
            replaced = {last_day: MatchCount(gone, left, matching_deleted=deleted)}
        followed = [newest[day] for day in {*counted, *([] if last_day is None else [last_day])}]

        def script(job_id: str) -> str:
            job = {"reference": job_id, "link": self.api.console_link(job_id)}
            rows = [row_after_erase(newest[day], each, token=token, run=run) for day, each in replaced.items()]
            rows = [row.model_copy(update=job) for row in rows]
            return erase_script(
                wanted,
                self.tables.ledger,
                self.ledger.key,
                day_counts=counted,
                new_rows=rows,
                followed_rows=followed,
                list_version=erased.version,
                last_day=last_day,
            )

        return script

    def _rewritten(self, script: Callable[[str], str], counted: Mapping[dt.date, MatchCount], token: str) -> bool:
        """Take rows out of days; return whether that was done, and nobody published one of them meanwhile."""
        outcome = self._run(script, f"erase rows from {self.tables.target.id}")["outcome"]
        if outcome == "unfenced":
            raise RetriableError(
                f"ledger {self.tables.ledger.id} has lost the fence row of {self.ledger.key}: try again, which puts it "
                "back"
            )
        if outcome == "erased":
            return True
        # BigQuery may have run the script twice, if its first job ended with an error of BigQuery's own.
        days = {min(counted), max(self.ledger.days())}
        return any(self.ledger.published(day, token) is not None for day in days)

    def _run(self, script: str | Callable[[str], str], doing: str) -> dict[str, Any]:
        def run() -> dict[str, Any]:
            job_id = f"{_JOB[:-32]}{uuid.uuid4().hex}"
            require_script_length(script if isinstance(script, str) else script(job_id), self.tables.target)
            [answer], _ = self.api.query(script, action=doing, labels={"connect": "erase"}, job_id=job_id)
            return dict(answer)

        return run_in_turn(doing, run, lambda: ASSUMED_PUBLISHERS)


def write_mode_problem(options: BigQueryOptions, column: str) -> str | None:
    """Say why rows cannot be erased from what is written so, by a column; None if they can."""
    if options.write_mode == "append":
        return (
            "write_mode='append': the table may hold rows of other streams and of other loads, and nobody knows which "
            "rows of a day this stream brought"
        )
    if options.write_mode == "merge" and column not in options.key:
        # A row of theirs may have replaced, or deleted, somebody else's with the same key.
        return (
            f"write_mode='merge' with key={options.key!r}: by column {column!r}, which is not in the key, later loads "
            "would leave out rows that replace or delete others' rows of the same key, and these would come back"
        )
    return None


def _searched(place: TableRef, table: Any, column: str, *, softly: bool = False) -> SearchedTable:
    """Return how rows are looked for in a table.

    :raises ConfigError: its column does not say whose a row is.
    """
    field = next((field for field in fields_of(table) if field["name"] == column), None)
    if field is None:
        return SearchedTable(place, None, filter_column(table), row_partition_sql(table))
    if field["type"] not in ("STRING", *_NUMBERS) or field.get("mode") not in ("NULLABLE", "REQUIRED"):
        what = f"{field['type']} {field.get('mode')}"
        raise ConfigError(f"table {place.id}: column {column!r} is {what}, not one STRING or whole number a row")
    marked = softly and has_delete_marks(table, ())
    return SearchedTable(place, column, filter_column(table), row_partition_sql(table), marked, field["type"])


def sum_by_day(rows: Iterable[Mapping[str, Any]]) -> dict[dt.date, MatchCount]:
    """Add up what the tables have of each day.

    :param rows: the answer to :func:`~.script.count_query`.
    """
    found: dict[dt.date, MatchCount] = {}
    for row in rows:
        before = found.get(row["day"], MatchCount(0, 0, 0))
        name, gone, left = row["name"], int(row["gone"]), int(row["rows_left"])
        found[row["day"]] = MatchCount(
            matching=before.matching + gone,
            others=before.others + left,
            partitions=before.partitions + (int(row["partitions"]) if gone else 0),
            matching_tables=(*before.matching_tables, name) if gone else before.matching_tables,
            other_tables=(*before.other_tables, name) if left else before.other_tables,
            matching_deleted=before.matching_deleted + int(row.get("gone_deleted", 0)),
        )
    return found


def days_of_one_transaction(day_counts: Mapping[dt.date, MatchCount]) -> dict[dt.date, MatchCount]:
    """Return as many of the days as one transaction can take rows out of; at least one.

    A day in too many partitions could not be published in one job either.
    """
    some: dict[dt.date, MatchCount] = {}
    for day, each in list(day_counts.items())[:DAYS_AT_ONCE]:
        if some and each.partitions + sum(one.partitions for one in some.values()) > PARTITIONS_AT_ONCE:
            break
        some[day] = each
    return some
