"""### A Kafka topic into a Delta table, every hour

Needs the connections `kafka_default` (type Kafka, with librdkafka's settings as its extra) and `spark_default`.
"""

import datetime as dt

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.kafka import KafkaSource
from airflow_provider_connect.timetables import every

with DAG(
    "topic_to_delta",
    schedule=every("1 hour", "UTC"),
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
):
    ConnectOperator(
        task_id="orders",
        source=KafkaSource(topics=["orders"], columns={"id": "bigint", "amount": "decimal(12,2)"}),
        sink=DeltaSink(path="/data/lake/orders"),
    )
