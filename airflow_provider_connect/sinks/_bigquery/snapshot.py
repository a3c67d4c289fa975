"""SQL of snapshots that take the place of the whole table: what else they look at, what they refuse and delete.

A snapshot follows the stream's newest published one, of whatever day. ``replace`` deletes every row, or with soft
deletes those that come again. ``merge`` deletes
the rows whose key the snapshot lacks, in a statement of their own: they are counted that way, and a row that stays
because it is newer than the snapshot's, or than a tombstone, is not taken for one that vanished.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.sql import any_partition, literal, quoted, timestamp
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER, NEWEST_DAY, STAGED, TARGET
from airflow_provider_connect.sinks._bigquery.ledger import WriteMode
from airflow_provider_connect.sinks._bigquery.ledger_rows import increment_order, stream_condition
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.stage.soft_deletes import DELETED, DELETED_AT, RESTORED, SOFT_DELETED, SOFT_DELETED_TOTAL

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sinks._bigquery.columns.types import TargetColumn
    from airflow_provider_connect.sinks._bigquery.plan import PublishPlan
    from airflow_provider_connect.stage.manifest import SeenPublish


def newest_day_sql(plan: PublishPlan) -> str:
    """Return SQL for the day of the stream's newest publish, or of the increment that this day's next one follows.

    That is the day's own increment, else the stream's newest.
    """
    rows = f"FROM {plan.ledger.sql} AS {LEDGER} WHERE {stream_condition(plan.target, plan.key)}"
    if plan.publish.kind != "increment":
        return f"(SELECT MAX({LEDGER}.day) {rows})"
    order = increment_order(plan.publish.day.date)
    return f"(SELECT {LEDGER}.day {rows} AND {LEDGER}.day IS NOT NULL ORDER BY {order} LIMIT 1)"


def protected_rows_sql(
    target: TableRef, write_mode: WriteMode, filter_column: str | None, newest: str = NEWEST_DAY
) -> str:
    """Return SQL that counts rows which no snapshot brought, or which are kept as a history by day.

    :param newest: SQL for the day of the newest published snapshot. A merge leaves rows of earlier days where they are,
        so there only the rows of a table that nobody has published into count.
    """
    others = f"{newest} IS NULL"
    if write_mode == "replace":
        day = f"{TARGET}.`day`"
        others = f"({newest} IS NULL OR {day} IS NULL OR {day} != {newest})"
    any_ = any_partition(filter_column, TARGET)
    return f"(SELECT COUNT(*) FROM {target.sql} AS {TARGET} WHERE {others} AND {any_})"


def protected_rows_error(target: TableRef, rows: int, newest: dt.date | None) -> ConfigError:
    """Return the error for a snapshot that would delete rows of others, or a history."""
    kept = f"besides the newest snapshot ({newest})" if newest else "that no publish of this stream brought"
    return ConfigError(
        f"table {target.id} holds {rows:,} rows {kept}, and snapshot='replace' would delete them: set "
        "snapshot='daily' to keep them, choose another table, or delete those rows by hand first"
    )


def stream_changed_condition(seen: SeenPublish) -> str:
    """Return the condition under which the newest snapshot, or increment, is not the one seen before the poll."""
    if seen.day is None:
        return f"{NEWEST_DAY} IS NOT NULL"
    same = f"seen.newest = {seen.generation} AND seen.checks = {seen.checks}"
    return f"{NEWEST_DAY} IS NULL OR {NEWEST_DAY} != {literal(seen.day)} OR NOT ({same})"


def delete_vanished_statements(plan: PublishPlan) -> list[str]:
    """Return the statements that count and delete the rows whose key the staged snapshot lacks."""
    gone = (
        f"FROM {plan.target.sql} AS {TARGET} WHERE {any_partition(plan.layout.filter_column, TARGET)}\n"
        f"    AND NOT EXISTS (SELECT 1 FROM {plan.staging.sql} AS {STAGED} WHERE {_same_row(plan)})"
    )
    return [
        f"SET vanished = (SELECT COUNT(*) {gone})",
        # Asked first, since a DELETE of nothing would still keep others from changing the table meanwhile.
        f"IF vanished > 0 THEN\n    DELETE {gone};\n  END IF",
    ]


IS_DELETED = f"COALESCE({TARGET}.{quoted(DELETED)}, FALSE)"
"""The condition that a row of the target is soft-deleted: a row from before soft deletes is not."""
SOFT_COUNTS = {SOFT_DELETED: "vanished", RESTORED: "restored", SOFT_DELETED_TOTAL: "soft_deleted"}
"""Names of counts, and the variables of the script that have them."""


def soft_delete_statements(plan: PublishPlan) -> list[str]:
    """Return the statements that mark what the staged snapshot lacks, and unmark what came back; and count both.

    ``replace`` also deletes the rows that the snapshot brings anew, and moves all others to its day: they are shown
    with it, and a partition that expires would take them away. ``merge`` leaves every row where it is, and its own rule
    says whose values count.
    """
    target, any_ = plan.target.sql, any_partition(plan.layout.filter_column, TARGET)
    rows = f"FROM {target} AS {TARGET} WHERE {any_}"
    came = f"EXISTS (SELECT 1 FROM {plan.staging.sql} AS {STAGED} WHERE {_same_row(plan)})"
    polled_at = plan.publish.manifest.polled_at
    at = timestamp(polled_at or dt.datetime.combine(plan.row.day, dt.time(), tzinfo=dt.UTC))
    mark = f"{quoted(DELETED)} = TRUE, {quoted(DELETED_AT)} = {at}"
    counted = [
        f"SET vanished = (SELECT COUNT(*) {rows}\n    AND NOT {IS_DELETED} AND NOT {came})",
        f"SET restored = (SELECT COUNT(*) {rows}\n    AND {IS_DELETED} AND {came})",
    ]
    update = f"UPDATE {target} AS {TARGET} SET"
    if plan.merge is not None:
        unmark = f"{quoted(DELETED)} = FALSE, {quoted(DELETED_AT)} = NULL"
        changes = [
            f"IF vanished > 0 THEN\n    {update} {mark}\n"
            f"    WHERE {any_} AND NOT {IS_DELETED} AND NOT {came};\n  END IF",
            # Rows from before soft deletes say so from now on, too.
            f"IF EXISTS (SELECT 1 {rows} AND COALESCE({TARGET}.{quoted(DELETED)}, TRUE)) THEN\n    {update} {unmark}\n"
            f"    WHERE {any_} AND COALESCE({TARGET}.{quoted(DELETED)}, TRUE) AND {came};\n  END IF",
        ]
    else:
        kept = f"COALESCE(IF({IS_DELETED}, {TARGET}.{quoted(DELETED_AT)}, NULL), {at})"
        changes = [
            f"IF EXISTS (SELECT 1 {rows}) THEN\n    DELETE {rows}\n    AND {came};\n"
            f"    {update} {quoted(DELETED_AT)} = {kept}, {quoted(DELETED)} = TRUE, `day` = {literal(plan.row.day)}\n"
            f"    WHERE {any_};\n  END IF",
        ]
    return [*counted, *changes, f"SET soft_deleted = (SELECT COUNT(*) {rows} AND {IS_DELETED})"]


def purge_soft_deleted_statement(plan: PublishPlan) -> str:
    """Return the statement that deletes what was soft-deleted: a row of theirs that comes back is a new one."""
    rows = (
        f"FROM {plan.target.sql} AS {TARGET} WHERE {any_partition(plan.layout.filter_column, TARGET)} AND {IS_DELETED}"
    )
    return f"IF EXISTS (SELECT 1 {rows}) THEN\n    DELETE {rows};\n  END IF"


def keyless_published_sql(plan: PublishPlan) -> str:
    """Return SQL that counts published rows without a key: they would seem to have vanished."""
    if plan.merge is not None:
        return "0"
    key = f"{TARGET}.{quoted(_record_key(plan).name)}"
    rows = f"{any_partition(plan.layout.filter_column, TARGET)} AND {key} IS NULL AND NOT {IS_DELETED}"
    return f"(SELECT COUNT(*) FROM {plan.target.sql} AS {TARGET} WHERE {rows})"


def keyless_published_error(target: TableRef, rows: int) -> ConfigError:
    """Return the error for published rows without a key."""
    return ConfigError(
        f"table {target.id} holds {rows:,} rows without {RECORD_KEY}, and deletes='soft' cannot tell which of them "
        "have vanished: publish one snapshot with deletes='hard' first"
    )


def _same_row(plan: PublishPlan) -> str:
    """Return the condition that a staged row has the key of a row of the target."""
    if plan.merge is None:
        key = _record_key(plan)
        return f"{key.expression} = {TARGET}.{quoted(key.name)}"
    return " AND ".join(f"{plan.expressions[name]} = {TARGET}.{quoted(name)}" for name in plan.merge.key)


def _record_key(plan: PublishPlan) -> TargetColumn:
    return next(column for column in plan.layout.columns if column.source == RECORD_KEY)


def require_no_rejects(plan: PublishPlan) -> None:
    """Check that no row of a merged snapshot, or of one with soft deletes, was set aside: it would seem to be gone.

    :raises DataError: with the number of such rows.
    """
    aside = plan.row.counts.get("rejected", 0)
    if plan.replaces_whole and (plan.merge is not None or plan.deletes_softly) and aside:
        raise DataError(
            f"table {plan.target.id}: {aside:,} rows of the snapshot were set aside; without their keys nobody knows "
            "which ones have vanished. Mend them in the source"
        )
