"""A label of the target with the mode that it is written by. A merged table and a table of days exclude each other.

In a table of days a key may have several rows, of which a merge would update all. In a merged table a row lies in the
day of its newest version, so that the reload of a day would delete rows that the day no longer brings.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.clients.bigquery.sql import any_partition, column_list
from airflow_provider_connect.clients.bigquery.tables import find_table, retry_if_stale
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.aliases import TARGET
from airflow_provider_connect.sinks._bigquery.target import schema_change_failure

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger
    from airflow_provider_connect.sinks._bigquery.tables import TargetTables
    from airflow_provider_connect.sinks._bigquery.target import PreparedTarget

MODE_LABEL = "connect_write_mode"
_MERGE = "merge"


def require_write_mode(api: BigQueryApi, tables: TargetTables, ledger: BigQueryLedger, target: PreparedTarget) -> None:
    """Refuse a mode that the target's rows do not fit, and label a target without a label.

    :raises ConfigError: the published rows were merged, and would not be now, or the other way round.
    """
    mode = tables.options.write_mode
    label = (target.table.labels or {}).get(MODE_LABEL)
    if label == mode:
        return
    published = bool(len(ledger.days()))
    if published and label is not None and _MERGE in (label, mode):
        raise _other_mode_error(tables, label)
    if published and label is None and mode == _MERGE and _has_repeated_keys(api, tables, target):
        raise _other_mode_error(tables, "replace")
    _label_with_mode(api, tables, mode)


def _other_mode_error(tables: TargetTables, label: str) -> ConfigError:
    options, table = tables.options, tables.target
    reason = (
        "so a key may have several rows, and a merge would update all of them"
        if options.write_mode == _MERGE
        else "and this mode would delete or double rows that lie in the day of their newest version"
    )
    return ConfigError(
        f"table {table.id} was written with write_mode={label!r}, {reason}. Set write_mode={label!r}, or load into a "
        "new table"
    )


def _has_repeated_keys(api: BigQueryApi, tables: TargetTables, target: PreparedTarget) -> bool:
    """Return whether a key has several rows, in a table of earlier versions, which set no label."""
    rule = tables.merge_rule(target.columns)
    assert rule is not None
    keys, condition = column_list(rule.key, TARGET), any_partition(target.filter_column, TARGET)
    sql = (
        f"SELECT 1 AS repeated FROM {tables.target.sql} AS {TARGET} WHERE {condition} "
        f"GROUP BY {keys} HAVING COUNT(*) > 1 LIMIT 1"
    )
    rows, _ = api.query(sql, action=f"look for repeated keys in {tables.target.id}", labels={"connect": "preflight"})
    return bool(rows)


def _label_with_mode(api: BigQueryApi, tables: TargetTables, mode: str) -> None:
    def add_label() -> None:
        table = find_table(api, tables.target)
        if table is None:  # a write reports a target that is gone
            return
        table.labels = {**(table.labels or {}), MODE_LABEL: mode}
        api.call(f"label {tables.target.id} with its write_mode", api.client.update_table, table, ["labels"])

    retry_if_stale(add_label, schema_change_failure(tables.target))
