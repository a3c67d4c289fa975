"""### Orders as they are now, one row for each

Needs the connections `shop_db` (type Postgres or MySQL) and `spark_default`.
"""

import datetime as dt

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily

with DAG(
    "orders_by_key",
    schedule=daily("UTC"),
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    doc_md=__doc__,
):
    ConnectOperator(
        task_id="orders",
        source=SqlSource(conn_id="shop_db", table="orders", mode="timestamp", timestamp_column="changed_at"),
        sink=DeltaSink(path="/data/lake/orders", write_mode="merge", key=["id"], newest_by="changed_at"),
    )
