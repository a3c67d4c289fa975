"""Erasing as SQL: whose rows are looked for, and the transaction that takes them out of many days at once.

The values that are looked for stand in no query: a job's history keeps its text for half a year. What stands there is
SHA-256 of each, with a salt that this call alone has, which SQL can make of a row's value, too.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.clients.bigquery.sql import any_partition, column_list, literal, quoted, string_array
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER, PEOPLE, TARGET
from airflow_provider_connect.sinks._bigquery.ledger_rows import ledger_values, stream_condition
from airflow_provider_connect.sinks._bigquery.script import MAX_SCRIPT_BYTES
from airflow_provider_connect.sinks._bigquery.snapshot import IS_DELETED
from airflow_provider_connect.stage.counts import FILTERED, LATE_COUNTS
from airflow_provider_connect.stage.transform import ROWS_POLLED

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sink import LedgerRow, StreamKey

_DIGEST_CHARACTERS = 32
WHOLE_NUMBER_END = r"\.0*$"
"""The end of a whole number's text: none, as BigQuery writes it, or zeros behind the point."""


class MatchCount(NamedTuple):
    """What a day has.

    :param gone: its rows of those who are looked for.
    :param left: its other rows.
    :param partitions: in how many partitions the first are, at the most.
    :param within: names of the tables that have the first.
    :param staying: names of the tables that have the others.
    :param gone_deleted: how many of the first were soft-deleted already; of the others none is counted.
    """

    matching: int
    others: int
    partitions: int = 1
    matching_tables: tuple[str, ...] = ()
    other_tables: tuple[str, ...] = ()
    matching_deleted: int = 0


class SearchedTable(NamedTuple):
    """A table in which rows are looked for.

    :param column: says whose a row is; None where the table has no such column yet, so that its rows are nobody's.
    :param filter_column: the column that every query on the table must name; None if none.
    :param partition: SQL that tells the partitions of a day's rows apart; None if a day is in one.
    :param softly: whether it may have soft-deleted rows, which the ledger does not count.
    :param type: the column's.
    """

    table_ref: TableRef
    column: str | None
    filter_column: str | None = None
    partition_sql: str | None = None
    may_be_soft_deleted: bool = False
    column_type: str = "STRING"


@dataclass(frozen=True)
class EraseSearch:
    """Whose rows are looked for, and where.

    :param target: what the ledger is about: the table, or the head of several.
    :param salt: for this call alone.
    """

    target: TableRef
    tables: tuple[SearchedTable, ...]
    salt: str
    values: tuple[str, ...]

    @property
    def is_split(self) -> bool:
        """Whether the rows are in tables of a template."""
        return all(table.table_ref != self.target for table in self.tables)

    @property
    def digests_sql(self) -> str:
        """The digests of those who are looked for, as SQL."""
        digests = [_sha256(f"{self.salt}{value}") for value in self.values]
        return string_array(digest[:_DIGEST_CHARACTERS] for digest in digests)

    def digest_sql(self, table: SearchedTable) -> str:
        """Return SQL that makes such a digest of the text of a row's value; a table without the column has none."""
        if table.column is None:
            return literal(None)
        text = column_list([table.column], TARGET)
        if table.column_type != "STRING":
            # A whole number has the text of its digits, whatever scale its type has.
            text = f"REGEXP_REPLACE(CAST({text} AS STRING), {literal(WHOLE_NUMBER_END)}, '')"
        return f"LEFT(TO_HEX(SHA256(CONCAT({literal(self.salt)}, {text}))), {_DIGEST_CHARACTERS})"


