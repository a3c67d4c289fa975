"""Counts the rows that a reload adds, changes and removes, by one query.

Values are compared as text: NULL equals NULL and JSON's ``null``.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.clients.bigquery.sql import any_partition, column_list, literal, quoted
from airflow_provider_connect.clients.bigquery.tables import find_table
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.sinks._bigquery.aliases import FILLED, SPAN, STAGED, TARGET
from airflow_provider_connect.sinks._bigquery.names import DAY
from airflow_provider_connect.sinks._bigquery.partitions import table_partitioning
from airflow_provider_connect.sinks._bigquery.snapshot import IS_DELETED
from airflow_provider_connect.sinks._bigquery.spans import span_lookups
from airflow_provider_connect.stage.differences import Differences
from airflow_provider_connect.stage.key_digest import RECORD_KEY

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.sinks._bigquery.columns.types import TargetColumn
    from airflow_provider_connect.sinks._bigquery.plan import PublishPlan

_log = logging.getLogger(__name__)
DifferencesMode = Literal["counts", "off"]
COUNT_SECONDS = 300.0
"""Time limit of the query."""


def count_differences(
    api: BigQueryApi, plan: PublishPlan, labels: Mapping[str, str], mode: DifferencesMode = "counts"
) -> PublishPlan:
    """Return the plan with the counts ``added``, ``changed`` and ``vanished``, unless ``mode`` is ``off``.

    Errors are logged and leave the plan unchanged.
    """
    if not is_reload(plan):
        return plan
    if mode == "off":
        _log.info("day %s: its changed rows are not counted (differences='off')", plan.publish.day)
        return plan
    action = f"count the changes of {plan.publish.day} in {plan.target.id}"
    try:
        with api.time_limit(COUNT_SECONDS):
            if not (plan.replaces_whole or _is_day_in_one_partition(api, plan)):
                return plan  # the query would read the whole table
            [difference_counts], _ = api.query(differences_query(plan), action=action, labels=dict(labels))
    except ConnectError as error:
        _log.warning("day %s: its changed rows could not be counted: %s", plan.publish.day, error)
        return plan
    counts = plan.row.counts | Differences(**difference_counts).model_dump()
    return replace(plan, row=plan.row.model_copy(update={"counts": counts}))


def is_reload(plan: PublishPlan) -> bool:
    """Return True if the publish replaces one of the same day, and rows have a record key."""
    seen = plan.publish.manifest.seen
    return (
        plan.write_mode == "replace"
        and seen.day == plan.row.day
        and plan.span_number in (None, seen.span)
        and _record_key_column(plan.layout.columns) is not None
    )


def is_partitioned_by_day(table: Any) -> bool:
    return table is not None and table_partitioning(table)[0] == DAY


def _is_day_in_one_partition(api: BigQueryApi, plan: PublishPlan) -> bool:
    if plan.layout.table_changes is None:
        return is_partitioned_by_day(find_table(api, plan.target))
    return all(part.is_partitioned_by_day for part in plan.layout.table_changes if part.had_rows)


def differences_query(plan: PublishPlan) -> str:
    """Return the query that counts.

    Columns without any value in the earlier state are not compared. Identical rows of one key are paired first.
    """
    key = _record_key_column(plan.layout.columns)
    assert key is not None
    columns = [column for column in plan.layout.columns if column is not key]
    filled = ", ".join(f"{_is_filled(column)} AS c{number}" for number, column in enumerate(columns)) or "TRUE AS none"
    earlier_digest = _digest_sql([f"{TARGET}.{quoted(column.name)}" for column in columns])
    staged_digest = _digest_sql([column.expression for column in columns])
    return f"""WITH {FILLED} AS (
  SELECT {filled}
  {_earlier_state(plan)}
), states AS (
  SELECT TRUE AS is_later, {key.expression} AS key, {staged_digest} AS version
  FROM {plan.staging.sql} AS {STAGED} CROSS JOIN {FILLED}
  UNION ALL
  SELECT FALSE AS is_later, {TARGET}.{quoted(key.name)} AS key, {earlier_digest} AS version
  {_earlier_state(plan, f" CROSS JOIN {FILLED}")}
), versions AS (
  SELECT key, COUNTIF(is_later) AS later, COUNTIF(NOT is_later) AS earlier FROM states GROUP BY key, version
), row_keys AS (
  SELECT key, SUM(later) AS later, SUM(earlier) AS earlier, SUM(LEAST(later, earlier)) AS same
  FROM versions GROUP BY key
)
SELECT COALESCE(SUM(later - LEAST(later, earlier)), 0) AS added,
  COALESCE(SUM(LEAST(later, earlier) - same), 0) AS changed,
  COALESCE(SUM(earlier - LEAST(later, earlier)), 0) AS vanished
FROM row_keys"""


def _earlier_state(plan: PublishPlan, joined: str = "") -> str:
    this_day = f"{TARGET}.{quoted(DAY)} = {literal(plan.row.day)}"
    if plan.marks_spans:
        first_span = span_lookups(plan)["first_span"]
        own = f"{TARGET}.{quoted(SPAN)} = {plan.span_number}"
        this_day += f" AND ({own} OR ({TARGET}.{quoted(SPAN)} IS NULL AND {plan.span_number} <= {first_span}))"
    if plan.layout.table_changes is None:
        if plan.deletes_softly:
            this_day += f" AND NOT {IS_DELETED}"
        any_partition_sql = any_partition(plan.layout.filter_column, TARGET)
        return f"FROM {plan.target.sql} AS {TARGET}{joined} WHERE {this_day} AND {any_partition_sql}"
    tables_with_rows = [
        (plan.target.sibling(part.name), part.filter_column) for part in plan.layout.table_changes if part.had_rows
    ]
    # Without such tables, the empty head stands for them.
    tables = tables_with_rows or [(plan.target, plan.layout.filter_column)]
    columns = column_list((column.name for column in plan.layout.columns), TARGET)
    selects = "\n    UNION ALL ".join(
        f"SELECT {columns} FROM {table_ref.sql} AS {TARGET} WHERE {this_day} AND {any_partition(filter_column, TARGET)}"
        for table_ref, filter_column in tables
    )
    return f"FROM (\n    {selects}\n  ) AS {TARGET}{joined}"


def _record_key_column(columns: Sequence[TargetColumn]) -> TargetColumn | None:
    return next((column for column in columns if column.source == RECORD_KEY), None)


def _is_filled(column: TargetColumn) -> str:
    name = f"{TARGET}.{quoted(column.name)}"
    if column.target["mode"] == "REPEATED":  # never NULL
        return f"COUNTIF(ARRAY_LENGTH({name}) > 0) > 0"
    return f"COUNT({name}) > 0"


def _digest_sql(values: Sequence[str]) -> str:
    parts = ", ".join(f"IF({FILLED}.c{number}, {value}, NULL) AS c{number}" for number, value in enumerate(values))
    return f"FARM_FINGERPRINT(TO_JSON_STRING(STRUCT({parts or '1 AS none'})))"
