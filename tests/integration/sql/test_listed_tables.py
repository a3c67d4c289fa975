"""The tables that patterns choose in real databases."""

from __future__ import annotations

import pytest

from airflow_provider_connect.clients.sql.database import ListedTable
from airflow_provider_connect.sources._sql.table_patterns import choose_tables
from tests.equipment.sql.fixtures import OwnDatabase

pytestmark = pytest.mark.slow


def chosen(tables: list[ListedTable], *patterns: str) -> list[str]:
    return [table.name for table in choose_tables(patterns, tables).tables]


def test_wildcards_name_tables_and_a_name_names_a_view_too(every: OwnDatabase) -> None:
    every.run(
        "CREATE TABLE orders (id int)",
        "CREATE TABLE stock (id int)",
        "CREATE VIEW newest AS SELECT * FROM orders",
    )
    with every.open() as database:
        tables = database.list_tables()
    assert chosen(tables, "*") == ["orders", "stock"]
    assert chosen(tables, "newest", "s*") == ["newest", "stock"]
    schema = tables[0].schema
    assert chosen(tables, f"{schema}.*", f"!{schema}.stock") == ["orders"]
    assert all(table.is_default for table in tables)


def test_partitions_and_other_schemas_of_postgresql(postgresql: OwnDatabase) -> None:
    postgresql.run(
        "CREATE TABLE events (id int, day date) PARTITION BY RANGE (day)",
        "CREATE TABLE events_old PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
        "CREATE SCHEMA sales",
        'CREATE TABLE sales."Order Lines" (id int)',
        "CREATE TABLE sales.events (id int)",
    )
    with postgresql.open() as database:
        tables = database.list_tables()
    assert [(table.schema, table.name, table.is_default) for table in tables] == [
        ("public", "events", True),
        ("sales", "Order Lines", False),
        ("sales", "events", False),
    ]
    assert chosen(tables, "*") == ["events"]
    assert chosen(tables, "*.events") == ["events", "events"]
    assert chosen(tables, 'sales."Order Lines"') == ["Order Lines"]
