"""Commands on a task of many tables: it is checked and run as a whole, and its streams are named singly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.equipment.sql.shop_file import ShopFile
from tests.integration.cli.conftest import Run, lines

pytestmark = pytest.mark.slow

DAGS = """
from datetime import datetime
from airflow.sdk import DAG
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource

with DAG("cli_shop", schedule=None, start_date=datetime(2026, 1, 1)):
    ConnectOperator(
        task_id="load",
        source=SqlSource(conn_id="shop_db", tables=["*"], snapshot="replace"),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/{table}"),
        conn_id="cli_spark",
    )
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShopFile]:
    with pytest.MonkeyPatch.context() as patch:
        file = ShopFile(tmp_path_factory.mktemp("shop") / "shop.db", patch)
        file.make("orders", "customers")
        yield file


def test_a_task_of_many_tables_is_checked_run_and_its_streams_named(run: Run, lake: Path, shop: ShopFile) -> None:
    code, out, err = run("check", "cli_shop", "-o", "json")
    assert code == 0, err + out
    assert {"what": "streams", "state": "ok", "found": "2 of 2 have no problem", "task": "cli_shop.load"} in lines(out)
    code, _, err = run("ledger", "cli_shop")
    assert (code, "None of them is loaded yet" in err) == (78, True)

    code, out, err = run("run", "cli_shop", "-o", "json")
    assert code == 0, err
    assert [(line["stream"], line["status"]) for line in lines(out)] == [
        ("main.customers", "published"),
        ("main.orders", "published"),
    ]
    code, out, err = run("offsets", "list", "cli_shop", "-o", "json")
    assert [line["stream"] for line in lines(out)] == ["shop_db.customers", "shop_db.orders"]
    code, _, err = run("offsets", "show", "cli_shop")
    assert (code, "Name one of load#customers, load#orders" in err) == (78, True)
    code, out, err = run("offsets", "show", "cli_shop", "load#orders", "-o", "json")
    assert code == 0, err
    code, out, err = run("ledger", "cli_shop", "-o", "json")
    assert [line["task"] for line in lines(out)] == ["cli_shop.load#customers", "cli_shop.load#orders"]
    code, out, err = run("preview", "cli_shop", "load#orders", "--rows", "2", "-o", "json")
    assert [line["amount"] for line in lines(out)] == ["10", "20"]
    code, _, err = run("preview", "cli_shop", "load#ordesr")
    assert (code, "has loaded no stream 'ordesr'" in err) == (78, True)

    code, _, err = run("run", "cli_shop", "load#orders")
    assert code == 0, err
    versions = {name: len(DeltaTable(str(lake / name)).history()) for name in ("orders", "customers")}
    assert versions["orders"] == versions["customers"] + 1
    shop.run('CREATE TABLE broken (id INTEGER PRIMARY KEY, "day" TEXT)')
    code, out, err = run("check", "cli_shop", "-o", "json")
    assert code == 1
    assert [line["what"] for line in lines(out) if line["state"] == "problem"] == ["main.broken: source: the database"]
