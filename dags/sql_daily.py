"""### Tables of a database into Delta tables, a day at a time

`orders` has the orders created on the day, by their `created_at`. Each run loads two earlier days again, for orders of
transactions that took hours to commit. `customers` is the whole table in its present state. Each run replaces it.

Needs the connection `shop_db` (type Postgres, MySQL or SQLite) and the Spark connection `spark_default`, for example
`AIRFLOW_CONN_SHOP_DB='{"conn_type": "sqlite", "host": "/path/to/shop.db"}'` and
`AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[*]"}'`.
"""

import datetime as dt
import os

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily

TABLES = os.environ.get("CONNECT_DEMO_TABLE", "/tmp/shop")  # noqa: S108  # how paths or URLs of your own begin
FIRST_DAY = dt.date.fromisoformat(os.environ.get("CONNECT_DEMO_FIRST_DAY", "2026-10-01"))

with DAG(
    "sql_daily",
    schedule=daily("UTC"),
    start_date=dt.datetime.combine(FIRST_DAY, dt.time(), tzinfo=dt.UTC),
    catchup=True,
    max_active_runs=2,
    doc_md=__doc__,
    tags=["connect", "sql", "delta"],
):
    ConnectOperator(
        task_id="orders",
        source=SqlSource(conn_id="shop_db", table="orders", day_column="created_at"),
        sink=DeltaSink(path=f"{TABLES}_orders"),
        ready_after=dt.timedelta(minutes=30),
        lookback_days=2,
    )
    ConnectOperator(
        task_id="customers",
        source=SqlSource(conn_id="shop_db", table="customers", snapshot="replace"),
        sink=DeltaSink(path=f"{TABLES}_customers"),
    )
