"""### A message to Slack when a load has failed

Needs the connections `slack` (any type, with an incoming webhook's URL as its password), `shop_db` and `spark_default`.
"""

import datetime as dt
import html

import requests
from airflow.sdk import DAG, Connection

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily


def send_to_slack(context):
    ti = context["ti"]
    report = ti.xcom_pull(key="report") or {"days": []}
    lines = [f"{ti.dag_id}.{ti.task_id} has failed: {context.get('exception')}"]
    lines += [f"{day['day']} {day['status']}" for day in report["days"] if day["status"] in ("failed", "not_started")]
    message = {"text": html.escape("\n".join([*lines, ti.log_url]), quote=False)}
    requests.post(Connection.get("slack").password, json=message, timeout=10).raise_for_status()


with DAG(
    "alert_to_slack",
    schedule=daily("UTC"),
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    default_args={"on_failure_callback": send_to_slack},
    doc_md=__doc__,
):
    ConnectOperator(
        task_id="orders",
        source=SqlSource(conn_id="shop_db", table="orders", day_column="created_at"),
        sink=DeltaSink(path="/data/lake/orders"),
        on_empty="never",
    )
