"""SQL of write mode ``merge``: one row for each key, in whatever order days are published.

The row with the higher ``newest_by`` wins. If both are equal, or without that option, the row of the later day wins.
NULL and NaN are lower than any value.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.sql import any_partition, column_list, literal, quoted
from airflow_provider_connect.sinks._bigquery.aliases import NEWEST, STAGED, STREAM, TARGET, TOMBSTONE
from airflow_provider_connect.sinks._bigquery.names import POSITION_COLUMN
from airflow_provider_connect.stage.soft_deletes import DELETED

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._bigquery.plan import PublishPlan
    from airflow_provider_connect.sinks._bigquery.tables import MergeRule


def keyless_staged_sql(plan: PublishPlan, merge: MergeRule) -> str:
    """Return SQL that counts staged rows with NULL in the key."""
    missing = " OR ".join(f"{plan.expressions[name]} IS NULL" for name in merge.key)
    return f"(SELECT COUNT(*) FROM {plan.staging.sql} AS {STAGED} WHERE {missing})"


def merge_statements(plan: PublishPlan, merge: MergeRule) -> list[str]:
    """Return the statements that merge a staged day into the target."""
    day, stream, newest_rows = plan.row.day, str(plan.key), _newest_rows_sql(plan, merge)
    statements = []
    deleted = "FALSE"
    if merge.delete_where:
        deleted = f"COALESCE({NEWEST}.{quoted(merge.delete_where)}, FALSE)"
    if merge.tombstones:
        columns = merge.tombstone_columns
        deleting_day = f"{literal(day)}, {literal(stream)}"
        statements = [
            f"DELETE FROM {merge.tombstones.sql} AS {TOMBSTONE}\n"
            f"WHERE {TOMBSTONE}.`day` = {literal(day)} AND {TOMBSTONE}.`{STREAM}` = {literal(stream)}",
            f"INSERT INTO {merge.tombstones.sql} ({column_list((*columns, 'day', STREAM))})\n"
            f"SELECT {column_list(columns, NEWEST)}, {deleting_day} FROM ({newest_rows}) AS {NEWEST} WHERE {deleted}",
        ]
        newest_rows = (
            f"SELECT {column_list((column.name for column in plan.layout.columns), NEWEST)} "
            f"FROM ({newest_rows}) AS {NEWEST}\n"
            f"WHERE NOT EXISTS (SELECT 1 FROM {merge.tombstones.sql} AS {TOMBSTONE}\n"
            f"  WHERE {_same_key_condition(merge, TOMBSTONE)} AND NOT {_is_newer(merge, TOMBSTONE, day)})"
        )
    column_names = [column.name for column in plan.layout.columns]
    changed_names = [name for name in column_names if name.lower() not in {key.lower() for key in merge.key}]
    updates = [f"{quoted(name)} = {NEWEST}.{quoted(name)}" for name in changed_names]
    day_literal = literal(day)
    mark, live_value = (f", {quoted(DELETED)}", ", FALSE") if plan.deletes_softly else ("", "")
    when = f"WHEN MATCHED AND {_is_newer(merge, TARGET, day)}"
    delete = f"{when} AND {deleted} THEN DELETE\n" if merge.delete_where else ""
    statements.append(
        f"MERGE INTO {plan.target.sql} AS {TARGET} USING (\n{newest_rows}\n) AS {NEWEST}\n"
        f"ON {_same_key_condition(merge, TARGET)} AND {any_partition(plan.layout.filter_column, TARGET)}\n"
        f"{delete}"
        f"{when} THEN UPDATE SET {', '.join([*updates, f'`day` = {day_literal}'])}\n"
        f"WHEN NOT MATCHED AND NOT {deleted} THEN INSERT ({column_list([*column_names, 'day'])}{mark})\n"
        f"  VALUES ({column_list(column_names, NEWEST)}, {day_literal}{live_value})"
    )
    return statements


def _newest_rows_sql(plan: PublishPlan, merge: MergeRule) -> str:
    order = [f"{merge.comparable(plan.expressions[merge.newest_by])} DESC NULLS LAST"] if merge.newest_by else []
    order.append(f"{STAGED}.{quoted(POSITION_COLUMN)} DESC")
    selected_columns = ", ".join(f"{column.expression} AS {quoted(column.name)}" for column in plan.layout.columns)
    return (
        f"SELECT {selected_columns} FROM {plan.staging.sql} AS {STAGED} WHERE TRUE\n"
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {', '.join(plan.expressions[name] for name in merge.key)}"
        f" ORDER BY {', '.join(order)}) = 1"
    )


def _same_key_condition(merge: MergeRule, alias: str) -> str:
    return " AND ".join(f"{alias}.{quoted(name)} = {NEWEST}.{quoted(name)}" for name in merge.key)


def _is_newer(merge: MergeRule, alias: str, day: dt.date) -> str:
    by_day = f"({alias}.`day` IS NULL OR {alias}.`day` <= {literal(day)})"
    if merge.newest_by is None:
        return by_day
    old, new = (merge.comparable(f"{table_alias}.{quoted(merge.newest_by)}") for table_alias in (alias, NEWEST))
    is_same = f"({new} = {old} OR ({new} IS NULL AND {old} IS NULL))"
    # COALESCE: a comparison with NULL gives NULL, and so does NOT of it.
    return f"COALESCE({new} > {old} OR ({old} IS NULL AND {new} IS NOT NULL) OR ({is_same} AND {by_day}), FALSE)"
