"""Functions and SQL of DAG files, pipelines and ``@task.connect``, run by real tasks on real Spark."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.execution_time.context import OutletEventAccessors
from deltalake import DeltaTable

from airflow_provider_connect.errors import Failure
from airflow_provider_connect.stage.transform import Given
from airflow_provider_connect.submit.functions import shipped
from tests.integration.spark.transform.test_sql import DAYS, requests
from tests.unit.operators.conftest import Supervisor, dag_run, supervisor, task_instance  # noqa: F401  # a fixture

pytestmark = pytest.mark.slow

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

from airflow.sdk import DAG, Asset, task
from pyspark_free_helpers import in_euros

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.pipelines import dags_from
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource

LEAST_CENTS = 200


def large(orders, day):
    from pyspark.sql import functions as F

    euros = F.udf(in_euros, "double")
    return orders.where(F.col("cents") >= LEAST_CENTS).select(
        "id", "record_key", "created_at", euros("cents").alias("euros"), F.lit(day).alias("loaded_for")
    )


dags_from("*.yaml")
with DAG("made", schedule=None, start_date=dt.datetime(2026, 10, 5, tzinfo=dt.UTC)):
    ConnectOperator(
        task_id="load",
        source=SqlSource(conn_id="shop_db", table="orders", day_column="created_at"),
        sink=DeltaSink(path="FOLDER/large"),
        days="2026-10-06",
        transform=large,
    )
"""


@pytest.mark.usefixtures("supervisor")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Airflow's hook leaves its pipe open
def test_a_dag_file_s_function_and_a_pipeline_s_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, file = tmp_path / "shop.db", tmp_path / "all.py"
    with closing(sqlite3.connect(database)) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL, cents INTEGER)")
        rows = [(number, f"2026-10-0{5 + number % 2} 1{number}:00:00", 100 * number) for number in range(6)]
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    (tmp_path / "orders.yaml").write_text(PIPELINE.replace("FOLDER", str(tmp_path)))
    (tmp_path / "pyspark_free_helpers.py").write_text("def in_euros(cents):\n    return cents / 100\n")
    file.write_text(DAG_FILE.replace("FOLDER", str(tmp_path)))
    monkeypatch.syspath_prepend(str(tmp_path))  # as Airflow does with a bundle
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps({"conn_type": "sqlite", "host": str(database)}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    bag = DagBag(dag_folder=file)
    assert (sorted(bag.dags), bag.import_errors) == (["made", "orders"], {})

    def run(dag_id: str) -> dict[str, Any]:
        task: Any = bag.dags[dag_id].get_task("load")
        events = OutletEventAccessors()
        ti = task_instance(dag_id=dag_id, task_id=task.task_id)
        context: Any = {"dag": bag.dags[dag_id], "dag_run": dag_run(dag_id=dag_id), "ti": ti, "outlet_events": events}
        task.render_template_fields(context)
        report = task.execute(context)
        (day,) = report["days"]
        assert day["status"] == "published"
        assert day["transform_seconds"] > 0
        assert report["seconds"]["sql_session"] > 0
        return dict(day)

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


def test_a_driver_that_dies_in_between_leaves_the_polled_day_to_the_next(submit: Any, tmp_path: Path) -> None:
    marker = str(tmp_path / "died")

    def dies_once(frame: Any) -> Any:
        if frame.count() and not os.path.exists(marker):  # noqa: PTH110  # it runs in the driver
            open(marker, "w").close()  # noqa: PTH123, SIM115
            os.kill(os.getpid(), signal.SIGKILL)
        return frame.where("event IS NOT NULL")

    submit.transform = shipped(Given(dies_once))
    assert submit.run(DAYS[:1]).process.returncode != 0
    asked = requests(submit)
    assert asked > 0
    ended = submit.run(DAYS[:1])
    (day,) = ended.report.days
    assert (day.status, day.rows_written, day.poll_seconds) == ("published", 2000, 0.0)
    assert requests(submit) == asked
    assert submit.rows() == submit.served(DAYS[:1])

    # Neither a column that the table has with another type nor a statement reaches the source.
    wrong: list[tuple[Callable[[Any], Any], str]] = [
        (lambda frame: frame.selectExpr("record_key", "event", "1 AS time"), "time"),
    ]
    for function, named in wrong:
        submit.transform = shipped(Given(function))
        refused = submit.run(DAYS[1:], token="b" * 32)
        assert isinstance(refused.report.failure, Failure)
        assert refused.report.failure.type == "ConfigError"
        assert named in refused.report.failure.message
        assert "These are the columns of the transform's result" in refused.report.failure.message
        assert requests(submit) == asked
