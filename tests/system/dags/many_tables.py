"""Tables of a file of SQLite in one task, and a DAG that an event of one of them starts."""

import datetime as dt
import os

from airflow.sdk import DAG, Asset, Param, task

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource

LAKE = f"{os.environ['CONNECT_TEST_TABLES']}/many"

with DAG("many_tables", schedule=None, params={"days": Param(type="string")}, is_paused_upon_creation=False):
    ConnectOperator(
        task_id="events",
        conn_id="spark_one",
        days="{{ params.days }}",
        source=SqlSource(conn_id="shop_file", tables=["*", "!tmp_*"], snapshot="replace"),
        sink=DeltaSink(path=f"{LAKE}/{{table}}"),
        retries=1,
        retry_delay=dt.timedelta(seconds=1),
    )

with DAG("on_orders", schedule=[Asset(uri=f"file://{LAKE}/orders")], is_paused_upon_creation=False):

    @task
    def seen() -> None:
        """Run because the table of orders was published."""

    seen()
