"""Tables of a database: what the system tests let catchup do with one that is in trouble."""

import datetime as dt
import os

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily

SOURCES = {
    "sql_catchup": SqlSource(conn_id="shop", table="orders", day_column="created", retry_budget_seconds=5),
    "sql_cursor": SqlSource(
        conn_id="shop",
        table="changes",
        mode="timestamp+incrementing",
        timestamp_column="changed",
        incrementing_column="id",
        retry_budget_seconds=5,
    ),
}
LAST = {"sql_catchup": 7, "sql_cursor": 4}
AT_ONCE = {"sql_catchup": 4, "sql_cursor": 1}

for dag_id, source in SOURCES.items():
    with DAG(
        dag_id,
        schedule=daily("UTC"),
        start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC),
        end_date=dt.datetime(2026, 10, LAST[dag_id], tzinfo=dt.UTC),
        catchup=True,
        max_active_runs=AT_ONCE[dag_id],
    ):
        ConnectOperator(
            task_id="events",
            conn_id="spark_one",
            source=source,
            sink=DeltaSink(path=f"{os.environ['CONNECT_TEST_TABLES']}/{dag_id}"),
            retries=9,
            retry_delay=dt.timedelta(seconds=2),
        )