def count_query(search: EraseSearch) -> str:
    """Return the query that looks at each day that has rows of theirs; ``wanted`` names at least one table.

    It answers with ``name``, ``day``, ``gone``, ``rows_left``, ``gone_deleted`` and ``partitions`` for each table that
    has rows of the day, theirs or not.
    """
    selects = "\n    UNION ALL ".join(_rows_of(search, table) for table in search.tables)
    # COALESCE: a comparison with NULL gives NULL, and a row without a value is nobody's. Rows without a value in the
    # partition's column have a partition of their own, which COUNT(DISTINCT …) leaves out.
    return (
        "SELECT r.name, r.day, COUNTIF(r.theirs) AS gone, COUNTIF(NOT r.theirs AND NOT r.dead) AS rows_left,\n"
        "  COUNTIF(r.theirs AND r.dead) AS gone_deleted,\n"
        "  1 + COUNT(DISTINCT IF(r.theirs, r.part, NULL)) AS partitions FROM (\n"
        "  SELECT r.name, r.day, r.part, r.dead,\n"
        f"    COALESCE(r.made IN UNNEST({search.digests_sql}), FALSE) AS theirs FROM (\n"
        f"    {selects}\n  ) AS r\n"
        ") AS r WHERE TRUE GROUP BY r.name, r.day\n"
        "QUALIFY SUM(COUNTIF(r.theirs)) OVER (PARTITION BY r.day) > 0 ORDER BY r.day, r.name"
    )


def _rows_of(wanted: EraseSearch, table: SearchedTable) -> str:
    made = wanted.digest_sql(table)
    dead = IS_DELETED if table.may_be_soft_deleted else "FALSE"
    part = literal(None) if table.partition_sql is None else f"CAST({table.partition_sql} AS STRING)"
    return (
        f"SELECT {literal(table.table_ref.table)} AS name, {TARGET}.day AS day, {made} AS made, {part} AS part, "
        f"{dead} AS dead\n"
        f"    FROM {table.table_ref.sql} AS {TARGET} WHERE {any_partition(table.filter_column, TARGET)}"
    )


def erase_script(
    search: EraseSearch,
    ledger: TableRef,
    key: StreamKey,
    *,
    day_counts: Mapping[dt.date, MatchCount],
    new_rows: Sequence[LedgerRow],
    followed_rows: Sequence[LedgerRow],
    list_version: int,
    last_day: dt.date | None = None,
) -> str:
    """Return the script that deletes rows of some days and counts a generation of each; it answers with ``outcome``.

    :param counted: what each of the days has.
    :param rows: the days' ledger rows to be.
    :param followed: those that they follow, and others that must stand. If one of them is not the newest of its day any
        more, nothing is changed.
    :param version: of the erase list that has these people.
    :param last_day: beyond which no day may be published, if any: a later snapshot has replaced these rows.
    """
    stream = stream_condition(search.target, key)
    later = "" if last_day is None else f" OR seen.last_day != {literal(last_day)}"
    states = string_array(f"{row.day} {row.generation} {row.checks}" for row in followed_rows)
    day_generation = f"CAST({LEDGER}.day AS STRING), ' ', CAST({LEDGER}.generation AS STRING)"
    changes = "".join(f"  {statement};\n" for statement in _deletes(search, day_counts))
    staying = {day: each.other_tables for day, each in day_counts.items()} if search.is_split else {}
    return f"""DECLARE outcome STRING;
DECLARE {PEOPLE} ARRAY<STRING> DEFAULT {search.digests_sql};
DECLARE seen STRUCT<fences INT64, erased INT64, last_day DATE, moved INT64>;
BEGIN TRANSACTION;
UPDATE {ledger.sql} AS {LEDGER} SET published_at = CURRENT_TIMESTAMP() WHERE {stream} AND {LEDGER}.day IS NULL;
SET seen = (
  SELECT AS STRUCT COUNTIF({LEDGER}.day IS NULL) AS fences, COALESCE(MAX({LEDGER}.erased), 0) AS erased,
    MAX({LEDGER}.day) AS last_day, (
    SELECT COUNTIF(newest.state NOT IN UNNEST({states})) FROM (
      SELECT CONCAT({day_generation}, ' ', CAST(COALESCE({LEDGER}.checks, 0) AS STRING)) AS state
      FROM {ledger.sql} AS {LEDGER}
      WHERE {stream} AND {LEDGER}.day IN ({", ".join(sorted({literal(row.day) for row in followed_rows}))})
      QUALIFY ROW_NUMBER() OVER (PARTITION BY {LEDGER}.day ORDER BY {LEDGER}.generation DESC, {LEDGER}.checks DESC) = 1
    ) AS newest
  ) AS moved
  FROM {ledger.sql} AS {LEDGER} WHERE {stream}
);
SET outcome = CASE
  WHEN seen.fences = 0 THEN 'unfenced'
  WHEN seen.erased < {list_version} OR seen.moved > 0{later} THEN 'overtaken'
  ELSE 'erased' END;
IF outcome = 'erased' THEN
{changes}  {_ledger_insert(search.target, ledger, key, new_rows, staying)};
END IF;
COMMIT TRANSACTION;
SELECT outcome;
"""


