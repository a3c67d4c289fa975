"""### Mixpanel events into a Kafka topic, a day at a time

One run for each calendar day of the project's zone. `start_date` is the first day, and catchup makes a run for every
day since. `airflow backfill create` loads any range again. Clearing a task publishes its day again as a new generation.
A day is one transaction: a consumer with `isolation.level=read_committed` sees nothing of a failed day.

Needs the connections `mixpanel_default` (type Mixpanel), `kafka_default` (type Kafka, with librdkafka's settings as its
extra, such as `{"bootstrap.servers": "…"}`) and `spark_default`. The first day creates the topic.
"""

import datetime as dt
import os
from zoneinfo import ZoneInfo

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.timetables import daily

ZONE = "US/Pacific"
FIRST_DAY = dt.date.fromisoformat(os.environ.get("CONNECT_DEMO_FIRST_DAY", "2026-10-01"))

with DAG(
    "mixpanel_to_kafka",
    schedule=daily(ZONE),
    start_date=dt.datetime.combine(FIRST_DAY, dt.time(), tzinfo=ZoneInfo(ZONE)),
    catchup=True,
    max_active_runs=4,
    doc_md=__doc__,
    tags=["connect", "mixpanel", "kafka"],
):
    ConnectOperator(
        task_id="events",
        source=MixpanelSource(conn_id="mixpanel_default", stream="export", zone=ZONE),
        sink=KafkaSink(conn_id="kafka_default", topic="mixpanel_events"),
    )
