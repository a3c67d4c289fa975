"""Queries on MySQL's information schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider_connect.clients.sql.database import Index
from airflow_provider_connect.errors import RetriableError

_INTERLEAVED_LOCK_MODE = 2
_ENFORCING_ENGINES = {"innodb", "myisam", "aria", "memory", "ndbcluster", "rocksdb"}
"""Engines that enforce a unique key over all rows of a table.

MERGE, FEDERATED, Spider and CONNECT do not: https://dev.mysql.com/doc/refman/9.7/en/merge-table-problems.html
(2026-11).
"""
# By default MySQL 8 returns statistics that may be a day old.
DISABLE_CACHED_STATISTICS = "SET SESSION information_schema_stats_expiry = 0"
REPLICA_STATUS = "SHOW REPLICA STATUS"
MARIADB_REPLICA_STATUS = "SHOW ALL SLAVES STATUS"


TABLES_QUERY = """
SELECT IF(table_schema = database(), '', table_schema), table_name FROM information_schema.tables
WHERE table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY 1, 2 LIMIT 10000
"""


LIST_QUERY = """
SELECT table_name, table_schema, coalesce(table_schema = database(), 0), table_type <> 'VIEW'
FROM information_schema.tables
WHERE table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
  AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'VIEW')
ORDER BY 2, 1
"""
"""Tables and views that the user may see."""


def columns_query(schema: str, table: str) -> str:
    """Return the query for columns: name, type, nullability and character set."""
    return f"""
SELECT column_name, column_type, is_nullable, character_set_name
FROM information_schema.columns
WHERE table_schema = {schema} AND table_name = {table}
ORDER BY ordinal_position
"""


CHARSETS_QUERY = "SELECT id, character_set_name FROM information_schema.collations WHERE id IS NOT NULL"


def checks_query(schema: str, table: str) -> str:
    """Return the query for a table's check constraints in MariaDB."""
    return f"""
SELECT check_clause FROM information_schema.check_constraints
WHERE constraint_schema = {schema} AND table_name = {table}
"""


def indexes_query(schema: str, table: str) -> str:
    """Return the query for the columns and expressions of each index, in order."""
    return f"""
SELECT s.index_name, s.column_name, s.non_unique = 0, s.sub_part, s.index_type, t.engine
FROM information_schema.statistics s, information_schema.tables t
WHERE s.table_schema = {schema} AND s.table_name = {table} AND t.table_schema = {schema} AND t.table_name = {table}
ORDER BY s.index_name <> 'PRIMARY', s.index_name, s.seq_in_index
"""


def row_estimate_query(schema: str, table: str) -> str:
    """Return the query for the engine's estimate of a table's rows."""
    return f"""
SELECT table_rows FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {table}
"""


def counter_query(schema: str, table: str, column: str) -> str:
    """Return the query for a column's next AUTO_INCREMENT number and its server settings.

    The number is NULL on a read-only server.
    """
    return f"""
SELECT CASE WHEN cast(@@global.read_only AS char) IN ('0', 'OFF') THEN t.auto_increment END,
  @@innodb_autoinc_lock_mode, @@auto_increment_increment, t.engine
FROM information_schema.columns c, information_schema.tables t
WHERE c.table_schema = {schema} AND c.table_name = {table} AND c.column_name = {column}
  AND c.extra LIKE '%auto_increment%' AND t.table_schema = {schema} AND t.table_name = {table}
"""


def counter_gaps(lock_mode: int, step: int, engine: str) -> tuple[str, ...]:
    """Return the reasons for lower AUTO_INCREMENT numbers after higher ones."""
    reasons = []
    if engine.lower() == "innodb" and lock_mode == _INTERLEAVED_LOCK_MODE:
        reasons.append("with innodb_autoinc_lock_mode=2, statements that insert many rows take numbers in turns")
    if step > 1:
        reasons.append(f"with auto_increment_increment={step} several servers may each give their own numbers")
    return tuple(reasons)


def primary_key_columns(parts: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return the primary key's columns from rows of :func:`indexes_query`, partly indexed texts included."""
    return [column for name, column, *_ in parts if name == "PRIMARY"]


def group_indexes(parts: Iterable[tuple[Any, ...]]) -> list[Index]:
    """Build indexes from rows of :func:`indexes_query`."""
    by_name: dict[str, Index] = {}
    incomplete: set[str] = set()
    for name, column, is_unique, length, kind, engine in parts:
        if column is None or length is not None:
            incomplete.add(name)
        if name not in incomplete:
            is_enforced = bool(is_unique) and str(engine).lower() in _ENFORCING_ENGINES
            index_so_far = by_name.get(name, Index(name, (), is_unique=is_enforced, is_ordered=kind == "BTREE"))
            by_name[name] = index_so_far._replace(columns=(*index_so_far.columns, column))
    indexes = [index._replace(is_unique=index.is_unique and index.name not in incomplete) for index in by_name.values()]
    return [index for index in indexes if index.is_unique or index.is_ordered]


def lag_seconds(status: list[dict[str, Any]]) -> float | None:
    """Return a replica's largest lag from its status, None without sources.

    :raises RetriableError: replication is stopped.
    """
    lags = [row.get("Seconds_Behind_Source", row.get("Seconds_Behind_Master")) for row in status]
    if any(lag is None for lag in lags):
        raise RetriableError(
            "the replica does not replicate at the moment, so the age of its rows is unknown. Start its "
            "replication, or name another server in the connection"
        )
    return max((float(lag) for lag in lags if lag is not None), default=None)
