"""Many days over a change of clocks, up to sixteen at once, into each sink: what the system tests let catchup do."""

import datetime as dt
import os
from zoneinfo import ZoneInfo

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.timetables import daily

ZONE = "US/Pacific"
LAST = dt.date(2026, 11, 3)
FIRST = LAST - dt.timedelta(days=int(os.environ["CONNECT_CATCHUP_DAYS"]) - 1)
TABLES = {
    "catchup": DeltaSink(path=f"{os.environ['CONNECT_TEST_TABLES']}/catchup"),
    "bigquery_catchup": BigQuerySink(table="system.catchup"),
    "kafka_catchup": KafkaSink(topic="catchup", partitions=3),
}

for dag_id, sink in TABLES.items():
    with DAG(
        dag_id,
        schedule=daily(ZONE),
        start_date=dt.datetime.combine(FIRST, dt.time(), tzinfo=ZoneInfo(ZONE)),
        end_date=dt.datetime.combine(LAST, dt.time(), tzinfo=ZoneInfo(ZONE)),
        catchup=True,
        max_active_runs=16,
    ):
        ConnectOperator(
            task_id="events",
            conn_id="spark_one",
            source=MixpanelSource(conn_id="mixpanel_catchup", zone=ZONE, timestamps="utc"),
            sink=sink,
            retry_delay=dt.timedelta(seconds=2),
        )
