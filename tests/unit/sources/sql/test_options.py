"""Options of the SQL source: combinations, and one error that names all problems."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.sql.database import Query, Table
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.source import ALONE
from airflow_provider_connect.sources.sql import SqlSource

DAYS: dict[str, Any] = {"conn_id": "shop_db", "table": "orders", "day_column": "created_at"}
WHOLE: dict[str, Any] = {"conn_id": "shop_db", "table": "orders", "snapshot": "replace"}
CURSOR: dict[str, Any] = {
    "conn_id": "shop_db",
    "table": "orders",
    "mode": "incrementing",
    "incrementing_column": "id",
}


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("orders", Table("orders")),
        ("sales.orders", Table("orders", "sales")),
        ('"a.b"."c""d"', Table('c"d', "a.b")),
        ("Sales.Order lines", Table("Order lines", "Sales")),
    ],
)
def test_a_table_is_named_as_the_database_has_it(text: str, table: Table) -> None:
    assert SqlSource(**WHOLE | {"table": text, "stream": "s"}).table_or_query == table


@pytest.mark.parametrize("text", ["", "a.b.c", ".a", "a.", 'a"b', " "])
def test_a_table_name_that_cannot_be_parsed_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"table: write it as orders or sales\.orders"):
        SqlSource(**WHOLE | {"table": text})


def test_the_stream_is_the_table_by_default() -> None:
    assert SqlSource(**WHOLE | {"table": "sales.orders"}).stream_key == "shop_db.sales.orders"
    assert SqlSource(**WHOLE | {"stream": "mine"}).stream_key == "shop_db.mine"
    assert SqlSource(
        conn_id="c", query="SELECT 1 AS a", key=["a"], snapshot="daily", stream="q"
    ).table_or_query == Query("SELECT 1 AS a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conn_id": "c", "snapshot": "replace"}, "set one of table, tables and query"),
        (WHOLE | {"query": "SELECT 1"}, "set one of table, tables and query"),
        ({"conn_id": "c", "snapshot": "replace", "query": "SELECT 1", "key": ["a"]}, "a query has no name: set one"),
        ({"conn_id": "c", "snapshot": "replace", "query": "SELECT 1", "stream": "s"}, "a query has no primary key"),
        (WHOLE | {"table": "order lines"}, "stream: the table's name cannot be part"),
        (WHOLE | {"stream": "a b"}, "stream: a stream needs a name"),
        (WHOLE | {"day_column": "at"}, "set one of day_column, snapshot and mode"),
        ({"conn_id": "c", "table": "orders"}, "set one of day_column, snapshot and mode"),
        (WHOLE | {"db_timezone": "US/Pacific"}, "db_timezone: only day_column and timestamp_column use it"),
        (DAYS | {"parallel_chunks": 2}, "parallel_chunks: a day is read in one piece"),
        (DAYS | {"consistency": "chunk"}, "consistency: a day is read in one piece"),
        (DAYS | {"zone": "Mars"}, "zone: unknown time zone 'Mars'"),
        (DAYS | {"columns": []}, "columns: name at least one"),
        (DAYS | {"columns": ["a", "a"]}, "columns: name at least one column, and none twice"),
        (DAYS | {"columns": ["Day"]}, "columns: column 'Day' has the name of a column of this package"),
        (DAYS | {"columns": ["a"], "rename": {"b": "c"}}, "rename: 'b' is not one of columns"),
        (DAYS | {"exclude_columns": ["b"], "rename": {"b": "c"}}, "rename: 'b' is one of exclude_columns"),
        (DAYS | {"rename": {"b": ""}}, "rename: a name is empty"),
        (DAYS | {"columns": ["a"], "key": ["b"]}, "columns: 'b' is part of the key"),
        (DAYS | {"columns": ["a"], "exclude_columns": ["b"]}, "exclude_columns: set either columns or exclude_columns"),
        (DAYS | {"exclude_columns": ["a"], "key": ["a"]}, "exclude_columns: 'a' is part of the key: read it"),
        (DAYS | {"day_column_unit": "seconds", "db_timezone": "UTC"}, "db_timezone: seconds since 1970 have no zone"),
        (DAYS | {"where": "  "}, "where: it is empty"),
        (
            DAYS | {"mode": "timestamp", "timestamp_column": "at"},
            "set one of day_column, snapshot and mode",
        ),
        (CURSOR | {"mode": "newest"}, "mode: Input should be 'incrementing', 'timestamp' or 'timestamp+incrementing'"),
        (CURSOR | {"mode": "timestamp"}, "timestamp_column: mode='timestamp' needs it"),
        (CURSOR | {"mode": "timestamp"}, "incrementing_column: only a mode with 'incrementing' uses it"),
        (CURSOR | {"timestamp_delay_seconds": 60}, "timestamp_delay_seconds: only a mode with 'timestamp' uses it"),
        (WHOLE | {"snapshot_mode": "no_data"}, "snapshot_mode: only a mode uses it"),
        (
            CURSOR | {"parallel_chunks": 2, "snapshot_mode": "no_data"},
            "parallel_chunks: snapshot_mode='no_data'",
        ),
        (
            CURSOR | {"snapshot_mode": "always"},
            "snapshot_mode: 'always' has another name here: set snapshot='replace', without mode",
        ),
        (
            CURSOR | {"snapshot_mode": "never"},
            "snapshot_mode: 'never' has another name here: set snapshot_mode='no_data'",
        ),
        (CURSOR | {"snapshot_mode": "recovery"}, "snapshot_mode: Input should be 'initial', 'no_data', 'initial_only'"),
        (CURSOR | {"mode": "bulk"}, "mode: 'bulk' has another name here: set snapshot='replace', without mode"),
        (DAYS | {"decimals": "round"}, "decimals: set 'exact', 'string', 'double', or a type"),
        (DAYS | {"decimals": "decimal(39,9)"}, "decimals: set 'exact', 'string', 'double', or a type"),
        (DAYS | {"decimals": "decimal(3,4)"}, "decimals: set 'exact', 'string', 'double', or a type"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SqlSource(**options)
    assert message in str(caught.value)


def test_one_error_names_all_problems() -> None:
    with pytest.raises(ConfigError) as caught:
        SqlSource(conn_id="c", query="SELECT 1", parallel_chunks=2)
    assert [part.split(":")[0] for part in str(caught.value).removeprefix("SqlSource: ").split("; ")] == [
        "stream",
        "key",
        "day_column",
        "parallel_chunks",
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("sqlite", {}, "host: give the path"),
        ("postgres", {"host": "postgres://db", "path": "shop"}, "host: give a name or an address, not a URL"),
        ("mysql", {"host": "user:secret@db", "path": "shop"}, "host: give a name or an address, not a URL"),
        ("postgres", {"host": "db"}, "its schema field is empty: name the database"),
        ("mysql", {"host": "db"}, "schema: name the database, or give table='database.table'"),
    ],
)
def test_a_wrong_connection_is_a_problem_without_network(kind: str, fields: dict[str, Any], message: str) -> None:
    connection = Connection(conn_id="shop_db", conn_type=kind, password=SecretStr("canary"), **fields)
    (problem,) = SqlSource(**DAYS).check(connection)
    assert message in problem
    assert "secret" not in problem


def test_a_connection_of_another_type_is_refused_when_it_is_opened() -> None:
    """Airflow's task refuses it earlier, by the source's connection types."""
    with (
        SqlSource(**DAYS).open(Connection(conn_id="shop_db", conn_type="oracle"), ALONE) as poller,
        pytest.raises(ConfigError, match="type 'oracle' is not supported: use postgres, mysql or sqlite"),
    ):
        poller.schema()


@pytest.mark.parametrize("kind", ["sqlite", "mysql"])
def test_parallel_chunks_without_shared_snapshots_need_consistency_chunk(kind: str) -> None:
    connection = Connection(conn_id="shop_db", conn_type=kind, host="/tmp/shop.db", path="shop")
    assert SqlSource(**WHOLE | {"parallel_chunks": 1}).check(connection) == []
    (problem,) = SqlSource(**WHOLE | {"parallel_chunks": 2}).check(connection)
    assert problem.startswith("parallel_chunks: ")
    assert problem.endswith("leave it out, or set consistency='chunk'")
    assert SqlSource(**WHOLE | {"parallel_chunks": 2, "consistency": "chunk"}).check(connection) == []


@pytest.mark.parametrize("kind", ["sqlite", "mysql", "jdbc"])
def test_row_security_is_refused_except_for_postgresql(kind: str) -> None:
    fields = {"host": "jdbc:derby:shop", "extra": {"driver_class": "D"}} if kind == "jdbc" else {"host": "db"}
    connection = Connection(conn_id="shop_db", conn_type=kind, path="shop", **fields)
    source = SqlSource(**WHOLE | {"row_security": "accept"})
    assert source.check(connection)[-1] == "row_security: only connections of type postgres support it"


def test_a_mysql_table_may_name_its_database() -> None:
    connection = Connection(conn_id="shop_db", conn_type="mysql", host="db")
    assert SqlSource(**WHOLE | {"table": "shop.orders"}).check(connection) == []
