"""Tasks that a file declares, or a function makes, move real rows: from SQLite into a Delta table."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.execution_time.context import OutletEventAccessors
from deltalake import DeltaTable

from tests.unit.operators.conftest import Supervisor, dag_run, supervisor, task_instance  # noqa: F401  # a fixture

pytestmark = pytest.mark.slow

PIPELINE = """\
name: orders
source: {sql: {conn_id: shop_db, table: orders, day_column: created_at}}
sink: {delta: {path: FOLDER/orders}}
start_date: 2026-10-05
conf: {spark.ui.enabled: "false"}
"""
DAG_FILE = """\
import datetime as dt

from airflow.sdk import DAG, Asset, task

from airflow_provider_connect.pipelines import dags_from
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource

dags_from("*.yaml")

with DAG("made", schedule=None, start_date=dt.datetime(2026, 10, 5, tzinfo=dt.UTC)):

    @task.connect(asset=Asset("x-made://orders"), days="2026-10-06")
    def load(name):
        source = SqlSource(conn_id="shop_db", table=name, day_column="created_at")
        return source, DeltaSink(path=f"FOLDER/{name}")

    load.expand(name=["orders", "others"])
"""


@pytest.mark.usefixtures("supervisor")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Airflow's hook leaves its pipe open
def test_a_file_s_task_and_a_function_s_task_load_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, file = tmp_path / "shop.db", tmp_path / "all.py"
    with closing(sqlite3.connect(database)) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL)")
        rows = [(number, f"2026-10-0{5 + number % 2} 1{number}:00:00") for number in range(5)]
        shop.executemany("INSERT INTO orders VALUES (?, ?)", rows)
    (tmp_path / "orders.yaml").write_text(PIPELINE.replace("FOLDER", str(tmp_path)))
    file.write_text(DAG_FILE.replace("FOLDER", str(tmp_path)))
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps({"conn_type": "sqlite", "host": str(database)}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    bag = DagBag(dag_folder=file)
    assert (sorted(bag.dags), bag.import_errors) == (["made", "orders"], {})

    def run(dag_id: str, task: Any) -> list[int]:
        """Run a task of 2026-10-05, unless it says otherwise; return how many rows each day has now."""
        events = OutletEventAccessors()
        ti = task_instance(dag_id=dag_id, task_id=task.task_id)
        context: Any = {"dag": bag.dags[dag_id], "dag_run": dag_run(dag_id=dag_id), "ti": ti, "outlet_events": events}
        task.render_template_fields(context)
        report = task.execute(context)
        assert [day["status"] for day in report["days"]] == ["published"]
        days = DeltaTable(tmp_path / "orders").to_pyarrow_table(columns=["day"]).column("day").to_pylist()
        return [sum(str(day) == f"2026-10-0{number}" for day in days) for number in (5, 6)]

    assert run("orders", bag.dags["orders"].get_task("load")) == [3, 0]
    mapped: Any = bag.dags["made"].get_task("load")
    assert run("made", mapped.unmap({"op_kwargs": {"name": "orders"}})) == [3, 2]
