"""Days that answer otherwise each time they are asked for: what the tests of clear, backfill and `dags test` run."""

import datetime as dt
import os
from pathlib import Path

from airflow.sdk import DAG, Asset, Param, task

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.timetables import daily

TABLES = os.environ["CONNECT_TEST_TABLES"]
OPTIONS = {
    "task_id": "events",
    "conn_id": "spark_one",
    "source": MixpanelSource(conn_id="mixpanel_editions", read_timeout_seconds=600, retry_budget_seconds=5),
    "retry_delay": dt.timedelta(seconds=1),
    "pool": "sparks",
}
BY_HAND = {"schedule": None, "params": {"days": Param(type="string")}, "max_active_runs": 16}

for dag_id in ("editions", "editions_too"):
    with DAG(dag_id, **BY_HAND):
        ConnectOperator(days="{{ params.days }}", sink=DeltaSink(path=f"{TABLES}/editions"), **OPTIONS)

with DAG("editions_gated", **BY_HAND):

    @task.sensor(poke_interval=1, mode="poke", timeout=3600)
    def gate() -> bool:
        """Wait for the file that a test makes."""
        return Path(TABLES, "gate-is-open").exists()

    events = ConnectOperator(days="{{ params.days }}", sink=DeltaSink(path=f"{TABLES}/editions"), **OPTIONS)
    gate() >> events

for dag_id, first in (("forwards", 2), ("backwards", 2), ("reprocessed", 22)):
    with DAG(
        dag_id,
        schedule=daily("UTC"),
        start_date=dt.datetime(2026, 7, first, tzinfo=dt.UTC),
        end_date=dt.datetime(2026, 7, first + 1, tzinfo=dt.UTC),
        catchup=True,
    ):
        ConnectOperator(sink=DeltaSink(path=f"{TABLES}/{dag_id}"), **OPTIONS)

with DAG("mapped", **BY_HAND):
    ConnectOperator.partial(days="{{ params.days }}", **OPTIONS).expand_kwargs(
        [
            {"sink": DeltaSink(path=f"{TABLES}/mapped_first")},
            {
                "sink": DeltaSink(path="{{ params.tables }}/mapped_second"),
                "asset": Asset("second", uri="x-own://second"),
            },
        ]
    )
