"""One day, or a few, each run of its own, into each sink: what the kill tests and the reload tests trigger."""

import datetime as dt
import os

from airflow.sdk import DAG, Asset, Param, task

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

TABLES = {
    "by_hand": DeltaSink(path=f"{os.environ['CONNECT_TEST_TABLES']}/by_hand"),
    "bigquery_by_hand": BigQuerySink(table="system.by_hand"),
    # One partition: commits reach several one after the other, and a reader could see a day on its way.
    "kafka_by_hand": KafkaSink(topic="by_hand", partitions=1),
}

for dag_id, sink in TABLES.items():
    with DAG(dag_id, schedule=None, params={"days": Param(type="string")}, max_active_runs=16):
        ConnectOperator(
            task_id="events",
            conn_id="spark_one",
            name="{{ run_id }}",
            days="{{ params.days }}",
            source=MixpanelSource(conn_id="mixpanel_by_hand", retry_budget_seconds=5),
            sink=sink,
            progress_seconds=0.5,
            retry_delay=dt.timedelta(seconds=1),
        )


with DAG("on_table", schedule=[Asset(uri=TABLES["by_hand"].asset_uri)], is_paused_upon_creation=False):

    @task
    def seen() -> None:
        """Run because a day was published."""

    seen()
