"""### Tables of one database, each replaced once a day

Needs the connections `shop_db` (type Postgres, MySQL or SQLite) and `spark_default`.
"""

import datetime as dt

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily

TABLES = ["customers", "products", "suppliers"]  # and the others

with DAG(
    "fifty_tables",
    schedule=daily("UTC"),
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    max_active_tasks=4,  # each task starts Spark
    doc_md=__doc__,
):
    for table in TABLES:
        ConnectOperator(
            task_id=table,
            source=SqlSource(conn_id="shop_db", table=table, snapshot="replace"),
            sink=DeltaSink(path=f"/data/lake/{table}"),
        )
