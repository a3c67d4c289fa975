"""Functions and SQL of DAG files, pipelines and ``@task.connect``, run by real tasks on real Spark."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.execution_time.context import OutletEventAccessors
from deltalake import DeltaTable

from airflow_provider_connect.errors import Failure
from airflow_provider_connect.stage.transform import Transform
from tests.integration.spark.transform.test_sql import DAYS, requests
from tests.standins.sql.shop import Shop
from tests.unit.operators.conftest import Supervisor, dag_run, supervisor, task_instance  # noqa: F401  # a fixture

pytestmark = pytest.mark.slow

DAGS = Path(__file__).parents[4] / "dags"
PIPELINE = """\
name: orders
source: {sql: {conn_id: shop_db, table: orders, day_column: created_at}}
sink: {delta: {path: FOLDER/summed}}
start_date: 2026-10-05
transform: |
  SELECT day_of_order, sum(cents) AS cents, :day AS loaded_for, '{{ dag_run.run_id }}' AS run
  FROM (SELECT date(created_at) AS day_of_order, cents FROM polled) GROUP BY day_of_order
"""
DAG_FILE = """\
import datetime as dt

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.pipelines import dags_from
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource

dags_from("*.yaml")
with DAG("made", schedule=None, start_date=dt.datetime(2026, 10, 5, tzinfo=dt.UTC)):
    ConnectOperator(
        task_id="load",
        source=SqlSource(conn_id="shop_db", table="orders", day_column="created_at"),
        sink=DeltaSink(path="FOLDER/large"),
        days="2026-10-06",
        transform="order_transforms:large",
        py_files="FOLDER/order_transforms.py",
    )
"""
MODULE = """\
LEAST_CENTS = 200


def large(orders, day):
    from pyspark.sql import functions as F

    euros = F.udf(lambda cents: cents / 100, "double")
    return orders.where(F.col("cents") >= LEAST_CENTS).select(
        "id", "record_key", "created_at", euros("cents").alias("euros"), F.lit(day).alias("loaded_for")
    )
"""
DYING = """\
import os
import signal


def dies_once(frame):
    if frame.count() and not os.path.exists("MARKER"):
        open("MARKER", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return frame.where("event IS NOT NULL")


def of_another_type(frame):
    return frame.selectExpr("record_key", "event", "1 AS time")
"""


def moved(dag: Any, task_id: str, run: Any) -> dict[str, Any]:
    """Run a task of one day; return the day's report."""
    task, events = dag.get_task(task_id), OutletEventAccessors()
    ti = task_instance(dag_id=dag.dag_id, task_id=task_id)
    context: Any = {"dag": dag, "dag_run": run, "ti": ti, "outlet_events": events}
    task.render_template_fields(context)
    report = task.execute(context)
    (day,) = report["days"]
    assert day["status"] == "published"
    assert day["transform_seconds"] > 0
    assert report["seconds"]["sql_session"] > 0
    return dict(day)


@pytest.mark.usefixtures("supervisor")
def test_a_function_in_a_file_and_a_pipeline_s_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, file = tmp_path / "shop.db", tmp_path / "all.py"
    with closing(sqlite3.connect(database)) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL, cents INTEGER)")
        rows = [(number, f"2026-10-0{5 + number % 2} 1{number}:00:00", 100 * number) for number in range(6)]
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    (tmp_path / "orders.yaml").write_text(PIPELINE.replace("FOLDER", str(tmp_path)))
    (tmp_path / "order_transforms.py").write_text(MODULE)
    file.write_text(DAG_FILE.replace("FOLDER", str(tmp_path)))
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps({"conn_type": "sqlite", "host": str(database)}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    bag = DagBag(dag_folder=file)
    assert (sorted(bag.dags), bag.import_errors) == (["made", "orders"], {})

    def run(dag_id: str) -> dict[str, Any]:
        return moved(bag.dags[dag_id], "load", dag_run(dag_id=dag_id))

    day = run("made")
    assert (day["counts"]["rows_polled"], day["rows_written"]) == (3, 2)
    large = DeltaTable(tmp_path / "large").to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["euros"], str(row["loaded_for"])) for row in large) == [
        (3, 3.0, "2026-10-06"),
        (5, 5.0, "2026-10-06"),
    ]
    day = run("orders")
    assert (day["counts"]["rows_polled"], day["rows_written"], day["digest"]) == (3, 1, None)
    (row,) = DeltaTable(tmp_path / "summed").to_pyarrow_table().to_pylist()
    assert (row["cents"], str(row["loaded_for"]), row["run"]) == (600, "2026-10-05", dag_run(dag_id="x").run_id)


@pytest.mark.usefixtures("supervisor")
def test_the_example_dag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop, day = Shop(orders_per_day=500, customers=20), dt.date(2026, 10, 5)
    shop.write(tmp_path / "shop.db", [day])
    names = pa.table({"id": list(range(19)), "name": [f"Customer {number}" for number in range(19)]})
    pq.write_table(names, tmp_path / "lake_customers.parquet")
    monkeypatch.setenv("CONNECT_DEMO_TABLE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps({"conn_type": "sqlite", "host": str(tmp_path / "shop.db")}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    dag = DagBag(dag_folder=DAGS / "sql_transform.py").dags["sql_transform"]
    orders = shop.orders(day)
    told = moved(dag, "by_product", dag_run(dag_id="sql_transform"))
    assert (told["counts"]["rows_polled"], told["rows_written"]) == (500, 5)
    assert told["digest"] is not None
    found = DeltaTable(tmp_path / "lake_by_product").to_pyarrow_table().to_pylist()
    assert {row["product"]: (row["orders"], row["cents"]) for row in found} == {
        product: (len(cents), sum(cents))
        for product in {order["product"] for order in orders}
        for cents in [[order["cents"] for order in orders if order["product"] == product]]
    }
    assert moved(dag, "with_customers", dag_run(dag_id="sql_transform"))["rows_written"] == 500
    found = DeltaTable(tmp_path / "lake_with_customers").to_pyarrow_table().to_pylist()
    assert {row["id"]: row["name"] for row in found} == {
        order["id"]: f"Customer {order['customer']}" if order["customer"] < 19 else None for order in orders
    }


def test_a_driver_that_dies_in_between_leaves_the_polled_day_to_the_next(
    submit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dying.py").write_text(DYING.replace("MARKER", str(tmp_path / "died")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    submit.transform = Transform(reference="dying:dies_once")
    assert submit.run(DAYS[:1]).process.returncode != 0
    asked = requests(submit)
    assert asked > 0
    ended = submit.run(DAYS[:1])
    (day,) = ended.report.days
    assert (day.status, day.rows_written, day.poll_seconds) == ("published", 2000, 0.0)
    assert requests(submit) == asked
    assert submit.rows() == submit.served(DAYS[:1])

    # Neither a column that the table has with another type nor a statement reaches the source.
    submit.transform = Transform(reference="dying:of_another_type")
    refused = submit.run(DAYS[1:], token="b" * 32)
    assert isinstance(refused.report.failure, Failure)
    assert refused.report.failure.type == "ConfigError"
    assert "time" in refused.report.failure.message
    assert "These are the columns of the transform's result" in refused.report.failure.message
    assert requests(submit) == asked
