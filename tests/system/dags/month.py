"""A month of daily runs that look back, in both of Mixpanel's time regimes."""

import datetime as dt
import os
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

SHIFTED_CLOCK = Path(__file__).parents[2] / "equipment" / "airflow" / "shifted_clock"
PYTHONPATH = os.pathsep.join(filter(None, [str(SHIFTED_CLOCK), os.environ.get("PYTHONPATH")]))

for dag_id, timestamps in (("month_utc", "utc"), ("month_local", "project_local")):
    with DAG(
        dag_id,
        schedule=None,
        start_date=dt.datetime(2026, 3, 1, tzinfo=dt.UTC),
        params={"days": Param(type="string"), "now": Param(type="string")},
        max_active_runs=1,
    ):
        ConnectOperator(
            task_id="events",
            conn_id="spark_one",
            days="{{ params.days }}",
            source=MixpanelSource(
                conn_id=f"mixpanel_{dag_id}",
                zone="US/Pacific" if timestamps == "project_local" else "UTC",
                timestamps=timestamps,
            ),
            sink=DeltaSink(path=f"{os.environ['CONNECT_TEST_TABLES']}/{dag_id}"),
            on_shrink="warn",
            lookback_days=3,
            env_vars={"CONNECT_TEST_NOW": "{{ params.now }}", "PYTHONPATH": PYTHONPATH},
            retry_delay=dt.timedelta(seconds=1),
        )
