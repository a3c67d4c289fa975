"""### Orders since today, and any earlier days by hand

Needs the connections `shop_db` (type Postgres, MySQL or SQLite) and `spark_default`.
"""

import datetime as dt

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily, days_form

with DAG(
    "orders_with_history",
    schedule=daily("UTC"),
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    params=days_form(),
    doc_md=__doc__,
):
    ConnectOperator(
        task_id="orders",
        source=SqlSource(conn_id="shop_db", table="orders", day_column="created_at"),
        sink=DeltaSink(path="/data/lake/orders"),
        origin="2025-11-01",
    )
