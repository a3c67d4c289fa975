"""Days that a person starts by hand: each way of Airflow to trigger a run."""

import datetime as dt
import os

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.timetables import daily, days_form

with DAG(
    "dated",
    schedule=daily("US/Pacific"),
    start_date=dt.datetime(2026, 10, 1),  # noqa: DTZ001  # as people write it
    catchup=False,
    params=days_form(),
    max_active_runs=4,
):
    ConnectOperator(
        task_id="events",
        conn_id="spark_one",
        source=MixpanelSource(conn_id="mixpanel_catchup", zone="US/Pacific"),
        sink=DeltaSink(path=f"{os.environ['CONNECT_TEST_TABLES']}/dated"),
        retries=0,
    )
