"""Runs that share a quota too small for all of them."""

import datetime as dt
import os

from airflow.sdk import DAG, Param

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

with DAG("rationed", schedule=None, params={"days": Param(type="string")}, max_active_runs=16):
    ConnectOperator(
        task_id="events",
        conn_id="spark_one",
        days="{{ params.days }}",
        source=MixpanelSource(conn_id="mixpanel_rationed"),
        sink=DeltaSink(path=f"{os.environ['CONNECT_TEST_TABLES']}/rationed"),
        retries=0,
        retry_delay=dt.timedelta(seconds=1),
    )
