"""Mistakes that a connection or a system shows: the check names each once, with its remedy, in seconds.

The mistakes of DAG files are in ``tests/unit/test_mistakes.py``.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.sdk import DAG

from airflow_provider_connect.cli.dag_files import DagFiles
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.sql import SqlSource

MAX_SECONDS = 15
SECRET = "s3cret-9c1e"
CONNECTIONS: dict[str, dict[str, Any]] = {
    "spark_default": {"conn_type": "spark", "host": "local[1]"},
    "ftp": {"conn_type": "ftp", "host": "x"},
    "pg_closed": {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "shop"},
    "pg_nowhere": {"conn_type": "postgres", "host": "db.nowhere.invalid", "schema": "shop"},
    "pg_url": {"conn_type": "postgres", "host": "postgresql://db/shop", "schema": "shop"},
    "my_closed": {"conn_type": "mysql", "host": "127.0.0.1", "port": 1, "schema": "shop"},
    "my_none": {"conn_type": "mysql", "host": "127.0.0.1"},
    "api_closed": {"conn_type": "http", "host": "http://127.0.0.1:1"},
    "api_nowhere": {"conn_type": "http", "host": "https://api.nowhere.invalid"},
    "mixpanel": {"conn_type": "mixpanel"},
    "sprak": {"conn_type": "spark", "host": "sprak://x"},
    "far": {"conn_type": "spark", "host": "spark://spark.nowhere.invalid", "port": 7077},
    "closed_kafka": {"conn_type": "kafka", "extra": json.dumps({"bootstrap.servers": "127.0.0.1:1"})},
    "folder": {"conn_type": "sqlite", "host": "/"},
}
NO_SECRET = ("mixpanel", "spark_default", "sprak", "far", "closed_kafka")
PAGES = {"paging": {"kind": "page_number", "ends": "empty_page"}, "snapshot": "replace", "stream": "a"}
REST = {"request": {"path": "/a"}, "records": {"key": ["id"], "columns": {"id": "bigint"}}, "retry_budget_seconds": 2}
DAY = {"day_column": "created", "key": ["id"]}


def sql(conn_id: str, **options: Any) -> list[str]:
    return [
        "check",
        "--source",
        "sql",
        "--options",
        json.dumps({"conn_id": conn_id, "table": "orders"} | DAY | options),
    ]


def rest(conn_id: str) -> list[str]:
    return ["check", "--source", "rest", "--options", json.dumps({"conn_id": conn_id} | PAGES | REST)]


MISTAKES: dict[str, tuple[list[str], str]] = {
    "no_connection": (sql("missing"), "Airflow has no connection 'missing'. Create it under Admin > Connections"),
    "type": (sql("ftp"), "connection 'ftp' has type 'ftp'.*requires type 'postgres' or 'mysql'"),
    "closed_postgres": (sql("pg_closed"), "connection 'pg_closed': PostgreSQL refuses the connection"),
    "unknown_host": (sql("pg_nowhere"), "connection 'pg_nowhere'.*failed to resolve host 'db.nowhere.invalid'"),
    "url_as_host": (sql("pg_url"), "host: give a name or an address, not a URL"),
    "closed_mysql": (sql("my_closed"), "connection 'my_closed'"),
    "no_database": (sql("my_none"), "name the database, or give table='database.table'"),
    "table": (sql("shop", table="ordres"), "there is no table 'ordres'. Did you mean 'orders'?"),
    "column": (sql("shop", day_column="creatd"), "there is no column 'creatd'; did you mean 'created'?"),
    "folder_as_file": (sql("folder"), "connection 'folder'"),
    "closed_api": (rest("api_closed"), "127.0.0.1:1 does not accept connections"),
    "unknown_api": (rest("api_nowhere"), "api.nowhere.invalid is unknown to this machine's name service"),
    "no_secret": (["check", "--source", "mixpanel", "--options", '{"conn_id": "mixpanel"}'], "password is empty"),
    "connector": (["check", "--source", "sqll", "--options", "{}"], "no source is called 'sqll'; did you mean 'sql'?"),
    "no_json": (["check", "--source", "sql", "--options", "{bad"], "--options must be a file or a JSON object"),
    "no_file": (["check", "--source", "sql", "--options", "/nowhere.yaml"], "cannot be read: No such file"),
    "no_day": ([*sql("shop"), "--day", "2026-13-01"], "'2026-13-01' is neither 'YYYY-MM-DD'"),
    "many_days": ([*sql("shop"), "--day", "2026-11-01..2026-11-02"], "is not one day. Write YYYY-MM-DD"),
    "dag": (["check", "shop_dayly"], "no DAG 'shop_dayly'; did you mean 'shop_daily'?"),
    "task": (["check", "shop_daily", "order"], "no ConnectOperator task 'order': did you mean 'orders'?"),
    "sink_folder": (["check", "shop_daily", "lost"], "/nowhere does not exist. Create it, or correct path="),
    "spark": (["check", "shop_daily", "sparkless"], "Airflow has no connection 'spark_lost'"),
    "spark_form": (["check", "shop_daily", "sprak"], r"'sprak://x' is not a master of Spark. Use local\[\*\]"),
    "spark_host": (["check", "shop_daily", "far"], "host 'spark.nowhere.invalid' is unknown.*Correct the connection's"),
    "closed_kafka": (["check", "shop_daily", "topic"], "no broker answers: .*check bootstrap.servers"),
    "ahead": (["check", "shop_daily", "ahead"], "2999-01-01 is in the future. Correct days="),
    "neither": (["check"], "name a DAG, or a connector with --source"),
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    database = tmp_path / "shop.db"
    with sqlite3.connect(database) as file:
        file.execute("CREATE TABLE orders (id integer PRIMARY KEY, created timestamp)")
    for name, fields in (CONNECTIONS | {"shop": {"conn_type": "sqlite", "host": str(database)}}).items():
        secret = {} if name in NO_SECRET else {"login": "reader", "password": SECRET}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields | secret))
    lake = DeltaSink(path=str(tmp_path / "orders"))
    source = SqlSource(conn_id="shop", table="orders", snapshot="replace")
    with DAG("shop_daily", schedule=None, start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC)) as dag:
        ConnectOperator(task_id="orders", source=source, sink=lake)
        ConnectOperator(task_id="lost", source=source, sink=DeltaSink(path="/nowhere/orders"))
        ConnectOperator(task_id="sparkless", source=source, sink=lake, conn_id="spark_lost")
        ConnectOperator(task_id="sprak", source=source, sink=lake, conn_id="sprak")
        ConnectOperator(task_id="far", source=source, sink=lake, conn_id="far")
        ConnectOperator(task_id="topic", source=source, sink=KafkaSink(topic="orders", conn_id="closed_kafka"))
        ConnectOperator(task_id="ahead", source=source, sink=lake, days="2999-01-01")
    files = DagFiles(dags={"shop_daily": dag})
    monkeypatch.setattr("airflow_provider_connect.sinks._kafka.preflight._PERSON_WAITS_SECONDS", 1.0)  # ten
    monkeypatch.setattr("airflow_provider_connect.cli.tasks.read_dag_files", lambda *_: files)

    def call(*arguments: str) -> str:
        args = get_parser().parse_args(["connect", *arguments])
        with pytest.raises(SystemExit) as ended:
            args.func(args)
        assert ended.value.code not in (0, None)
        printed = capsys.readouterr()
        lines = json.loads(printed.out) if printed.out.startswith("[") else []
        return "\n".join([x["found"] for x in lines if x["state"] in ("problem", "try later")] + [printed.err.strip()])

    return call


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_once_with_its_remedy(name: str, run: Callable[..., str]) -> None:
    arguments, text = MISTAKES[name]
    began = time.monotonic()
    shown = run(*arguments, "-o", "json")
    assert time.monotonic() - began < MAX_SECONDS
    assert re.search(text, shown), shown
    assert len(shown.strip().splitlines()) == 1, shown
    assert SECRET not in shown
    assert "Traceback" not in shown
