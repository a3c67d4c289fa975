"""A target's erase list: a table of keyed digests."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.errors import ColumnError, MissingError
from airflow_provider_connect.clients.bigquery.sql import column_list, literal, string_array
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER
from airflow_provider_connect.sinks._bigquery.columns.schema import sink_fields
from airflow_provider_connect.sinks._bigquery.ledger_rows import key_values, target_condition
from airflow_provider_connect.stage.erase_list import EraseList

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sink import StreamKey

LIST_FIELDS: list[dict[str, Any]] = sink_fields(
    ("target", "STRING", "The table that the rows are kept out of: project.dataset.table."),
    ("connector", "STRING", "The source's connector."),
    ("stream", "STRING", "The source's own name for the stream whose erase put it there."),
    ("version", "INTEGER", "The version of the list that this digest came with."),
    ("entries", "INTEGER", "How many digests came with that version."),
    ("column_name", "STRING", "The column that says whose a row is."),
    ("salt", "STRING", "The key of the digests, in hex."),
    ("digest", "STRING", "Keyed BLAKE2b of the column's value, in hex."),
    ("listed_at", "TIMESTAMP", "When it was put on the list; for people only."),
    ("shaping", "STRING", "Digest of the shapes that made the column's values, and of the key of their mask."),
)
ADDED_LIST_FIELDS = ("shaping",)
"""Columns that lists of earlier versions lack until the next erase."""
MAX_DIGESTS_PER_VERSION = 10_000
"""Most digests that one version adds, because BigQuery takes a script of at most 1 MB."""


def erase_list_table(target: TableRef) -> TableRef:
    return target.sibling(f"{target.table}__erased")


def newest_version_sql(target: TableRef) -> str:
    return (
        f"(SELECT MAX({LEDGER}.version) FROM {erase_list_table(target).sql} AS {LEDGER} "
        f"WHERE {target_condition(target)})"
    )


def raise_version_statement(ledger: TableRef, target: TableRef, version: int) -> str:
    behind_condition = f"{LEDGER}.day IS NULL AND COALESCE({LEDGER}.erased, 0) < {literal(version)}"
    return (
        f"UPDATE {ledger.sql} AS {LEDGER} SET erased = {literal(version)} "
        f"WHERE {target_condition(target)} AND {behind_condition}"
    )


def empty_list_statements(ledger: TableRef, target: TableRef) -> str:
    return (
        f"DELETE FROM {erase_list_table(target).sql} AS {LEDGER} WHERE {target_condition(target)}; "
        f"UPDATE {ledger.sql} AS {LEDGER} SET erased = NULL WHERE {target_condition(target)} AND {LEDGER}.day IS NULL"
    )


def read_erase_list(api: BigQueryApi, target: TableRef, version: int) -> EraseList:
    """Return a target's erase list, up to ``version``.

    :raises ConfigError: the list is lost or was changed.
    """
    if not version:
        return EraseList()
    list_table = erase_list_table(target)
    rows = _read_rows(api, target, version)
    by_publish: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_publish[row["connector"], row["stream"], int(row["version"])].append(row)
    is_complete = all(len(version_rows) == int(version_rows[0]["entries"]) for version_rows in by_publish.values())
    if not is_complete or {*range(1, version + 1)} != {number for _, _, number in by_publish}:
        raise ConfigError(
            f"version {version} of the erase list of {target.id} is not complete in {list_table.id}. Restore that "
            "table: without it, erased rows would come back"
        )
    return EraseList.join(_parts_by_salt(rows), version)


def _read_rows(api: BigQueryApi, target: TableRef, version: int) -> list[dict[str, Any]]:
    list_table = erase_list_table(target)
    columns = column_list(("connector", "stream", "version", "entries", "column_name", "salt", "digest"), LEDGER)
    source = (
        f"FROM {list_table.sql} AS {LEDGER}\n"
        f"WHERE {target_condition(target)} AND {LEDGER}.version <= {literal(version)}"
    )
    action, labels = f"read the erase list {list_table.id}", {"connect": "ledger"}
    try:
        try:
            return api.query(f"SELECT {columns}, {LEDGER}.shaping {source}", action=action, labels=labels)[0]
        except ColumnError:  # no erase has upgraded the list yet
            unknown = literal(None, "STRING")
            return api.query(f"SELECT {columns}, {unknown} AS shaping {source}", action=action, labels=labels)[0]
    except MissingError:
        return []


def _parts_by_salt(rows: Sequence[dict[str, Any]]) -> list[EraseList]:
    by_salt: dict[tuple[str, str, str | None], list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row["version"])):
        key = (row["column_name"], row["salt"], row["shaping"])
        by_salt[key] = [*by_salt.pop(key, []), row]
    return [
        EraseList(
            version=1, column=column, salt=salt, shaping=shaping, digests=tuple(sorted(row["digest"] for row in group))
        )
        for (column, salt, shaping), group in by_salt.items()
    ]


def extend_list_script(
    ledger: TableRef, target: TableRef, key: StreamKey, *, new_list: EraseList, added_digests: Sequence[str]
) -> str:
    """Return the script that adds digests to an erase list, unless its version has changed.

    Its result: number of fence rows (``fences``), previous version (``erased``).
    """
    fences = f"{target_condition(target)} AND {LEDGER}.day IS NULL"
    values = {
        **key_values(target, key),
        "version": literal(new_list.version),
        "entries": literal(len(added_digests)),
        "column_name": literal(new_list.column),
        "salt": literal(new_list.salt),
        "digest": "one",
        "listed_at": "CURRENT_TIMESTAMP()",
        "shaping": literal(new_list.shaping, "STRING"),
    }
    return f"""DECLARE seen STRUCT<fences INT64, erased INT64>;
BEGIN TRANSACTION;
UPDATE {ledger.sql} AS {LEDGER} SET published_at = CURRENT_TIMESTAMP() WHERE {fences};
SET seen = (
  SELECT AS STRUCT COUNT(*) AS fences, COALESCE(MAX({LEDGER}.erased), 0) AS erased FROM {ledger.sql} AS {LEDGER}
  WHERE {fences}
);
IF seen.fences > 0 AND seen.erased = {new_list.version - 1} THEN
  UPDATE {ledger.sql} AS {LEDGER} SET erased = {new_list.version} WHERE {fences};
  INSERT INTO {erase_list_table(target).sql} ({", ".join(values)})
  SELECT {", ".join(values.values())} FROM UNNEST({string_array(added_digests)}) AS one;
END IF;
COMMIT TRANSACTION;
SELECT seen.fences AS fences, seen.erased AS erased;
"""
