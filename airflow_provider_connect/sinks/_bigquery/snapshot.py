"""SQL of snapshots that replace the whole table: lookups, refusals and deletes."""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.sql import any_partition, literal, quoted, timestamp
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.aliases import LEDGER, NEWEST_DAY, NEWEST_SPAN, STAGED, TARGET
from airflow_provider_connect.sinks._bigquery.ledger import WriteMode
from airflow_provider_connect.sinks._bigquery.ledger_rows import stream_condition
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.stage.soft_deletes import DELETED, DELETED_AT, RESTORED, SOFT_DELETED, SOFT_DELETED_TOTAL

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sinks._bigquery.columns.types import TargetColumn
    from airflow_provider_connect.sinks._bigquery.plan import PublishPlan
    from airflow_provider_connect.stage.manifest import SeenPublish


def newest_day_sql(plan: PublishPlan) -> str:
    """Return SQL for the day of the stream's newest publish.

    For an increment, the day of the increment that it follows.
    """
    rows = f"FROM {plan.ledger.sql} AS {LEDGER} WHERE {stream_condition(plan.target, plan.key)}"
    if plan.span_number is None:
        return f"(SELECT MAX({LEDGER}.day) {rows})"
    order = f"IF({LEDGER}.span_number = {plan.span_number}, 1, 0) DESC, {LEDGER}.span_number DESC"
    return f"(SELECT {LEDGER}.day {rows} AND {LEDGER}.day IS NOT NULL ORDER BY {order} LIMIT 1)"


def protected_rows_sql(
    target: TableRef, write_mode: WriteMode, filter_column: str | None, newest: str = NEWEST_DAY
) -> str:
    """Return SQL that counts the rows that a snapshot must not delete: foreign rows and histories by day.

    :param newest: SQL of the newest snapshot's day. A merge counts only if this is NULL.
    """
    protected_condition = f"{newest} IS NULL"
    if write_mode == "replace":
        day = f"{TARGET}.`day`"
        protected_condition = f"({newest} IS NULL OR {day} IS NULL OR {day} != {newest})"
    any_partition_sql = any_partition(filter_column, TARGET)
    return f"(SELECT COUNT(*) FROM {target.sql} AS {TARGET} WHERE {protected_condition} AND {any_partition_sql})"


def protected_rows_error(target: TableRef, rows: int, newest: dt.date | None) -> ConfigError:
    """Return the error for a snapshot that would delete foreign rows or a history."""
    rows_text = f"besides the newest snapshot ({newest})" if newest else "that no publish of this stream brought"
    return ConfigError(
        f"table {target.id} holds {rows:,} rows {rows_text}, and snapshot='replace' would delete them. Set "
        "snapshot='daily' to keep them, choose another table, or delete those rows by hand first"
    )


def stream_changed_condition(seen: SeenPublish) -> str:
    """Return the SQL condition that the stream's newest publish is not the one seen before the poll."""
    if seen.day is None:
        return f"{NEWEST_DAY} IS NOT NULL"
    same = f"seen.newest = {seen.generation} AND seen.checks = {seen.checks}"
    if seen.span is not None:
        return f"NOT COALESCE({NEWEST_DAY} = {literal(seen.day)} AND {NEWEST_SPAN} = {seen.span} AND {same}, FALSE)"
    return f"{NEWEST_DAY} IS NULL OR {NEWEST_DAY} != {literal(seen.day)} OR NOT ({same})"


def delete_vanished_statements(plan: PublishPlan) -> list[str]:
    """Return statements that count and delete the rows whose key the staged snapshot lacks."""
    vanished_rows = (
        f"FROM {plan.target.sql} AS {TARGET} WHERE {any_partition(plan.layout.filter_column, TARGET)}\n"
        f"    AND NOT EXISTS (SELECT 1 FROM {plan.staging.sql} AS {STAGED} WHERE {_same_row_condition(plan)})"
    )
    return [
        f"SET vanished = (SELECT COUNT(*) {vanished_rows})",
        # Checked first, because even a DELETE without rows conflicts with other changes of the table.
        f"IF vanished > 0 THEN\n    DELETE {vanished_rows};\n  END IF",
    ]


IS_DELETED = f"COALESCE({TARGET}.{quoted(DELETED)}, FALSE)"
"""SQL condition for a soft-deleted row. False for a row without the mark."""
SOFT_COUNTS = {SOFT_DELETED: "vanished", RESTORED: "restored", SOFT_DELETED_TOTAL: "soft_deleted"}
"""Script variables of the soft deletes' counts, by name of the count."""


