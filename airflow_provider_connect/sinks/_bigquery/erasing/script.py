"""Erasing as SQL: whose rows are looked for, and the transaction that takes them out of many days at once.

The values that are looked for stand in no query: a job's history keeps its text for half a year. What stands there is
SHA-256 of each, with a salt that this call alone has, which SQL can make of a row's value, too.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.clients.bigquery.sql import any_partition, literal, quoted, texts, timestamp
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.ledger import NEWEST_FIRST, of_stream, span_values
from airflow_provider_connect.sinks._bigquery.script import MAX_SCRIPT_BYTES
from airflow_provider_connect.stage.late import LATE_COUNTS

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sink import LedgerRow, StreamKey

_DIGEST_CHARACTERS = 32


class Counted(NamedTuple):
    """What a day has.

    :param gone: its rows of those who are looked for.
    :param left: its other rows.
    :param partitions: in how many partitions of the table the first are, at the most.
    """

    gone: int
    left: int
    partitions: int = 1


@dataclass(frozen=True)
class Wanted:
    """Whose rows are looked for.

    :param column: of the table.
    :param filter_column: the column that every query on the target must name; None if none.
    :param salt: for this call alone.
    :param partition: SQL that tells the partitions of a day's rows apart; None if a day is in one.
    """

    target: Place
    column: str
    filter_column: str | None
    salt: str
    values: tuple[str, ...]
    partition: str | None = None

    @property
    def theirs(self) -> str:
        """The condition that holds for their rows."""
        made = f"LEFT(TO_HEX(SHA256(CONCAT({literal(self.salt)}, {quoted(self.column)}))), {_DIGEST_CHARACTERS})"
        digests = [_sha256(f"{self.salt}{value}") for value in self.values]
        listed = texts(digest[:_DIGEST_CHARACTERS] for digest in digests)
        # COALESCE: a comparison with NULL gives NULL, and a row without a value is nobody's.
        return f"COALESCE({made} IN UNNEST({listed}), FALSE)"


def count_query(wanted: Wanted) -> str:
    """Return the query that looks at each day that has rows of theirs.

    It answers with ``day``, ``gone``, ``rows_left`` and ``partitions``.
    """
    # Rows without a value have a partition of their own, which COUNT(DISTINCT …) leaves out.
    partitions = "1" if wanted.partition is None else "1 + COUNT(DISTINCT IF(theirs, part, NULL))"
    return (
        f"SELECT day, COUNTIF(theirs) AS gone, COUNTIF(NOT theirs) AS rows_left, {partitions} AS partitions FROM (\n"
        f"  SELECT day, {wanted.theirs} AS theirs, {wanted.partition or 'NULL'} AS part FROM {wanted.target.sql}\n"
        f"  WHERE {any_partition(wanted.filter_column)}\n"
        ") GROUP BY day HAVING COUNTIF(theirs) > 0 ORDER BY day"
    )


def erase_script(
    wanted: Wanted,
    ledger: Place,
    key: StreamKey,
    *,
    rows: Sequence[LedgerRow],
    followed: Sequence[LedgerRow],
    version: int,
    last_day: dt.date | None = None,
) -> str:
    """Return the script that deletes rows of some days and counts a generation of each; it answers with ``outcome``.

    :param rows: the days' ledger rows to be.
    :param followed: those that they follow, and others that must stand. If one of them is not the newest of its day any
        more, nothing is changed.
    :param version: of the erase list that has these people.
    :param last_day: beyond which no day may be published, if any: a later snapshot has replaced these rows.
    """
    stream = of_stream(wanted.target, key)
    days = ", ".join(literal(row.day) for row in rows)
    later = "" if last_day is None else f" OR seen.last_day != {literal(last_day)}"
    states = texts(f"{row.day} {row.generation} {row.checks}" for row in followed)
    return f"""DECLARE outcome STRING;
DECLARE seen STRUCT<fences INT64, erased INT64, last_day DATE, moved INT64>;
BEGIN TRANSACTION;
UPDATE {ledger.sql} SET published_at = CURRENT_TIMESTAMP() WHERE {stream} AND day IS NULL;
SET seen = (
  SELECT AS STRUCT COUNTIF(day IS NULL) AS fences, COALESCE(MAX(erased), 0) AS erased, MAX(day) AS last_day, (
    SELECT COUNTIF(CONCAT(CAST(day AS STRING), ' ', CAST(generation AS STRING), ' ', CAST(checks AS STRING))
      NOT IN UNNEST({states}))
    FROM (
      SELECT day, generation, COALESCE(checks, 0) AS checks FROM {ledger.sql}
      WHERE {stream} AND day IN ({", ".join(sorted({literal(row.day) for row in followed}))})
      QUALIFY ROW_NUMBER() OVER (PARTITION BY day ORDER BY {NEWEST_FIRST}) = 1
    )
  ) AS moved
  FROM {ledger.sql} WHERE {stream}
);
SET outcome = CASE
  WHEN seen.fences = 0 THEN 'unfenced'
  WHEN seen.erased < {version} OR seen.moved > 0{later} THEN 'overtaken'
  ELSE 'erased' END;
IF outcome = 'erased' THEN
  DELETE FROM {wanted.target.sql}
    WHERE day IN ({days}) AND {any_partition(wanted.filter_column)} AND {wanted.theirs};
  {_ledger_insert(wanted.target, ledger, key, rows)};
END IF;
COMMIT TRANSACTION;
SELECT outcome;
"""


def _ledger_insert(target: Place, ledger: Place, key: StreamKey, rows: Sequence[LedgerRow]) -> str:
    """Return one statement for all days: BigQuery takes 25 in ten seconds on one table."""
    values = [_ledger_values(target, key, row) for row in rows]
    selects = "\n  UNION ALL\n".join(f"  SELECT {', '.join(each.values())}" for each in values)
    return f"INSERT INTO {ledger.sql} ({', '.join(map(quoted, values[0]))})\n{selects}"


def _ledger_values(target: Place, key: StreamKey, row: LedgerRow) -> dict[str, str]:
    return {
        "target": literal(target.id),
        "connector": literal(key.connector),
        "stream": literal(key.stream),
        "day": literal(row.day),
        "generation": literal(row.generation),
        "token": literal(row.token),
        "attempt": literal(row.attempt),
        "run": literal(row.run),
        "clear_number": "0",
        "row_count": literal(row.rows),
        "counts": f"PARSE_JSON({literal(json.dumps(row.counts))})",
        "reference": literal(row.reference),
        "link": literal(row.link),
        "polled_at": timestamp(row.polled_at),
        "published_at": "CURRENT_TIMESTAMP()",
        "checks": "0",
        **span_values(row),
    }


def generation_without(before: LedgerRow, counted: Counted, *, token: str, run: str) -> LedgerRow:
    """Return the ledger row of a day whose rows of some people are taken out.

    The source was not asked: when it was last polled, and how late its rows came, stay as they are. What was published
    is another content now, so neither digest nor answer stays. Its rows are those that were counted: a table that was
    restored has others than the ledger says.

    :param before: the day's newest row.
    """
    late = {name: before.counts[name] for name in LATE_COUNTS if name in before.counts}
    return before.model_copy(
        update={
            "generation": before.generation + 1,
            "token": token,
            "attempt": token,
            "run": run,
            "clear_number": 0,
            "rows": counted.left,
            "digest": None,
            "answer": None,
            "checks": 0,
            "counts": {"erased": before.counts.get("erased", 0) + counted.gone} | late,
        }
    )


def require_short(script: str, target: Place) -> None:
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