def delete_tombstones_script(search: EraseSearch) -> str:
    """Return the script that deletes all that tables have of theirs; it answers with ``outcome``."""
    deletes = "".join(
        f"DELETE FROM {table.table_ref.sql} AS {TARGET} WHERE {_theirs(search, table)};\n"
        for table in search.tables
        if table.column is not None
    )
    return f"DECLARE {PEOPLE} ARRAY<STRING> DEFAULT {search.digests_sql};\n{deletes}SELECT 'erased' AS outcome;\n"


def _theirs(wanted: EraseSearch, table: SearchedTable) -> str:
    return f"COALESCE({wanted.digest_sql(table)} IN UNNEST({PEOPLE}), FALSE)"


def _deletes(wanted: EraseSearch, counted: Mapping[dt.date, MatchCount]) -> Iterator[str]:
    """Yield a statement for each table that has rows of theirs."""
    for table in wanted.tables:
        days = [literal(day) for day, each in counted.items() if table.table_ref.table in each.matching_tables]
        if days and table.column is not None:
            yield (
                f"DELETE FROM {table.table_ref.sql} AS {TARGET}\n    WHERE {TARGET}.day IN ({', '.join(days)}) "
                f"AND {any_partition(table.filter_column, TARGET)}\n"
                f"    AND {_theirs(wanted, table)}"
            )


def _ledger_insert(
    target: TableRef,
    ledger: TableRef,
    key: StreamKey,
    rows: Sequence[LedgerRow],
    staying: Mapping[dt.date, Sequence[str]],
) -> str:
    """Return one statement for all days: BigQuery takes 25 in ten seconds on one table.

    :param staying: by day, the tables of a template that have rows of it.
    """
    values = [ledger_values(target, key, row) for row in rows]
    if staying:
        # The next publish deletes the day from the tables that are listed, and from no others.
        values = [each | {"tables": string_array(staying[row.day])} for each, row in zip(values, rows, strict=True)]
    selects = "\n  UNION ALL\n".join(f"  SELECT {', '.join(each.values())}" for each in values)
    return f"INSERT INTO {ledger.sql} ({', '.join(map(quoted, values[0]))})\n{selects}"


def row_after_erase(newest_row: LedgerRow, day_count: MatchCount, *, token: str, run: str) -> LedgerRow:
    """Return the ledger row of a day whose rows of some people are taken out.

    The source was not asked: when it was last polled, how late its rows came and how many shapes left out stay as they
    are. What was published is another content now, so neither digest nor answer stays. Its rows are those that were
    counted: a table that was restored has others than the ledger says.

    :param before: the day's newest row.
    """
    kept = {
        name: newest_row.counts[name] for name in (*LATE_COUNTS, FILTERED, ROWS_POLLED) if name in newest_row.counts
    }
    return newest_row.model_copy(
        update={
            "generation": newest_row.generation + 1,
            "token": token,
            "attempt": token,
            "run": run,
            "clear_number": 0,
            "rows": day_count.others,
            "digest": None,
            "answer": None,
            "checks": 0,
            "counts": {"erased": newest_row.counts.get("erased", 0) + day_count.matching - day_count.matching_deleted}
            | kept,
        }
    )


def require_script_length(script: str, target: TableRef) -> None:
    """Check that BigQuery takes a script.

    :raises ConfigError: it is too long.
    """
    if (length := len(script.encode())) > MAX_SCRIPT_BYTES:
        raise ConfigError(
            f"erasing from {target.id} takes a query of {length:,} bytes and BigQuery takes 1 MB: name fewer values in "
            "one call"
        )


def _sha256(text: str) -> str:
    # Half of a surrogate pair is in no row of BigQuery, and so finds none.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
