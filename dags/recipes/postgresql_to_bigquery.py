"""### Orders of PostgreSQL into BigQuery, a day at a time

Needs the connections `shop_db` (type Postgres), `google_cloud_default` and `spark_default`.
"""

import datetime as dt

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily

with DAG(
    "postgresql_to_bigquery",
    schedule=daily("UTC"),
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    catchup=True,
    max_active_runs=2,
    doc_md=__doc__,
):
    ConnectOperator(
        task_id="orders",
        source=SqlSource(conn_id="shop_db", table="orders", day_column="created_at"),
        sink=BigQuerySink(table="shop.orders"),
        lookback_days=2,  # for transactions that took hours to commit
    )