def soft_delete_statements(plan: PublishPlan) -> list[str]:
    """Return statements that mark vanished rows, unmark rows that came back, and count both."""
    target, any_partition_sql = plan.target.sql, any_partition(plan.layout.filter_column, TARGET)
    rows = f"FROM {target} AS {TARGET} WHERE {any_partition_sql}"
    is_staged = f"EXISTS (SELECT 1 FROM {plan.staging.sql} AS {STAGED} WHERE {_same_row_condition(plan)})"
    polled_at = plan.publish.manifest.polled_at
    polled_at_sql = timestamp(polled_at or dt.datetime.combine(plan.row.day, dt.time(), tzinfo=dt.UTC))
    mark = f"{quoted(DELETED)} = TRUE, {quoted(DELETED_AT)} = {polled_at_sql}"
    counts = [
        f"SET vanished = (SELECT COUNT(*) {rows}\n    AND NOT {IS_DELETED} AND NOT {is_staged})",
        f"SET restored = (SELECT COUNT(*) {rows}\n    AND {IS_DELETED} AND {is_staged})",
    ]
    update = f"UPDATE {target} AS {TARGET} SET"
    if plan.merge is not None:
        unmark = f"{quoted(DELETED)} = FALSE, {quoted(DELETED_AT)} = NULL"
        changes = [
            f"IF vanished > 0 THEN\n    {update} {mark}\n"
            f"    WHERE {any_partition_sql} AND NOT {IS_DELETED} AND NOT {is_staged};\n  END IF",
            # Also marks rows that were written before soft deletes.
            f"IF EXISTS (SELECT 1 {rows} AND COALESCE({TARGET}.{quoted(DELETED)}, TRUE)) THEN\n    {update} {unmark}\n"
            f"    WHERE {any_partition_sql} AND COALESCE({TARGET}.{quoted(DELETED)}, TRUE) AND {is_staged};\n  END IF",
        ]
    else:
        deleted_at = f"COALESCE(IF({IS_DELETED}, {TARGET}.{quoted(DELETED_AT)}, NULL), {polled_at_sql})"
        changes = [
            f"IF EXISTS (SELECT 1 {rows}) THEN\n    DELETE {rows}\n    AND {is_staged};\n"
            f"    {update} {quoted(DELETED_AT)} = {deleted_at}, {quoted(DELETED)} = TRUE, "
            f"`day` = {literal(plan.row.day)}\n"
            f"    WHERE {any_partition_sql};\n  END IF",
        ]
    return [*counts, *changes, f"SET soft_deleted = (SELECT COUNT(*) {rows} AND {IS_DELETED})"]


def purge_soft_deleted_statement(plan: PublishPlan) -> str:
    rows = (
        f"FROM {plan.target.sql} AS {TARGET} WHERE {any_partition(plan.layout.filter_column, TARGET)} AND {IS_DELETED}"
    )
    return f"IF EXISTS (SELECT 1 {rows}) THEN\n    DELETE {rows};\n  END IF"


def keyless_published_sql(plan: PublishPlan) -> str:
    """Return SQL that counts published rows without a record key."""
    if plan.merge is not None:
        return "0"
    key = f"{TARGET}.{quoted(_record_key_column(plan).name)}"
    rows = f"{any_partition(plan.layout.filter_column, TARGET)} AND {key} IS NULL AND NOT {IS_DELETED}"
    return f"(SELECT COUNT(*) FROM {plan.target.sql} AS {TARGET} WHERE {rows})"


def keyless_published_error(target: TableRef, rows: int) -> ConfigError:
    return ConfigError(
        f"table {target.id} holds {rows:,} rows without {RECORD_KEY}, so deletes='soft' cannot tell which of them "
        "have vanished. Publish one snapshot with deletes='hard' first"
    )


def _same_row_condition(plan: PublishPlan) -> str:
    if plan.merge is None:
        key = _record_key_column(plan)
        return f"{key.expression} = {TARGET}.{quoted(key.name)}"
    return " AND ".join(f"{plan.expressions[name]} = {TARGET}.{quoted(name)}" for name in plan.merge.key)


def _record_key_column(plan: PublishPlan) -> TargetColumn:
    return next(column for column in plan.layout.columns if column.source == RECORD_KEY)


def require_no_rejects(plan: PublishPlan) -> None:
    """Raise DataError if a merged or softly deleting snapshot has rejects."""
    rejected = plan.row.counts.get("rejected", 0)
    if plan.replaces_whole and (plan.merge is not None or plan.deletes_softly) and rejected:
        raise DataError(
            f"table {plan.target.id}: {rejected:,} rows of the snapshot were set aside. Without their keys, the "
            "vanished rows cannot be determined. Correct them in the source"
        )
