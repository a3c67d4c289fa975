"""### Tables of one database in one task, each replaced once a day

Needs the connections `shop_db` (type Postgres, MySQL or SQLite) and `spark_default`.
"""

import datetime as dt

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily

with DAG(
    "fifty_tables",
    schedule=daily("UTC"),
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    doc_md=__doc__,
):
    ConnectOperator(
        task_id="tables",
        source=SqlSource(conn_id="shop_db", tables=["*", "!tmp_*"], snapshot="replace"),
        sink=DeltaSink(path="/data/lake/{table}"),
    )
