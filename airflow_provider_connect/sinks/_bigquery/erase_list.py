"""A stream's erase list: a table of keyed digests, whose version stands in the stream's fence row.

Every publish and every confirmation begins with a change of that row (:mod:`.decision`), and so does what makes the
list longer. BigQuery lets one of two such transactions through; the other one looks again, finds another version than
its attempt has seen, and is refused.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.errors import MissingError
from airflow_provider_connect.clients.bigquery.sql import literal, names, texts
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER
from airflow_provider_connect.sinks._bigquery.columns.schema import own_fields
from airflow_provider_connect.stage.erasing import EraseList

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sink import StreamKey

LIST_FIELDS: list[dict[str, Any]] = own_fields(
    ("target", "STRING", "The table that the rows are kept out of: project.dataset.table."),
    ("connector", "STRING", "The source's connector."),
    ("stream", "STRING", "The source's own name for the stream."),
    ("version", "INTEGER", "The version of the list that this digest came with."),
    ("entries", "INTEGER", "How many digests came with that version."),
    ("column_name", "STRING", "The source's column that says whose a row is."),
    ("salt", "STRING", "The key of the digests, in hex."),
    ("digest", "STRING", "Keyed BLAKE2b of the column's value, in hex."),
    ("listed_at", "TIMESTAMP", "When it was put on the list; for people only."),
)
MOST_AT_ONCE = 10_000
"""How many digests one version adds: BigQuery takes a script of at most 1 MB."""


def list_of(target: Place) -> Place:
    """Return where the erase lists of a target's streams lie."""
    return target.sibling(f"{target.table}__erased")


def newest_version(target: Place, stream: str) -> str:
    """Return SQL for the version of a stream's newest list, whatever its fence row says.

    :param stream: the condition for the stream's rows.
    """
    return f"(SELECT MAX({LEDGER}.version) FROM {list_of(target).sql} AS {LEDGER} WHERE {stream})"


def raised_version(ledger: Place, stream: str, version: int) -> str:
    """Return the statement that brings a stream's fence rows to at least a version of its list.

    :param stream: the condition for the stream's rows.
    """
    behind = f"{LEDGER}.day IS NULL AND COALESCE({LEDGER}.erased, 0) < {literal(version)}"
    return f"UPDATE {ledger.sql} AS {LEDGER} SET erased = {literal(version)} WHERE {stream} AND {behind}"


def emptied(ledger: Place, target: Place, stream: str) -> str:
    """Return the statements by which a person empties a stream's list.

    The list goes first: as long as it is there, a preflight brings its version back.

    :param stream: the condition for the stream's rows.
    """
    return (
        f"DELETE FROM {list_of(target).sql} AS {LEDGER} WHERE {stream}; "
        f"UPDATE {ledger.sql} AS {LEDGER} SET erased = NULL WHERE {stream} AND {LEDGER}.day IS NULL"
    )


def read_list(api: Api, target: Place, stream: str, version: int) -> EraseList:
    """Return a version of a stream's erase list.

    :param stream: the condition for the stream's rows.
    :raises ConfigError: it is gone, or was changed by hand.
    """
    if not version:
        return EraseList()
    place = list_of(target)
    sql = (
        f"SELECT {names(('version', 'entries', 'column_name', 'salt', 'digest'), LEDGER)}\n"
        f"FROM {place.sql} AS {LEDGER} WHERE {stream} AND {LEDGER}.version <= {literal(version)}"
    )
    try:
        rows, _ = api.query(sql, doing=f"read the erase list {place.id}", labels={"connect": "ledger"})
    except MissingError:
        rows = []
    by_version: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_version[int(row["version"])].append(row)
    keys = {(row["column_name"], row["salt"]) for row in rows}
    is_whole = all(_is_whole(by_version[each]) for each in range(1, version + 1))
    if not is_whole or len(keys) != 1:
        raise ConfigError(
            f"version {version} of an erase list of {target.id} is not whole in {place.id}: restore that "
            "table; without it rows that were erased would come back"
        )
    ((column, salt),) = keys
    return EraseList(version=version, column=column, salt=salt, digests=tuple(sorted(row["digest"] for row in rows)))


def _is_whole(rows: Sequence[dict[str, Any]]) -> bool:
    return bool(rows) and len(rows) == int(rows[0]["entries"])


def lengthen_script(
    ledger: Place, target: Place, key: StreamKey, *, stream: str, longer: EraseList, added: Sequence[str]
) -> str:
    """Return the script that adds digests to a list of the version before; it answers with ``fences`` and ``erased``.

    It changes nothing if the list is of another version by then.

    :param stream: the condition for the stream's rows.
    """
    values = {
        "target": literal(target.id),
        "connector": literal(key.connector),
        "stream": literal(key.stream),
        "version": literal(longer.version),
        "entries": literal(len(added)),
        "column_name": literal(longer.column),
        "salt": literal(longer.salt),
        "digest": "one",
        "listed_at": "CURRENT_TIMESTAMP()",
    }
    return f"""DECLARE seen STRUCT<fences INT64, erased INT64>;
BEGIN TRANSACTION;
UPDATE {ledger.sql} AS {LEDGER} SET published_at = CURRENT_TIMESTAMP() WHERE {stream} AND {LEDGER}.day IS NULL;
SET seen = (
  SELECT AS STRUCT COUNT(*) AS fences, COALESCE(MAX({LEDGER}.erased), 0) AS erased FROM {ledger.sql} AS {LEDGER}
  WHERE {stream} AND {LEDGER}.day IS NULL
);
IF seen.fences > 0 AND seen.erased = {longer.version - 1} THEN
  UPDATE {ledger.sql} AS {LEDGER} SET erased = {longer.version} WHERE {stream} AND {LEDGER}.day IS NULL;
  INSERT INTO {list_of(target).sql} ({", ".join(values)})
  SELECT {", ".join(values.values())} FROM UNNEST({texts(added)}) AS one;
END IF;
COMMIT TRANSACTION;
SELECT seen.fences AS fences, seen.erased AS erased;
"""
