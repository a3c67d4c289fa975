"""Many tables of real databases in one task: which are chosen, and days in which they come, go, grow and change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.sql.database import ListedTable
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sources._sql.table_patterns import choose_tables
from tests.equipment.airflow.streams_task import StreamsTask, set_connection
from tests.equipment.sql.changing_tables import ChangingTables, Row
from tests.equipment.sql.fixtures import OwnDatabase

pytestmark = pytest.mark.slow

DAYS = range(5, 13)
FEW_TABLES = 6


@pytest.fixture
def task(either: OwnDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamsTask:
    set_connection(monkeypatch, either.connection(), "shop_db")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    (tmp_path / "lake").mkdir()
    return StreamsTask(tmp_path / "lake")


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.campaign)])
def test_tables_equal_their_delta_tables_each_day(either: OwnDatabase, task: StreamsTask, count: int) -> None:
    tables = ChangingTables(either)
    tables.add(count)
    for day in DAYS:
        report = task.run(task.operator(["*"]), day=day)
        assert len(report["streams"]) == len(tables.tables)
        assert {name.rpartition(".")[2] for name in report["gone"]} == tables.dropped.keys()
        for name, expected in (tables.tables | tables.dropped).items():
            width = tables.widths[name]
            assert delta_rows(task.folder / name, width) == expected, f"{name} on day {day}"
        tables.change()


def test_tables_equal_their_bigquery_tables_each_day(
    either: OwnDatabase,
    task: StreamsTask,
    google_connection: Connection,
    dataset: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_connection(monkeypatch, google_connection, "google_cloud_default")
    tables = ChangingTables(either, seed=1)
    tables.add(FEW_TABLES)
    sink = BigQuerySink(table=f"{dataset}.shop_{{table}}")
    with BigQueryApi.open(google_connection) as api:
        for day in list(DAYS)[:4]:
            task.run(task.operator(["*"], sink=sink, staging=str(tmp_path / "stage")), day=day)
            assert not list((tmp_path / "stage").rglob("*.parquet"))
            for name, expected in (tables.tables | tables.dropped).items():
                found = api.client.query_and_wait(f"SELECT * FROM {dataset}.shop_{name}")
                assert rows_by_id(map(dict, found), tables.widths[name]) == expected, f"{name} on day {day}"
            tables.change()


def delta_rows(path: Path, width: int) -> dict[int, Row]:
    return rows_by_id(DeltaTable(str(path)).to_pyarrow_table().to_pylist(), width)


def rows_by_id(rows: Any, width: int) -> dict[int, Row]:
    return {row["id"]: (row["id"], *(row[f"c{at}"] for at in range(1, width + 1))) for row in rows}


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
    (schema,) = {table.schema for table in tables if table.name == "newest"}
    assert chosen(tables, f"{schema}.*", f"!{schema}.stock") == ["orders"]
    assert all(table.is_default == (table.schema == schema) for table in tables), "the server has others' databases"


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
