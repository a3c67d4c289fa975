"""Days of a declared REST API, and of X: what the system tests let catchup do with APIs that are in trouble."""

import datetime as dt
import os

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.rest import Flag, PageNumber, Records, Request, RestSource
from airflow_provider_connect.sources.x_search import XSearchSource
from airflow_provider_connect.timetables import daily

SOURCES = {
    "rest_catchup": RestSource(
        conn_id="api",
        stream="items",
        request=Request(path="/pages/totals", params={"since": "{day.start}", "until": "{day.end}"}),
        paging=PageNumber(ends=Flag(at="more", last=False)),
        records=Records(at="items", key=("id",), columns={"id": "bigint", "at": "timestamp"}, day="at"),
        retry_budget_seconds=5,
    ),
    "x_catchup": XSearchSource(conn_id="x", queries=["coffee", "tea OR rain"], retry_budget_seconds=5),
}

LAST = {"rest_catchup": 7, "x_catchup": 4}

for dag_id, source in SOURCES.items():
    with DAG(
        dag_id,
        schedule=daily("UTC"),
        start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC),
        end_date=dt.datetime(2026, 10, LAST[dag_id], tzinfo=dt.UTC),
        catchup=True,
        max_active_runs=4,
    ):
        ConnectOperator(
            task_id="events",
            conn_id="spark_one",
            source=source,
            sink=DeltaSink(path=f"{os.environ['CONNECT_TEST_TABLES']}/{dag_id}"),
            retries=3,
            retry_delay=dt.timedelta(seconds=2),
        )
