"""SQL of an erase: counts matching rows, and deletes them in one transaction.

Job histories keep texts for half a year: queries contain salted SHA-256 digests.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.clients.bigquery.sql import any_partition, column_list, literal, quoted, string_array
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER, PEOPLE, SPAN, TARGET
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
"""Pattern of a whole number's decimal part, such as ``.00``. BigQuery writes none."""


class MatchCount(NamedTuple):
    """Numbers of matching and other rows of one day.

    :param matching_deleted: soft-deleted matching rows.
    :param spans: ``matching`` and ``others`` of each span.
    """

    matching: int
    others: int
    partitions: int = 1
    matching_tables: tuple[str, ...] = ()
    other_tables: tuple[str, ...] = ()
    matching_deleted: int = 0
    spans: Mapping[int, tuple[int, int]] = MappingProxyType({})


class SearchedTable(NamedTuple):
    """Table in which rows are searched.

    :param partition_sql: SQL of the partition of a row. None if a day is in one.
    """

    table_ref: TableRef
    column: str | None
    filter_column: str | None = None
    partition_sql: str | None = None
    may_be_soft_deleted: bool = False
    column_type: str = "STRING"
    has_spans: bool = False


@dataclass(frozen=True)
class EraseSearch:
    """Search for the rows that have one of ``values``.

    :param target: table that owns the ledger.
    """

    target: TableRef
    tables: tuple[SearchedTable, ...]
    salt: str
    values: tuple[str, ...]

    @property
    def is_split(self) -> bool:
        """True if the searched tables belong to a template."""
        return all(table.table_ref != self.target for table in self.tables)

    @property
    def digests_sql(self) -> str:
        digests = [_sha256(f"{self.salt}{value}") for value in self.values]
        return string_array(digest[:_DIGEST_CHARACTERS] for digest in digests)

    def digest_sql(self, table: SearchedTable) -> str:
        """Return SQL of the digest of a row's value, else NULL."""
        if table.column is None:
            return literal(None)
        text = column_list([table.column], TARGET)
        if table.column_type != "STRING":
            # A whole number has the text of its digits, whatever scale its type has.
            text = f"REGEXP_REPLACE(CAST({text} AS STRING), {literal(WHOLE_NUMBER_END)}, '')"
        return f"LEFT(TO_HEX(SHA256(CONCAT({literal(self.salt)}, {text}))), {_DIGEST_CHARACTERS})"


def count_query(search: EraseSearch) -> str:
    """Return the query that counts matching rows by day and table.

    Columns: ``name`` (the table), ``day``, ``gone`` (matching rows), ``rows_left``, ``gone_deleted``, ``partitions``,
    perhaps ``span``. Days without a match are left out.
    """
    selects = "\n    UNION ALL ".join(_select_rows(search, table) for table in search.tables)
    span = ", r.span" if any(table.has_spans for table in search.tables) else ""
    # COALESCE: a comparison with NULL gives NULL, and a row without a value must not match. Rows without a value in the
    # partition column have a separate partition, which COUNT(DISTINCT …) does not count.
    return (
        f"SELECT r.name, r.day{span}, COUNTIF(r.theirs) AS gone, COUNTIF(NOT r.theirs AND NOT r.dead) AS rows_left,\n"
        "  COUNTIF(r.theirs AND r.dead) AS gone_deleted,\n"
        "  1 + COUNT(DISTINCT IF(r.theirs, r.part, NULL)) AS partitions FROM (\n"
        f"  SELECT r.name, r.day{span}, r.part, r.dead,\n"
        f"    COALESCE(r.made IN UNNEST({search.digests_sql}), FALSE) AS theirs FROM (\n"
        f"    {selects}\n  ) AS r\n"
        f") AS r WHERE TRUE GROUP BY r.name, r.day{span}\n"
        "QUALIFY SUM(COUNTIF(r.theirs)) OVER (PARTITION BY r.day) > 0 ORDER BY r.day, r.name"
    )


def _select_rows(search: EraseSearch, table: SearchedTable) -> str:
    digest = search.digest_sql(table)
    deleted = IS_DELETED if table.may_be_soft_deleted else "FALSE"
    span = ""
    if any(searched.has_spans for searched in search.tables):
        span = f", {TARGET}.{SPAN} AS span" if table.has_spans else ", CAST(NULL AS INT64) AS span"
    part = literal(None) if table.partition_sql is None else f"CAST({table.partition_sql} AS STRING)"
    return (
        f"SELECT {literal(table.table_ref.table)} AS name, {TARGET}.day AS day, {digest} AS made, {part} AS part, "
        f"{deleted} AS dead{span}\n"
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
    """Return the script that deletes the matching rows of some days, and adds ``new_rows`` to the ledger.

    :param followed_rows: ledger rows that must still be the newest of their days, or of their days' spans. Otherwise
        the script changes nothing.
    :param last_day: if set, it must still be the newest published day.
    """
    stream = stream_condition(search.target, key)
    later = "" if last_day is None else f" OR seen.last_day != {literal(last_day)}"
    states = string_array(f"{row.day} {row.span_number or 0} {row.generation} {row.checks}" for row in followed_rows)
    day_generation = (
        f"CAST({LEDGER}.day AS STRING), ' ', CAST(COALESCE({LEDGER}.span_number, 0) AS STRING), ' ', "
        f"CAST({LEDGER}.generation AS STRING)"
    )
    span_of_day = f"{LEDGER}.day, {LEDGER}.span_number"
    newest_first = f"{LEDGER}.generation DESC, {LEDGER}.checks DESC"
    changes = "".join(f"  {statement};\n" for statement in _delete_statements(search, day_counts))
    other_tables_by_day = (
        {day: day_count.other_tables for day, day_count in day_counts.items()} if search.is_split else {}
    )
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
      QUALIFY ROW_NUMBER() OVER (PARTITION BY {span_of_day} ORDER BY {newest_first}) = 1
    ) AS newest
  ) AS moved
  FROM {ledger.sql} AS {LEDGER} WHERE {stream}
);
SET outcome = CASE
  WHEN seen.fences = 0 THEN 'unfenced'
  WHEN seen.erased < {list_version} OR seen.moved > 0{later} THEN 'overtaken'
  ELSE 'erased' END;
