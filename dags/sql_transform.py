"""### Sums of a day's orders, computed by Spark SQL, in Delta tables

`by_product` is a query over the orders of the day: the sales of each product. `with_customers` is a function in the
file `functions/shop_functions.py`: the orders with the customers' names, from another table that the driver reads.

Needs the connection `shop_db` (type Postgres, MySQL or SQLite), the Spark connection `spark_default`, and the customers
as Parquet files, for example
`AIRFLOW_CONN_SHOP_DB='{"conn_type": "sqlite", "host": "/path/to/shop.db"}'` and
`AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[*]"}'`.
"""

import datetime as dt
import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily

TABLES = os.environ.get("CONNECT_DEMO_TABLE", "/tmp/shop")  # noqa: S108  # how paths or URLs of your own begin
FIRST_DAY = dt.date.fromisoformat(os.environ.get("CONNECT_DEMO_FIRST_DAY", "2026-10-01"))

BY_PRODUCT = """
    SELECT md5(concat_ws('|', product, :day)) AS record_key, product, count(*) AS orders, sum(cents) AS cents
    FROM polled
    GROUP BY product
"""


with DAG(
    "sql_transform",
    schedule=daily("UTC"),
    start_date=dt.datetime.combine(FIRST_DAY, dt.time(), tzinfo=dt.UTC),
    catchup=True,
    max_active_runs=2,
    doc_md=__doc__,
    tags=["connect", "sql", "transform", "delta"],
):
    source = SqlSource(conn_id="shop_db", table="orders", day_column="created_at")
    ConnectOperator(
        task_id="by_product",
        source=source,
        sink=DeltaSink(path=f"{TABLES}_by_product"),
        transform=BY_PRODUCT,
    )
    ConnectOperator(
        task_id="with_customers",
        source=source,
        sink=DeltaSink(path=f"{TABLES}_with_customers"),
        transform="shop_functions:with_customers",
        py_files=str(Path(__file__).parent / "functions" / "shop_functions.py"),
    )
