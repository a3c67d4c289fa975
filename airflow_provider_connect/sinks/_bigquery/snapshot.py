"""SQL of snapshots that take the place of the whole table: what else they look at, what they refuse and delete.

A snapshot follows the stream's newest published one, of whatever day. ``replace`` deletes every row. ``merge`` deletes
the rows whose key the snapshot lacks, in a statement of their own: they are counted that way, and a row that stays
because it is newer than the snapshot's, or than a tombstone, is not taken for one that vanished.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.sql import any_partition, literal, quoted
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.ledger import WriteMode, increment_first, of_stream
from airflow_provider_connect.sinks._bigquery.names import NEWEST_DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sink import StreamKey
    from airflow_provider_connect.sinks._bigquery.columns.types import Column
    from airflow_provider_connect.sinks._bigquery.merge import Merge
    from airflow_provider_connect.sinks._bigquery.plan import PublishPlan
    from airflow_provider_connect.stage.manifest import Seen


def newest_increment(ledger: Place, target: Place, key: StreamKey, day: dt.date) -> str:
    """Return SQL for the day whose increment a day's next one follows: its own, else that of the stream's newest."""
    rows = f"{of_stream(target, key)} AND day IS NOT NULL"
    return f"(SELECT day FROM {ledger.sql} WHERE {rows} ORDER BY {increment_first(day)} LIMIT 1)"


def newest_day(ledger: Place, target: Place, key: StreamKey) -> str:
    """Return SQL for the day of the stream's newest publish."""
    return f"(SELECT MAX(day) FROM {ledger.sql} WHERE {of_stream(target, key)})"


def kept_rows(target: Place, write_mode: WriteMode, filter_column: str | None, newest: str = NEWEST_DAY) -> str:
    """Return SQL that counts rows which no snapshot brought, or which are kept as a history by day.

    :param newest: SQL for the day of the newest published snapshot. A merge leaves rows of earlier days where they are,
        so there only the rows of a table that nobody has published into count.
    """
    others = f"{newest} IS NULL"
    if write_mode == "replace":
        others = f"({newest} IS NULL OR `day` IS NULL OR `day` != {newest})"
    return f"(SELECT COUNT(*) FROM {target.sql} WHERE {others} AND {any_partition(filter_column)})"


def refused_rows(target: Place, rows: int, newest: dt.date | None) -> ConfigError:
    """Return the error for a snapshot that would delete rows of others, or a history."""
    kept = f"besides the newest snapshot ({newest})" if newest else "that no publish of this stream brought"
    return ConfigError(
        f"table {target.id} holds {rows:,} rows {kept}, and snapshot='replace' would delete them: set "
        "snapshot='daily' to keep them, choose another table, or delete those rows by hand first"
    )


def stream_moved_on(seen: Seen) -> str:
    """Return the condition under which the newest snapshot, or increment, is not the one seen before the poll."""
    if seen.day is None:
        return f"{NEWEST_DAY} IS NOT NULL"
    same = f"seen.newest = {seen.generation} AND seen.checks = {seen.checks}"
    return f"{NEWEST_DAY} IS NULL OR {NEWEST_DAY} != {literal(seen.day)} OR NOT ({same})"


def delete_vanished(
    merge: Merge, columns: Sequence[Column], *, target: Place, staging: Place, filter_column: str | None
) -> list[str]:
    """Return the statements that count and delete the rows whose key the staged snapshot lacks."""
    expressions = {column.name: column.expression for column in columns}
    same = " AND ".join(f"{expressions[name]} = t.{quoted(name)}" for name in merge.key)
    gone = (
        f"FROM {target.sql} AS t WHERE {any_partition(filter_column, 't')}\n"
        f"    AND NOT EXISTS (SELECT 1 FROM {staging.sql} AS s WHERE {same})"
    )
    return [
        f"SET vanished = (SELECT COUNT(*) {gone})",
        # Asked first, since a DELETE of nothing would still keep others from changing the table meanwhile.
        f"IF vanished > 0 THEN\n    DELETE {gone};\n  END IF",
    ]


def require_all_keys(plan: PublishPlan) -> None:
    """Check that no row of a merged snapshot was set aside: its key would count as vanished.

    :raises DataError: with the number of such rows.
    """
    aside = plan.row.counts.get("rejected", 0)
    if plan.replaces_whole and plan.merge is not None and aside:
        raise DataError(
            f"table {plan.target.id}: {aside:,} rows of the snapshot were set aside; without their keys nobody knows "
            "which ones have vanished. Mend them in the source"
        )