IF outcome = 'erased' THEN
{changes}  {_ledger_insert(search.target, ledger, key, new_rows, other_tables_by_day)};
END IF;
COMMIT TRANSACTION;
SELECT outcome;
"""


def delete_tombstones_script(search: EraseSearch) -> str:
    """Return the script that deletes all matching rows of the searched tables."""
    deletes = "".join(
        f"DELETE FROM {table.table_ref.sql} AS {TARGET} WHERE {_match_condition(search, table)};\n"
        for table in search.tables
        if table.column is not None
    )
    return f"DECLARE {PEOPLE} ARRAY<STRING> DEFAULT {search.digests_sql};\n{deletes}SELECT 'erased' AS outcome;\n"


def _match_condition(search: EraseSearch, table: SearchedTable) -> str:
    return f"COALESCE({search.digest_sql(table)} IN UNNEST({PEOPLE}), FALSE)"


def _delete_statements(search: EraseSearch, day_counts: Mapping[dt.date, MatchCount]) -> Iterator[str]:
    for table in search.tables:
        days = [
            literal(day) for day, day_count in day_counts.items() if table.table_ref.table in day_count.matching_tables
        ]
        if days and table.column is not None:
            yield (
                f"DELETE FROM {table.table_ref.sql} AS {TARGET}\n    WHERE {TARGET}.day IN ({', '.join(days)}) "
                f"AND {any_partition(table.filter_column, TARGET)}\n"
                f"    AND {_match_condition(search, table)}"
            )


def _ledger_insert(
    target: TableRef,
    ledger: TableRef,
    key: StreamKey,
    rows: Sequence[LedgerRow],
    remaining_tables: Mapping[dt.date, Sequence[str]],
) -> str:
    """Return one INSERT for all days."""
    values = [ledger_values(target, key, row) for row in rows]
    if remaining_tables:
        # The next publish deletes the day only from the listed tables.
        values = [
            row_values | {"tables": string_array(remaining_tables[row.day])}
            for row_values, row in zip(values, rows, strict=True)
        ]
    selects = "\n  UNION ALL\n".join(f"  SELECT {', '.join(row_values.values())}" for row_values in values)
    return f"INSERT INTO {ledger.sql} ({', '.join(map(quoted, values[0]))})\n{selects}"


def row_after_erase(newest_row: LedgerRow, day_count: MatchCount, *, token: str, run: str) -> LedgerRow:
    """Return a day's next ledger row, after an erase.

    Keeps poll time and counts.
    """
    kept_counts = {
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
            | kept_counts,
        }
    )


def rows_after_erase(
    newest_rows: Sequence[LedgerRow], day_count: MatchCount, *, token: str, run: str
) -> list[LedgerRow]:
    """Return the new ledger rows of a day after an erase: one, or for increments one for each span that lost rows."""
    if len(newest_rows) == 1:
        return [row_after_erase(newest_rows[0], day_count, token=token, run=run)]
    *earlier, last = sorted(newest_rows, key=lambda row: row.span_number or 0)
    if not day_count.spans:
        others = max(0, day_count.others - sum(row.rows for row in earlier))
        return [row_after_erase(last, day_count._replace(others=others), token=token, run=run)]
    first, unmarked = (*earlier, last)[0], day_count.spans.get(0, (0, 0))
    rows = []
    for row in (*earlier, last):
        matching, others = day_count.spans.get(row.span_number or 0, (0, 0))
        if row is first and row.span_number:
            matching, others = matching + unmarked[0], others + unmarked[1]
        if matching:
            rows.append(row_after_erase(row, MatchCount(matching, others), token=token, run=run))
    return rows


def require_script_length(script: str, target: TableRef) -> None:
    """Raise ConfigError if the script is too long for BigQuery."""
    if (length := len(script.encode())) > MAX_SCRIPT_BYTES:
        raise ConfigError(
            f"erasing from {target.id} takes a query of {length:,} bytes, but BigQuery accepts 1 MB. Erase fewer "
            "values in one call"
        )


def _sha256(text: str) -> str:
    # BigQuery holds no half of a surrogate pair, so such a value matches no row.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
