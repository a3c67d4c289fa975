"""Patterns of tables, by rule alone."""

from __future__ import annotations

import pytest

from airflow_provider_connect.clients.sql.database import ListedTable
from airflow_provider_connect.sources._sql.options import SqlOptions
from airflow_provider_connect.sources._sql.streams import recall, stream_of
from airflow_provider_connect.sources._sql.table_patterns import TablePattern, choose_tables
from airflow_provider_connect.sources.sql import SqlSource

TABLES = [
    ListedTable("audit_log", "public", is_default=True),
    ListedTable("newest", "public", is_default=True, stores_rows=False),
    ListedTable("orders", "public", is_default=True),
    ListedTable("orders", "sales", is_default=False),
    ListedTable("a.b", "sales", is_default=False),
    ListedTable("x[1]", "sales", is_default=False),
    ListedTable("Orders", "sales", is_default=False),
]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["*"], ["public.audit_log", "public.orders"]),
        (["public.*", "!public.audit_*"], ["public.orders"]),
        (["!audit_log", "*.*", "!sales.*"], ["public.orders"]),
        (["*.orders"], ["public.orders", "sales.orders"]),
        (["sales.?rders"], ["sales.orders", "sales.Orders"]),
        (["newest"], ["public.newest"]),
        (["n*"], []),
        (['sales."a.b"'], ["sales.a.b"]),
        (["sales.x[1]", "sales.x[1]*"], ["sales.x[1]"]),
        (["orders", "!*"], []),
    ],
)
def test_tables_are_chosen_by_patterns(patterns: list[str], expected: list[str]) -> None:
    assert [f"{table.schema}.{table.name}" for table in choose_tables(patterns, TABLES).tables] == expected


def test_only_a_pattern_without_a_wildcard_is_missing() -> None:
    assert choose_tables(["ordes", "o*", "z*", "sales.none"], TABLES).missing == ["ordes", "sales.none"]
    assert choose_tables(["orders", "!orders"], TABLES).missing == []


def test_many_named_tables_are_not_compared_with_each_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    comparisons = []
    matches = TablePattern.matches

    def counted_matches(pattern: TablePattern, table: ListedTable) -> bool:
        comparisons.append(pattern)
        return matches(pattern, table)

    monkeypatch.setattr(TablePattern, "matches", counted_matches)
    names = [f"t{number}" for number in range(300)]
    tables = [ListedTable(name, "public", is_default=True) for name in names]
    assert choose_tables([*names, "!audit_*"], tables).tables == tables
    assert len(comparisons) == 2 * len(names)


def test_a_table_of_the_default_schema_is_one_stream_under_two_names() -> None:
    assert stream_of(TABLES[2]).choices == ("orders", "public.orders")
    assert stream_of(TABLES[3]).choices == ("sales.orders",)
    assert stream_of(TABLES[4]).choices == ('sales."a.b"',)


def test_a_table_has_the_options_of_a_task_of_its_own_also_after_a_way_as_json() -> None:
    source = SqlSource(conn_id="db", tables=["*"], parallel_streams=8, snapshot="replace", zone="Europe/Berlin")
    alone = SqlSource(conn_id="db", table="orders", snapshot="replace", zone="Europe/Berlin")
    assert source.stream_source("orders").serialize() == alone.serialize()
    assert SqlSource.from_options(source.serialize()).stream_source("orders").serialize() == alone.serialize()


@pytest.mark.parametrize(
    ("key", "default_schema", "expected"),
    [
        ("db.orders", "public", ["public.orders"]),
        ("db.orders", "", ["public.orders", "sales.orders"]),
        ("db.sales.orders", "", ["sales.orders"]),
        ("db.audit_log", "public", []),
        ("db.other.orders", "public", []),
        ("elsewhere.orders", "public", []),
    ],
)
def test_a_key_recalls_the_streams_that_it_may_name(key: str, default_schema: str, expected: list[str]) -> None:
    options: SqlOptions = SqlSource(conn_id="db", tables=["public.*", "sales.*", "!audit_*"], snapshot="replace")
    assert [stream.title for stream in recall(options, key, default_schema)] == expected
