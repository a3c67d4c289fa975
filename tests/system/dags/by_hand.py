"""One day, or a few, each run of its own: what the kill tests and the reload tests trigger."""

import datetime as dt
import os

from airflow.sdk import DAG, Param

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

with DAG("by_hand", schedule=None, params={"days": Param(type="string")}, max_active_runs=16):
    ConnectOperator(
        task_id="events",
        conn_id="spark_one",
        name="{{ run_id }}",
        days="{{ params.days }}",
        source=MixpanelSource(conn_id="mixpanel_by_hand", retry_budget_seconds=5),
        sink=DeltaSink(path=f"{os.environ['CONNECT_TEST_TABLES']}/by_hand"),
        progress_seconds=0.5,
        retry_delay=dt.timedelta(seconds=1),
    )
