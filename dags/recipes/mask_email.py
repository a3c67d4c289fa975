"""### Customers whose e-mail addresses no reader of the table can see

Needs the connections `shop_db` (type Postgres, MySQL or SQLite), `mask_key` (any type, with at least 16 random bytes as
its password) and `spark_default`.
"""

import datetime as dt

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.shapes import Mask
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily

with DAG(
    "mask_email",
    schedule=daily("UTC"),
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    doc_md=__doc__,
):
    ConnectOperator(
        task_id="customers",
        source=SqlSource(conn_id="shop_db", table="customers", snapshot="replace"),
        sink=DeltaSink(path="/data/lake/customers"),
        shape=[Mask(columns=["email"], conn_id="mask_key")],
    )
