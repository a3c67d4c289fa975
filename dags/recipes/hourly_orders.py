"""### New orders, every hour

Needs the connections `shop_db` (type Postgres, MySQL or SQLite) and `spark_default`.
"""

import datetime as dt

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import every

with DAG(
    "hourly_orders",
    schedule=every("1 hour", "UTC"),  # or "15 minutes"
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    max_active_runs=1,
    doc_md=__doc__,
):
    ConnectOperator(
        task_id="orders",
        source=SqlSource(conn_id="shop_db", table="orders", mode="incrementing", incrementing_column="id"),
        sink=DeltaSink(path="/data/lake/orders"),
    )
